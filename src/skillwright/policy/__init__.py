"""Policies with weights: sampled, trained on skills, and rewarded.

Importing this room loads torch; nothing else does, so a run without a policy never waits for it.
The policies themselves are `skillwright.policy.scorer` and `skillwright.policy.hf`; the second
loads transformers too.
"""

from skillwright.core.policy_settings import Schedule, SftSettings
from skillwright.policy.agent import KeptRows, PolicyAgent
from skillwright.policy.backend import (
    BankVersionGone,
    CheckpointDamaged,
    ForeignRow,
    GroupTooSmall,
    LossReport,
    ModelMissing,
    ModelUnfit,
    NoChatTemplate,
    NotFinite,
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
    outcome_of,
    step_advantages,
    teach,
)
from skillwright.policy.sft import Coverage, contexts_of, demonstrations, train
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
    "KeptRows",
    "LossReport",
    "ModelMissing",
    "ModelUnfit",
    "NoChatTemplate",
    "NotFinite",
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
    "outcome_of",
    "save_checkpoint",
    "step_advantages",
    "teach",
    "train",
    "update",
]
