"""The acts: train, evaluate, look. They are the only writers of runs."""

from skillwright.jobs.config import RunConfig
from skillwright.jobs.config_load import dump_config, load_config
from skillwright.jobs.doctor import Finding, Health, examine
from skillwright.jobs.evaluate import EvalPlan, EvalReport, EvalSplit, evaluate
from skillwright.jobs.launch import (
    Run,
    demo_file,
    find_run,
    has_scripted_minds,
    open_run,
    run_evaluation,
    run_training,
    start_run,
)
from skillwright.jobs.preflight import preflight
from skillwright.jobs.progress import (
    CallFinished,
    EpisodeFinished,
    EpochEnded,
    Event,
    RunStarted,
    Scored,
    StageStarted,
    StepDecided,
    Unwatched,
    Watcher,
)
from skillwright.jobs.state import EpochRecord, StepRecord, TrainState
from skillwright.jobs.summary import RunSummary, read_run, summarise_runs
from skillwright.jobs.train import TrainReport, train
from skillwright.jobs.wiring import (
    Arena,
    Assembly,
    MakeModel,
    assemble,
    assemble_arena,
    read_initial_skill,
)

__all__ = [
    "Arena",
    "Assembly",
    "CallFinished",
    "EpisodeFinished",
    "EpochEnded",
    "EpochRecord",
    "EvalPlan",
    "EvalReport",
    "EvalSplit",
    "Event",
    "Finding",
    "Health",
    "MakeModel",
    "Run",
    "RunConfig",
    "RunStarted",
    "RunSummary",
    "Scored",
    "StageStarted",
    "StepDecided",
    "StepRecord",
    "TrainReport",
    "TrainState",
    "Unwatched",
    "Watcher",
    "assemble",
    "assemble_arena",
    "demo_file",
    "dump_config",
    "evaluate",
    "examine",
    "find_run",
    "has_scripted_minds",
    "load_config",
    "open_run",
    "preflight",
    "read_initial_skill",
    "read_run",
    "run_evaluation",
    "run_training",
    "start_run",
    "summarise_runs",
    "train",
]
