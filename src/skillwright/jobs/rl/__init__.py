"""The whole recipe of SkillRL as a job: a bank of skills, and a policy that is trained with it.

Nothing here imports torch before a run begins.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillwright.jobs.rl.judged import InternalizedRecord as InternalizedRecord
    from skillwright.jobs.rl.judged import PolicyJudged as PolicyJudged
    from skillwright.jobs.rl.judged import PolicyStepRecord as PolicyStepRecord
    from skillwright.jobs.rl.judged import SkillsInternalized as SkillsInternalized
    from skillwright.jobs.rl.launch import RlRun as RlRun
    from skillwright.jobs.rl.launch import coevolving as coevolving
    from skillwright.jobs.rl.launch import is_rl_run as is_rl_run
    from skillwright.jobs.rl.launch import open_rl as open_rl
    from skillwright.jobs.rl.launch import refuse_without_torch as refuse_without_torch
    from skillwright.jobs.rl.launch import rl_has_scripted_models as rl_has_scripted_models
    from skillwright.jobs.rl.launch import run_rl as run_rl
    from skillwright.jobs.rl.launch import start_rl as start_rl
    from skillwright.jobs.rl.launch import supervised as supervised
    from skillwright.jobs.rl.state import BankEvolved as BankEvolved
    from skillwright.jobs.rl.state import ColdStartEnded as ColdStartEnded
    from skillwright.jobs.rl.state import ColdStartStep as ColdStartStep
    from skillwright.jobs.rl.state import EvolutionRecord as EvolutionRecord
    from skillwright.jobs.rl.state import FirstBankMade as FirstBankMade
    from skillwright.jobs.rl.state import IterationEnded as IterationEnded
    from skillwright.jobs.rl.state import IterationRecord as IterationRecord
    from skillwright.jobs.rl.state import RlCallback as RlCallback
    from skillwright.jobs.rl.state import RlEvent as RlEvent
    from skillwright.jobs.rl.state import RlReport as RlReport
    from skillwright.jobs.rl.state import RlState as RlState
    from skillwright.jobs.rl.state import Validated as Validated
    from skillwright.jobs.rl.state import Validation as Validation

_PLACES = (
    (
        "skillwright.jobs.rl.launch",
        "RlRun coevolving rl_has_scripted_models is_rl_run open_rl refuse_without_torch run_rl "
        "start_rl supervised",
    ),
    (
        "skillwright.jobs.rl.state",
        "BankEvolved ColdStartEnded ColdStartStep FirstBankMade IterationEnded RlEvent "
        "RlCallback Validated",
    ),
    (
        "skillwright.jobs.rl.judged",
        "InternalizedRecord PolicyJudged PolicyStepRecord SkillsInternalized",
    ),
    ("skillwright.jobs.rl.state", "RlReport"),
    ("skillwright.jobs.rl.state", "EvolutionRecord IterationRecord RlState Validation"),
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
