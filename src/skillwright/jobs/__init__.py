"""The acts: train, evaluate, look. They are the only writers of runs."""

from skillwright.jobs.bank_distil import DistilOutcome, distil_config, distil_runs
from skillwright.jobs.bank_evidence import StudiedRun, study_run
from skillwright.jobs.bank_evolve import EvolutionRound, EvolveReport, evolve_bank
from skillwright.jobs.bank_look import Answer, BankStatistics, bank_statistics, search_bank
from skillwright.jobs.bank_moves import MoveReport, admit_judged, admit_unjudged, import_into
from skillwright.jobs.bank_settings import StudySettings, study_settings
from skillwright.jobs.bank_source import read_bank
from skillwright.jobs.bench import Bench, Place, Sizes
from skillwright.jobs.compare import compare_runs
from skillwright.jobs.compare_sides import CompareMetric
from skillwright.jobs.comparison import ComparedSide, ComparedTask, RunComparison
from skillwright.jobs.config import RunConfig
from skillwright.jobs.config_load import dump_config, load_config
from skillwright.jobs.critical_path import CriticalPath, critical_path
from skillwright.jobs.decisions import EpochRecord, StepRecord
from skillwright.jobs.doctor import Finding, Health, examine
from skillwright.jobs.estimate import Estimate, estimate
from skillwright.jobs.evaluate import MOST_FAILURES, EvalPlan, EvalReport, EvalSplit, evaluate
from skillwright.jobs.launch import (
    Run,
    demo_file,
    find_run,
    has_scripted_minds,
    open_run,
    run_evaluation,
    run_proof,
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
    ReleaseTested,
    RunStarted,
    Scored,
    StageStarted,
    StepDecided,
    Unwatched,
    Watcher,
)
from skillwright.jobs.regrade import Regraded, RegradeReport, regrade
from skillwright.jobs.skillopt_export import export_skillopt
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
from skillwright.jobs.turn_ends import TurnEnds
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
    "MOST_FAILURES",
    "Answer",
    "Arena",
    "Assembly",
    "BankStatistics",
    "Bench",
    "BudgetSpent",
    "CallFinished",
    "CompareMetric",
    "ComparedSide",
    "ComparedTask",
    "Confirmation",
    "CriticalPath",
    "Difference",
    "DistilOutcome",
    "EpisodeFinished",
    "EpochEnded",
    "EpochRecord",
    "Estimate",
    "EvalPlan",
    "EvalReport",
    "EvalSplit",
    "Event",
    "EvolutionRound",
    "EvolveReport",
    "Finding",
    "Health",
    "MakeModel",
    "MoveReport",
    "Place",
    "PricedMind",
    "RegradeReport",
    "Regraded",
    "ReleaseTested",
    "Run",
    "RunComparison",
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
    "StudiedRun",
    "Study",
    "StudySettings",
    "StudySummary",
    "TauFindings",
    "TrainReport",
    "TrainState",
    "TurnEnds",
    "Unwatched",
    "Watcher",
    "admit_judged",
    "admit_unjudged",
    "assemble",
    "assemble_arena",
    "bank_statistics",
    "compare_runs",
    "critical_path",
    "demo_file",
    "distil_config",
    "distil_runs",
    "dump_config",
    "estimate",
    "evaluate",
    "evolve_bank",
    "examine",
    "export_skillopt",
    "find_run",
    "find_study",
    "has_scripted_minds",
    "import_into",
    "is_finished",
    "load_config",
    "mode_line",
    "open_run",
    "open_study",
    "preflight",
    "priced_minds",
    "read_bank",
    "read_initial_skill",
    "read_run",
    "read_study",
    "regrade",
    "run_evaluation",
    "run_proof",
    "run_study",
    "run_training",
    "say_mode",
    "search_bank",
    "standings",
    "start_run",
    "start_study",
    "study_run",
    "study_settings",
    "summarise_runs",
    "summarise_studies",
    "train",
]
