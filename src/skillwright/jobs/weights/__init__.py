"""The whole recipe of SkillRL as a job: a bank of skills, and a policy that is trained with it.

Nothing here imports torch before a run begins.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwright.jobs.weights.judged import InternalizedRecord as InternalizedRecord
    from skillwright.jobs.weights.judged import PolicyJudged as PolicyJudged
    from skillwright.jobs.weights.judged import PolicyStepRecord as PolicyStepRecord
    from skillwright.jobs.weights.judged import SkillsInternalized as SkillsInternalized
    from skillwright.jobs.weights.launch import RlRun as RlRun
    from skillwright.jobs.weights.launch import coevolving as coevolving
    from skillwright.jobs.weights.launch import is_rl_run as is_rl_run
    from skillwright.jobs.weights.launch import open_rl as open_rl
    from skillwright.jobs.weights.launch import refuse_without_torch as refuse_without_torch
    from skillwright.jobs.weights.launch import rl_has_scripted_models as rl_has_scripted_models
    from skillwright.jobs.weights.launch import run_rl as run_rl
    from skillwright.jobs.weights.launch import start_rl as start_rl
    from skillwright.jobs.weights.launch import supervised as supervised
    from skillwright.jobs.weights.state import BankEvolved as BankEvolved
    from skillwright.jobs.weights.state import ColdStartEnded as ColdStartEnded
    from skillwright.jobs.weights.state import ColdStartStep as ColdStartStep
    from skillwright.jobs.weights.state import EvolutionRecord as EvolutionRecord
    from skillwright.jobs.weights.state import FirstBankMade as FirstBankMade
    from skillwright.jobs.weights.state import IterationEnded as IterationEnded
    from skillwright.jobs.weights.state import IterationRecord as IterationRecord
    from skillwright.jobs.weights.state import RlCallback as RlCallback
    from skillwright.jobs.weights.state import RlEvent as RlEvent
    from skillwright.jobs.weights.state import RlReport as RlReport
    from skillwright.jobs.weights.state import RlState as RlState
    from skillwright.jobs.weights.state import Validated as Validated
    from skillwright.jobs.weights.state import Validation as Validation

_PLACES = (
    (
        "skillwright.jobs.weights.launch",
        "RlRun coevolving rl_has_scripted_models is_rl_run open_rl refuse_without_torch run_rl "
        "start_rl supervised",
    ),
    (
        "skillwright.jobs.weights.state",
        "BankEvolved ColdStartEnded ColdStartStep FirstBankMade IterationEnded RlEvent "
        "RlCallback Validated",
    ),
    (
        "skillwright.jobs.weights.judged",
        "InternalizedRecord PolicyJudged PolicyStepRecord SkillsInternalized",
    ),
    ("skillwright.jobs.weights.state", "RlReport"),
    ("skillwright.jobs.weights.state", "EvolutionRecord IterationRecord RlState Validation"),
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
