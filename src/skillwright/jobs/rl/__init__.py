"""The whole recipe of SkillRL as a job: a bank of skills, and a policy that is trained with it.

Nothing here imports torch before a run begins.
"""

from skillwright.jobs.rl.config import RlConfig, validated_rl
from skillwright.jobs.rl.config_load import dump_rl_config, is_rl_config, load_rl_config
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
    "RlConfig",
    "RlEvent",
    "RlReport",
    "RlRun",
    "RlState",
    "RlWatcher",
    "Validated",
    "Validation",
    "dump_rl_config",
    "has_stand_ins",
    "is_rl_config",
    "is_rl_run",
    "load_rl_config",
    "open_rl",
    "refuse_without_torch",
    "run_rl",
    "start_rl",
    "validated_rl",
]
