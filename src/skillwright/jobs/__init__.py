"""The acts: train, evaluate, look. They are the only writers of runs."""

from skillwright.jobs.bench import Bench, Place, Sizes
from skillwright.jobs.config import RunConfig
from skillwright.jobs.config_load import dump_config, load_config
from skillwright.jobs.critical_path import CriticalPath, critical_path
from skillwright.jobs.decisions import EpochRecord, StepRecord
from skillwright.jobs.doctor import Finding, Health, examine
from skillwright.jobs.estimate import Estimate, estimate
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
from skillwright.jobs.money import BudgetSpent, PricedMind, priced_minds
from skillwright.jobs.parity import DIFFERENCES, KEPT_OUT, Difference
from skillwright.jobs.parity_report import Standing, mode_line, say_mode, standings
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
from skillwright.jobs.regrade import Regraded, RegradeReport, regrade
from skillwright.jobs.state import Confirmation, TrainState
from skillwright.jobs.study import (
    SeedResult,
    Study,
    StudySummary,
    find_study,
    open_study,
    read_study,
    run_study,
    start_study,
    summarise_studies,
)
from skillwright.jobs.summary import RunSummary, is_finished, read_run, summarise_runs
from skillwright.jobs.tau_report import TauFindings
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
    "DIFFERENCES",
    "KEPT_OUT",
    "Arena",
    "Assembly",
    "Bench",
    "BudgetSpent",
    "CallFinished",
    "Confirmation",
    "CriticalPath",
    "Difference",
    "EpisodeFinished",
    "EpochEnded",
    "EpochRecord",
    "Estimate",
    "EvalPlan",
    "EvalReport",
    "EvalSplit",
    "Event",
    "Finding",
    "Health",
    "MakeModel",
    "Place",
    "PricedMind",
    "RegradeReport",
    "Regraded",
    "Run",
    "RunConfig",
    "RunStarted",
    "RunSummary",
    "Scored",
    "SeedResult",
    "Sizes",
    "StageStarted",
    "Standing",
    "StepDecided",
    "StepRecord",
    "Study",
    "StudySummary",
    "TauFindings",
    "TrainReport",
    "TrainState",
    "Unwatched",
    "Watcher",
    "assemble",
    "assemble_arena",
    "critical_path",
    "demo_file",
    "dump_config",
    "estimate",
    "evaluate",
    "examine",
    "find_run",
    "find_study",
    "has_scripted_minds",
    "is_finished",
    "load_config",
    "mode_line",
    "open_run",
    "open_study",
    "preflight",
    "priced_minds",
    "read_initial_skill",
    "read_run",
    "read_study",
    "regrade",
    "run_evaluation",
    "run_study",
    "run_training",
    "say_mode",
    "standings",
    "start_run",
    "start_study",
    "summarise_runs",
    "summarise_studies",
    "train",
]
