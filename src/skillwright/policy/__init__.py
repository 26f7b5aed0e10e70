"""Policies with weights: sampled, trained on skills, and rewarded.

Importing this room loads torch; nothing else does, so a run without a policy never waits for it.
The policies themselves are `skillwright.policy.scorer` and `skillwright.policy.hf`; the second
loads transformers too.
"""

from skillwright.policy.agent import PolicyAgent, SkillDropout
from skillwright.policy.backend import (
    BankVersionGone,
    CheckpointDamaged,
    ForeignRow,
    GroupTooSmall,
    Loss,
    LossReport,
    ModelMissing,
    NoChatTemplate,
    OutOfMemory,
    PolicyBackend,
    ReferenceMissing,
    RewardInvalid,
    Row,
    Sampled,
    StepReport,
    TargetRefused,
    TokenBatch,
    check_reference,
)
from skillwright.policy.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from skillwright.policy.groups import (
    AdvantageSettings,
    GroupReport,
    GroupSettings,
    StepAdvantage,
    group_advantages,
    step_advantages,
    teach,
)
from skillwright.policy.sft import (
    Coverage,
    Schedule,
    SftSettings,
    contexts_of,
    demonstrations,
    train,
)
from skillwright.policy.update import (
    GrpoLoss,
    GrpoObjective,
    GrpoSettings,
    SftLoss,
    TokenContext,
    UpdateReport,
    joined,
    update,
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
