"""The jobs: train, evaluate, inspect. They are the only writers of runs.

Names are imported when they are asked for: a command that lists runs needs no learner.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwright.jobs.bank.distill import DistillOutcome as DistillOutcome
    from skillwright.jobs.bank.distill import StudiedRun as StudiedRun
    from skillwright.jobs.bank.distill import distill_config as distill_config
    from skillwright.jobs.bank.distill import distill_runs as distill_runs
    from skillwright.jobs.bank.distill import study_run as study_run
    from skillwright.jobs.bank.evolve import EvolutionRound as EvolutionRound
    from skillwright.jobs.bank.evolve import EvolveReport as EvolveReport
    from skillwright.jobs.bank.evolve import evolve_bank as evolve_bank
    from skillwright.jobs.bank.evolve import evolve_on_rollouts as evolve_on_rollouts
    from skillwright.jobs.bank.export import ExportOptions as ExportOptions
    from skillwright.jobs.bank.export import TakenAway as TakenAway
    from skillwright.jobs.bank.export import take_bank_away as take_bank_away
    from skillwright.jobs.bank.export import take_document_away as take_document_away
    from skillwright.jobs.bank.import_and_approve import MoveReport as MoveReport
    from skillwright.jobs.bank.import_and_approve import approve_by_gate as approve_by_gate
    from skillwright.jobs.bank.import_and_approve import (
        approve_without_gate as approve_without_gate,
    )
    from skillwright.jobs.bank.import_and_approve import import_into as import_into
    from skillwright.jobs.bank.search import Answer as Answer
    from skillwright.jobs.bank.search import BankStatistics as BankStatistics
    from skillwright.jobs.bank.search import bank_statistics as bank_statistics
    from skillwright.jobs.bank.search import search_bank as search_bank
    from skillwright.jobs.bank.verify import Checked as Checked
    from skillwright.jobs.bank.verify import Verified as Verified
    from skillwright.jobs.bank.verify import verify_skills as verify_skills
    from skillwright.jobs.inspect.compare import ComparedSide as ComparedSide
    from skillwright.jobs.inspect.compare import ComparedTask as ComparedTask
    from skillwright.jobs.inspect.compare import RunComparison as RunComparison
    from skillwright.jobs.inspect.compare import compare_runs as compare_runs
    from skillwright.jobs.inspect.compare_sides import CompareMetric as CompareMetric
    from skillwright.jobs.inspect.critical_path import CriticalPath as CriticalPath
    from skillwright.jobs.inspect.critical_path import critical_path as critical_path
    from skillwright.jobs.inspect.episodes import EpisodeList as EpisodeList
    from skillwright.jobs.inspect.episodes import EpisodeQuery as EpisodeQuery
    from skillwright.jobs.inspect.episodes import EpisodeView as EpisodeView
    from skillwright.jobs.inspect.episodes import FoundEpisode as FoundEpisode
    from skillwright.jobs.inspect.episodes import TurnView as TurnView
    from skillwright.jobs.inspect.episodes import list_episodes as list_episodes
    from skillwright.jobs.inspect.episodes import read_episode as read_episode
    from skillwright.jobs.inspect.export import export_skillopt as export_skillopt
    from skillwright.jobs.inspect.fork import ForkOutcome as ForkOutcome
    from skillwright.jobs.inspect.fork import PlannedFork as PlannedFork
    from skillwright.jobs.inspect.fork import plan_fork as plan_fork
    from skillwright.jobs.inspect.fork import read_fork as read_fork
    from skillwright.jobs.inspect.regrade import Regraded as Regraded
    from skillwright.jobs.inspect.regrade import RegradeReport as RegradeReport
    from skillwright.jobs.inspect.regrade import regrade as regrade
    from skillwright.jobs.inspect.replay import Differing as Differing
    from skillwright.jobs.inspect.replay import ReplayReport as ReplayReport
    from skillwright.jobs.inspect.replay import replay_run as replay_run
    from skillwright.jobs.inspect.study import SeedResult as SeedResult
    from skillwright.jobs.inspect.study import Study as Study
    from skillwright.jobs.inspect.study import StudySummary as StudySummary
    from skillwright.jobs.inspect.study import find_study as find_study
    from skillwright.jobs.inspect.study import open_study as open_study
    from skillwright.jobs.inspect.study import read_study as read_study
    from skillwright.jobs.inspect.study import run_study as run_study
    from skillwright.jobs.inspect.study import start_study as start_study
    from skillwright.jobs.inspect.study import summarize_studies as summarize_studies
    from skillwright.jobs.inspect.summary import RunSummary as RunSummary
    from skillwright.jobs.inspect.summary import is_finished as is_finished
    from skillwright.jobs.inspect.summary import read_run as read_run
    from skillwright.jobs.inspect.summary import summarize_runs as summarize_runs
    from skillwright.jobs.run.bank_source import read_bank as read_bank
    from skillwright.jobs.run.bench import Bench as Bench
    from skillwright.jobs.run.bench import Sizes as Sizes
    from skillwright.jobs.run.bench import StepRef as StepRef
    from skillwright.jobs.run.money import BudgetSpent as BudgetSpent
    from skillwright.jobs.run.money import PricedModel as PricedModel
    from skillwright.jobs.run.money import priced_models as priced_models
    from skillwright.jobs.run.opened import MakeModel as MakeModel
    from skillwright.jobs.run.progress import Callback as Callback
    from skillwright.jobs.run.progress import CallFinished as CallFinished
    from skillwright.jobs.run.progress import EpisodeFinished as EpisodeFinished
    from skillwright.jobs.run.progress import EpochEnded as EpochEnded
    from skillwright.jobs.run.progress import Event as Event
    from skillwright.jobs.run.progress import NullCallback as NullCallback
    from skillwright.jobs.run.progress import ReleaseTested as ReleaseTested
    from skillwright.jobs.run.progress import RunStarted as RunStarted
    from skillwright.jobs.run.progress import Scored as Scored
    from skillwright.jobs.run.progress import StageStarted as StageStarted
    from skillwright.jobs.run.progress import StepDecided as StepDecided
    from skillwright.jobs.run.tasks import EnvFindings as EnvFindings
    from skillwright.jobs.run.turn_ends import TurnEnds as TurnEnds
    from skillwright.jobs.text.evaluate import MOST_FAILURES as MOST_FAILURES
    from skillwright.jobs.text.evaluate import EvalPlan as EvalPlan
    from skillwright.jobs.text.evaluate import EvalReport as EvalReport
    from skillwright.jobs.text.evaluate import EvalSplit as EvalSplit
    from skillwright.jobs.text.evaluate import evaluate as evaluate
    from skillwright.jobs.text.forking import Fork as Fork
    from skillwright.jobs.text.launch.estimate import Estimate as Estimate
    from skillwright.jobs.text.launch.estimate import estimate as estimate
    from skillwright.jobs.text.launch.preflight import Finding as Finding
    from skillwright.jobs.text.launch.preflight import Health as Health
    from skillwright.jobs.text.launch.preflight import examine as examine
    from skillwright.jobs.text.launch.preflight import preflight as preflight
    from skillwright.jobs.text.launch.runs import Run as Run
    from skillwright.jobs.text.launch.runs import demo_file as demo_file
    from skillwright.jobs.text.launch.runs import find_run as find_run
    from skillwright.jobs.text.launch.runs import has_scripted_models as has_scripted_models
    from skillwright.jobs.text.launch.runs import open_run as open_run
    from skillwright.jobs.text.launch.runs import run_evaluation as run_evaluation
    from skillwright.jobs.text.launch.runs import run_proof as run_proof
    from skillwright.jobs.text.launch.runs import run_training as run_training
    from skillwright.jobs.text.launch.runs import start_run as start_run
    from skillwright.jobs.text.state import Confirmation as Confirmation
    from skillwright.jobs.text.state import EpochRecord as EpochRecord
    from skillwright.jobs.text.state import StepRecord as StepRecord
    from skillwright.jobs.text.state import TrainState as TrainState
    from skillwright.jobs.text.train import TrainReport as TrainReport
    from skillwright.jobs.text.train import train as train
    from skillwright.jobs.text.wiring import Assembly as Assembly
    from skillwright.jobs.text.wiring import Session as Session
    from skillwright.jobs.text.wiring import assemble as assemble
    from skillwright.jobs.text.wiring import assemble_session as assemble_session
    from skillwright.jobs.text.wiring import read_initial_skill as read_initial_skill
    from skillwright.plugins.sessions.learn import LearnReport as LearnReport
    from skillwright.plugins.sessions.learn import begin_round as begin_round
    from skillwright.plugins.sessions.learn import learn_from_sessions as learn_from_sessions
    from skillwright.plugins.sessions.learn import plan_round as plan_round
    from skillwright.plugins.sessions.learn import roll_back_sessions as roll_back_sessions
    from skillwright.plugins.sessions.learn import session_config as session_config

_PLACES = (
    ("skillwright.jobs.bank.distill", "DistillOutcome distill_config distill_runs"),
    ("skillwright.jobs.bank.distill", "StudiedRun study_run"),
    ("skillwright.jobs.bank.evolve", "EvolutionRound EvolveReport evolve_bank evolve_on_rollouts"),
    ("skillwright.jobs.bank.search", "Answer BankStatistics bank_statistics search_bank"),
    (
        "skillwright.jobs.bank.import_and_approve",
        "MoveReport approve_by_gate approve_without_gate import_into",
    ),
    (
        "skillwright.plugins.sessions.learn",
        "LearnReport begin_round learn_from_sessions plan_round",
    ),
    ("skillwright.plugins.sessions.learn", "roll_back_sessions session_config"),
    (
        "skillwright.jobs.bank.export",
        "ExportOptions TakenAway take_bank_away take_document_away",
    ),
    ("skillwright.jobs.bank.verify", "Checked Verified verify_skills"),
    ("skillwright.jobs.inspect.compare", "compare_runs"),
    ("skillwright.jobs.inspect.compare_sides", "CompareMetric"),
    ("skillwright.jobs.inspect.compare", "ComparedSide ComparedTask RunComparison"),
    ("skillwright.jobs.inspect.critical_path", "CriticalPath critical_path"),
    (
        "skillwright.jobs.inspect.episodes",
        "EpisodeList EpisodeQuery EpisodeView FoundEpisode TurnView list_episodes read_episode",
    ),
    ("skillwright.jobs.inspect.regrade", "Regraded RegradeReport regrade"),
    ("skillwright.jobs.inspect.fork", "ForkOutcome PlannedFork plan_fork read_fork"),
    ("skillwright.jobs.inspect.replay", "Differing ReplayReport replay_run"),
    ("skillwright.jobs.inspect.export", "export_skillopt"),
    (
        "skillwright.jobs.inspect.study",
        "SeedResult Study StudySummary find_study open_study read_study run_study start_study "
        "summarize_studies",
    ),
    ("skillwright.jobs.inspect.summary", "RunSummary is_finished read_run summarize_runs"),
    ("skillwright.jobs.text.launch.preflight", "Finding Health examine"),
    ("skillwright.jobs.text.launch.estimate", "Estimate estimate"),
    ("skillwright.jobs.text.launch.preflight", "preflight"),
    (
        "skillwright.jobs.text.launch.runs",
        "Run demo_file find_run has_scripted_models open_run run_evaluation run_proof "
        "run_training start_run",
    ),
    ("skillwright.jobs.run.bank_source", "read_bank"),
    ("skillwright.jobs.run.bench", "Bench StepRef Sizes"),
    ("skillwright.jobs.run.money", "BudgetSpent PricedModel priced_models"),
    ("skillwright.jobs.run.opened", "MakeModel"),
    (
        "skillwright.jobs.run.progress",
        "CallFinished EpisodeFinished EpochEnded Event ReleaseTested RunStarted Scored "
        "StageStarted StepDecided NullCallback Callback",
    ),
    ("skillwright.jobs.run.tasks", "EnvFindings"),
    ("skillwright.jobs.run.turn_ends", "TurnEnds"),
    ("skillwright.jobs.text.state", "EpochRecord StepRecord"),
    ("skillwright.jobs.text.evaluate", "MOST_FAILURES EvalPlan EvalReport EvalSplit evaluate"),
    ("skillwright.jobs.text.forking", "Fork"),
    ("skillwright.jobs.text.state", "Confirmation TrainState"),
    ("skillwright.jobs.text.train", "TrainReport train"),
    (
        "skillwright.jobs.text.wiring",
        "Session Assembly assemble assemble_session read_initial_skill",
    ),
)
"""Modules with the names that they bring. A name is imported when it is first asked for."""

_MODULES = {name: module for module, names in _PLACES for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


class _Jobs(ModuleType):
    """Keeps the name ``train`` for the job, which a package has as well."""

    @property
    def train(self) -> Any:
        return __getattr__("train")

    @train.setter
    def train(self, package: ModuleType) -> None:
        """Take no note: the import system puts packages under their names."""


sys.modules[__name__].__class__ = _Jobs
