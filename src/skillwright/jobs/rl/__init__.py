"""The whole recipe of SkillRL as a job: a bank of skills, and a policy that is trained with it.

Nothing here imports torch before a run begins.
"""

from skillwright.jobs.rl.launch import (
    RlRun,
    has_stand_ins,
    is_rl_run,
    open_rl,
    refuse_without_torch,
    run_rl,
    start_rl,
)
from skillwright.jobs.rl.progress import (
    BankEvolved,
    ColdStartEnded,
    ColdStartStep,
    FirstBankMade,
    IterationEnded,
    RlEvent,
    RlWatcher,
    Validated,
)
from skillwright.jobs.rl.report import RlReport
from skillwright.jobs.rl.state import EvolutionRecord, IterationRecord, RlState, Validation

__all__ = [
    "BankEvolved",
    "ColdStartEnded",
    "ColdStartStep",
    "EvolutionRecord",
    "FirstBankMade",
    "IterationEnded",
    "IterationRecord",
    "RlEvent",
    "RlReport",
    "RlRun",
    "RlState",
    "RlWatcher",
    "Validated",
    "Validation",
    "has_stand_ins",
    "is_rl_run",
    "open_rl",
    "refuse_without_torch",
    "run_rl",
    "start_rl",
]
