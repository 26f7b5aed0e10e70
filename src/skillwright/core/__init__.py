"""The nouns and protocols that every room shares. Standard library only, but for the codec."""

from skillwright.core.agent import Act, Agent, Lapse, TurnContext
from skillwright.core.bank_skill import (
    BankSkill,
    Counterfactual,
    Provenance,
    SkillKind,
    SkillOrigin,
    SkillStatus,
)
from skillwright.core.chat import (
    ChatModel,
    Completion,
    Message,
    Purpose,
    Sampling,
    TokenLogprob,
    ToolCall,
    Usage,
)
from skillwright.core.context import PlainSkill, SkillContext, SkillSource
from skillwright.core.duel import Duel, Pair
from skillwright.core.edit import (
    Edit,
    EditOp,
    Patch,
    apply_edit,
    apply_patch,
    apply_patch_with_report,
)
from skillwright.core.errors import (
    ConfigError,
    ContractError,
    DataError,
    EnvError,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ReplyInvalid,
    RequestRefused,
    RunError,
    SkillwrightError,
    UsageError,
    did_you_mean,
)
from skillwright.core.failure import Failure, FailureCause
from skillwright.core.reflector import Reflector, ReflectRequest
from skillwright.core.result import (
    EpisodeResult,
    FailureSummaryEntry,
    RawPatch,
    RolloutResult,
    SlowUpdateResult,
)
from skillwright.core.skill import skill_hash
from skillwright.core.task import EpisodeSpec, Task
from skillwright.core.trajectory import StopReason, Trajectory, Turn

__all__ = [
    "Act",
    "Agent",
    "BankSkill",
    "ChatModel",
    "Completion",
    "ConfigError",
    "ContractError",
    "Counterfactual",
    "DataError",
    "Duel",
    "Edit",
    "EditOp",
    "EnvError",
    "EpisodeResult",
    "EpisodeSpec",
    "Failure",
    "FailureCause",
    "FailureSummaryEntry",
    "Lapse",
    "Message",
    "ModelError",
    "ModelRefused",
    "ModelTimeout",
    "Pair",
    "Patch",
    "PlainSkill",
    "Provenance",
    "Purpose",
    "RawPatch",
    "ReflectRequest",
    "Reflector",
    "ReplyInvalid",
    "RequestRefused",
    "RolloutResult",
    "RunError",
    "Sampling",
    "SkillContext",
    "SkillKind",
    "SkillOrigin",
    "SkillSource",
    "SkillStatus",
    "SkillwrightError",
    "SlowUpdateResult",
    "StopReason",
    "Task",
    "TokenLogprob",
    "ToolCall",
    "Trajectory",
    "Turn",
    "TurnContext",
    "Usage",
    "UsageError",
    "apply_edit",
    "apply_patch",
    "apply_patch_with_report",
    "did_you_mean",
    "skill_hash",
]
