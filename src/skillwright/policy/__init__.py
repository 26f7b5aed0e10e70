"""Policies with weights: sampled, trained on skills, and rewarded.

Importing this room loads torch; nothing else does, so a run without a policy never waits for it.
The policies themselves are `skillwright.policy.scorer` and `skillwright.policy.hf`; the second
loads transformers too.
"""

from skillwright.policy.advantage import AdvantageSettings, group_advantages
from skillwright.policy.agent import PolicyAgent
from skillwright.policy.backend import (
    Loss,
    LossReport,
    PolicyBackend,
    Row,
    Sampled,
    StepReport,
    TokenBatch,
    check_reference,
)
from skillwright.policy.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from skillwright.policy.dropout import SkillDropout
from skillwright.policy.errors import (
    BankVersionGone,
    CheckpointDamaged,
    ForeignRow,
    GroupTooSmall,
    ModelMissing,
    NoChatTemplate,
    OutOfMemory,
    ReferenceMissing,
    RewardInvalid,
    TargetRefused,
)
from skillwright.policy.gigpo import StepAdvantage, step_advantages
from skillwright.policy.groups import GroupReport, GroupSettings, teach
from skillwright.policy.grpo import GrpoSettings, UpdateReport, update
from skillwright.policy.loss import GrpoLoss, GrpoObjective, SftLoss
from skillwright.policy.rows import TokenContext, joined
from skillwright.policy.schedule import Schedule
from skillwright.policy.sft import (
    Coverage,
    SftSettings,
    contexts_of,
    demonstrations,
    train,
)

__all__ = [
    "AdvantageSettings",
    "BankVersionGone",
    "Checkpoint",
    "CheckpointDamaged",
    "Coverage",
    "ForeignRow",
    "GroupReport",
    "GroupSettings",
    "GroupTooSmall",
    "GrpoLoss",
    "GrpoObjective",
    "GrpoSettings",
    "Loss",
    "LossReport",
    "ModelMissing",
    "NoChatTemplate",
    "OutOfMemory",
    "PolicyAgent",
    "PolicyBackend",
    "ReferenceMissing",
    "RewardInvalid",
    "Row",
    "Sampled",
    "Schedule",
    "SftLoss",
    "SftSettings",
    "SkillDropout",
    "StepAdvantage",
    "StepReport",
    "TargetRefused",
    "TokenBatch",
    "TokenContext",
    "UpdateReport",
    "check_reference",
    "contexts_of",
    "demonstrations",
    "group_advantages",
    "joined",
    "load_checkpoint",
    "save_checkpoint",
    "step_advantages",
    "teach",
    "train",
    "update",
]
