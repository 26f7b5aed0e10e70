"""The acts: train, evaluate, look. They are the only writers of runs."""

from skillwright.jobs.bank.distil import DistilOutcome, distil_config, distil_runs
from skillwright.jobs.bank.evidence import StudiedRun, study_run
from skillwright.jobs.bank.evolve import EvolutionRound, EvolveReport, evolve_bank
from skillwright.jobs.bank.look import Answer, BankStatistics, bank_statistics, search_bank
from skillwright.jobs.bank.moves import MoveReport, admit_judged, admit_unjudged, import_into
from skillwright.jobs.inspect.compare import compare_runs
from skillwright.jobs.inspect.compare_sides import CompareMetric
from skillwright.jobs.inspect.comparison import ComparedSide, ComparedTask, RunComparison
from skillwright.jobs.inspect.critical_path import CriticalPath, critical_path
from skillwright.jobs.inspect.episodes import (
    EpisodeList,
    EpisodeQuery,
    EpisodeView,
    FoundEpisode,
    TurnView,
    list_episodes,
    read_episode,
)
from skillwright.jobs.inspect.regrade import Regraded, RegradeReport, regrade
from skillwright.jobs.inspect.skillopt_export import export_skillopt
from skillwright.jobs.inspect.study import (
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
from skillwright.jobs.inspect.summary import RunSummary, is_finished, read_run, summarise_runs
from skillwright.jobs.launch.doctor import Finding, Health, examine
from skillwright.jobs.launch.estimate import Estimate, estimate
from skillwright.jobs.launch.preflight import preflight
from skillwright.jobs.launch.runs import (
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
from skillwright.jobs.parts.bank_source import read_bank
from skillwright.jobs.parts.bench import Bench, Place, Sizes
from skillwright.jobs.parts.environment import EnvFindings
from skillwright.jobs.parts.money import BudgetSpent, PricedMind, priced_minds
from skillwright.jobs.parts.opened import MakeModel
from skillwright.jobs.parts.progress import (
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
from skillwright.jobs.parts.turn_ends import TurnEnds
from skillwright.jobs.train.decisions import EpochRecord, StepRecord
from skillwright.jobs.train.evaluate import MOST_FAILURES, EvalPlan, EvalReport, EvalSplit, evaluate
from skillwright.jobs.train.state import Confirmation, TrainState
from skillwright.jobs.train.train import TrainReport, train
from skillwright.jobs.train.wiring import (
    Arena,
    Assembly,
    assemble,
    assemble_arena,
    read_initial_skill,
)

__all__ = [
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
    "DistilOutcome",
    "EnvFindings",
    "EpisodeFinished",
    "EpisodeList",
    "EpisodeQuery",
    "EpisodeView",
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
    "FoundEpisode",
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
    "RunStarted",
    "RunSummary",
    "Scored",
    "SeedResult",
    "Sizes",
    "StageStarted",
    "StepDecided",
    "StepRecord",
    "StudiedRun",
    "Study",
    "StudySummary",
    "TrainReport",
    "TrainState",
    "TurnEnds",
    "TurnView",
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
    "list_episodes",
    "open_run",
    "open_study",
    "preflight",
    "priced_minds",
    "read_bank",
    "read_episode",
    "read_initial_skill",
    "read_run",
    "read_study",
    "regrade",
    "run_evaluation",
    "run_proof",
    "run_study",
    "run_training",
    "search_bank",
    "start_run",
    "start_study",
    "study_run",
    "summarise_runs",
    "summarise_studies",
    "train",
]
