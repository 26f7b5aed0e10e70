"""Every documented key of SkillOpt's configuration, as one table.

Source: SkillOpt (microsoft/SkillOpt) 0.2, the base file that it ships and its flattening.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final

from skillwright.textopt.epoch import POLICY_ALIASES
from skillwright.textopt.proposal import CONTROL_ALIASES, UPDATE_ALIASES


class Unset(Enum):
    """The default of a key that the shipped base file does not set."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Key:
    """One key: it corresponds to a key of ours (``ours``), or has no effect for a ``reason``."""

    dotted: str
    default: Any = UNSET  # in the shipped base file
    ours: str = ""
    reason: str = ""
    flat: str = ""  # the last part of ``dotted`` unless given
    aliases: tuple[str, ...] = ()  # further flat names, also valid inside its section
    copied: bool = True  # whether the value is copied to ``ours``, or else computed
    quiet: tuple[Any, ...] = ()  # values besides the default that need no warning

    def __post_init__(self) -> None:
        if not self.flat:
            object.__setattr__(self, "flat", self.dotted.rpartition(".")[2])

    @property
    def section(self) -> str:
        """The section of a structured file that it is in."""
        return self.dotted.partition(".")[0]


def _without_effect(prefix: str, reason: str, **defaults: Any) -> list[Key]:
    return [Key(f"{prefix}{name}", value, reason=reason) for name, value in defaults.items()]


def _worked_out(prefix: str, default: Any = UNSET, **ours: str) -> list[Key]:
    return [Key(f"{prefix}{name}", default, path, copied=False) for name, path in ours.items()]


_PROFILE = "a profile lies in your own folder, which no run of the program sees"
_COMMAND = "the program itself is run, and asks for no permission"
_TRACE = "the optimizer reads what the agent answered, not its trace"
_ELSEWHERE = "Copilot and Cursor are not supported"
_ENTRA = "azure-identity asks for Azure OpenAI, for the identity in AZURE_CLIENT_ID"
SIGN_INS = ("managed_identity", "azure_cli")
_ROLES = ("", "optimizer_", "target_")


def _azure(role: str) -> list[Key]:
    """Return a role's keys, which are unset in the base file, so that the shared ones apply."""
    name, prefix = role.removesuffix("_") or "target", f"model.{role}azure_openai_"
    blank: Any = UNSET if role else ""
    legacy = {
        word: () if role else (f"azure_{word}",) for word in ("endpoint", "api_version", "api_key")
    }
    version, scope = ("2024-12-01-preview", "https://cognitiveservices.azure.com/.default")
    return [
        Key(f"{prefix}endpoint", blank, f"models.{name}.base_url", copied=False,
            aliases=legacy["endpoint"]),
        Key(f"{prefix}api_version", UNSET if role else version, aliases=legacy["api_version"],
            reason="the v1 route of Azure takes no version"),
        Key(f"{prefix}api_key", blank, f"models.{name}.api_key", copied=False,
            aliases=legacy["api_key"]),
        Key(f"{prefix}auth_mode", blank, f"models.{name}.key_header", copied=False),
        Key(f"{prefix}ad_scope", UNSET if role else scope, reason=_ENTRA),
        Key(f"{prefix}managed_identity_client_id", blank, reason=_ENTRA, quiet=("",)),
    ]  # fmt: skip


def _compatible(role: str) -> list[Key]:
    model = f"models.{role.removesuffix('_') or 'target'}"
    names = ("base_url", "api_key", "model", "temperature", "max_tokens")
    ours = {name: f"{model}.{name}" for name in names}
    return _worked_out(
        f"model.{role}openai_compatible_", timeout_seconds=f"{model}.timeout_s", **ours
    )


def _qwen(role: str) -> list[Key]:
    model, prefix = f"models.{role.removesuffix('_') or 'target'}", f"model.{role}qwen_chat_"
    thinking = f"{model}.thinking"
    return [
        *_worked_out(
            prefix,
            base_url=f"{model}.base_url",
            api_key=f"{model}.api_key",
            temperature=f"{model}.temperature",
            timeout_seconds=f"{model}.timeout_s",
            max_tokens=f"{model}.max_tokens",
            enable_thinking=thinking,
        ),
        *_worked_out(prefix, UNSET if role else "", thinking_mode=thinking),
    ]


def _minimax(role: str) -> list[Key]:
    defaults: dict[str, Any] = {
        "region": "",
        "base_url": "",
        "api_key": "",
        "model": "MiniMax-M3",
        "temperature": 0.7,
        "max_tokens": 8000,
        "enable_thinking": False,
    }
    model, prefix = f"models.{role.removesuffix('_') or 'target'}", f"model.{role}minimax_"
    ours = {"enable_thinking": "thinking"}
    return [
        Key(f"{prefix}{name}", UNSET if role else default, f"{model}.{ours.get(name, name)}",
            copied=False)
        for name, default in defaults.items()
    ]  # fmt: skip


_MODEL = [
    Key("model.backend", "azure_openai", "models", flat="model_backend", copied=False),
    Key("model.optimizer", "gpt-5.5", "models.optimizer.model", flat="optimizer_model",
        copied=False),
    Key("model.target", "gpt-5.5", "models.target.model", flat="target_model", copied=False),
    *_worked_out("model.", "openai_chat", optimizer_backend="models.optimizer.backend",
                 target_backend="models.target.backend"),
    Key("model.reasoning_effort", "medium", "models.target.reasoning_effort", copied=False),
    Key("model.rewrite_reasoning_effort", "", reason="the effort is the same for every call here"),
    Key("model.rewrite_max_completion_tokens", 64000, "optimizer.rewrite_max_tokens"),
    Key("model.codex_exec_path", "", "models.target.path", copied=False,
        aliases=("codex_path", "codex_cli_bin", "codex_bin")),
    Key("model.codex_exec_sandbox", "", "models.target.sandbox", copied=False,
        aliases=("sandbox", "codex_sandbox")),
    *_worked_out("model.codex_exec_", "", reasoning_effort="models.target.effort"),
    *_worked_out("model.codex_exec_", None, network_access="models.target.network",
                 web_search="models.target.web_search"),
    *_without_effect("model.codex_exec_", _COMMAND, approval_policy="", use_sdk=None),
    *_without_effect("model.codex_exec_", _PROFILE, profile=""),
    Key("model.codex_exec_full_auto", reason="it is deprecated there too"),
    *_worked_out("model.claude_code_exec_", "claude", path="models.target.path"),
    *_worked_out("model.claude_code_exec_", "medium", effort="models.target.effort"),
    *_without_effect("model.claude_code_exec_", _PROFILE, profile=""),
    *_without_effect("model.claude_code_exec_", _COMMAND, use_sdk="auto"),
    Key("model.claude_code_exec_max_thinking_tokens", 16384, reason="effort bounds the thinking"),
    *_without_effect("model.cursor_exec_", _ELSEWHERE, path="", sandbox=""),
    *_without_effect("model.copilot_exec_", _ELSEWHERE, path="", home="", allow_all_tools=None),
    *_without_effect("model.copilot_chat_", _ELSEWHERE, optimizer_model="", target_model="",
                     timeout=None),
    Key("model.codex_trace_to_optimizer", True, reason=_TRACE),
    *[key for role in _ROLES for key in _azure(role)],
    *[key for role in _ROLES for key in _compatible(role)],
    *[key for role in _ROLES for key in _qwen(role)],
    *[key for role in _ROLES for key in _minimax(role)],
]  # fmt: skip

_LEARNING = [
    Key("train.num_epochs", 4, "train.epochs"),
    Key("train.batch_size", 40, "train.batch_size"),
    Key("train.accumulation", 1, "train.accumulation"),
    Key("train.seed", 42, "run.seed"),
    Key("train.train_size", 0, "env.data.train", copied=False),
    Key("train.steps_per_epoch", reason="it follows from the tasks and the batch size"),
    Key("gradient.minibatch_size", 8, "gradient.minibatch_size"),
    Key("gradient.merge_batch_size", 8, "gradient.merge_batch_size"),
    Key("gradient.analyst_workers", 16, "gradient.analyst_workers"),
    Key("gradient.failure_only", False, "gradient.failure_only"),
    Key("gradient.max_analyst_rounds", reason="it is retired there too"),
    Key("optimizer.learning_rate", 4, "optimizer.learning_rate", flat="edit_budget"),
    Key("optimizer.min_learning_rate", 2, "optimizer.min_learning_rate", flat="min_edit_budget"),
    Key("optimizer.lr_scheduler", "cosine", "optimizer.lr_scheduler", copied=False),
    Key("optimizer.lr_control_mode", "fixed", "optimizer.lr_control_mode"),
    Key("optimizer.skill_update_mode", "patch", "optimizer.skill_update_mode"),
    Key("optimizer.meta_learning_rate", flat="meta_edit_budget", reason="it is never read there"),
    Key("optimizer.use_slow_update", True, "optimizer.use_slow_update"),
    Key("optimizer.slow_update_samples", 20, "optimizer.slow_update_samples"),
    Key("optimizer.slow_update_gate_with_selection", False, "optimizer.gate_slow_update"),
    Key("optimizer.longitudinal_pair_policy", "mixed", "optimizer.longitudinal_pair_policy"),
    Key("optimizer.use_meta_skill", True, "optimizer.use_meta_skill"),
    Key("optimizer.use_meta_reflect", reason="it is never read there", quiet=(False,)),
    Key("optimizer.use_skill_aware_reflection", False, "optimizer.skill_aware", copied=False),
    Key("optimizer.skill_aware_appendix_source", "both",
        "optimizer.skill_aware.appendix_source", copied=False),
    Key("optimizer.skill_aware_consolidate_threshold", 0,
        "optimizer.skill_aware.consolidate_threshold", copied=False),
    Key("evaluation.use_gate", True, "evaluation.gate.kind", copied=False),
    Key("evaluation.gate_metric", "hard", "evaluation.gate.metric"),
    Key("evaluation.gate_mixed_weight", 0.5, "evaluation.gate.mixed_weight"),
    *_worked_out("evaluation.", False, use_semantic_density="evaluation.gate.kind"),
    *_worked_out("evaluation.", 0.05, semantic_density_weight="evaluation.gate.kind"),
    *_worked_out("evaluation.", leading_words="evaluation.gate.kind"),
    Key("evaluation.sel_env_num", 0, "evaluation.val_tasks", copied=False),
    Key("evaluation.test_env_num", 0, "evaluation.test_tasks", copied=False),
    Key("evaluation.eval_test", True, "evaluation.test"),
]  # fmt: skip

_ENV = [
    Key("env.name", "", "env.name", flat="env", copied=False),
    Key("env.skill_init", "", "skill.init"),
    Key("env.out_root", "", "run.root", copied=False),
    Key("env.split_mode", "ratio", "env.data.kind", copied=False),
    Key("env.split_ratio", "2:1:7", "env.data.ratio", copied=False),
    Key("env.split_seed", 42, "env.data.seed", copied=False),
    Key("env.split_dir", "", "env.data.path", copied=False),
    Key("env.data_path", "", "env.data.path", copied=False),
    Key("env.split_output_dir", "", reason="a run keeps its splits in its own folder"),
    Key("env.exec_timeout", 120, "models.target.timeout_s", copied=False),
]

_HUMAN = "no person is asked at a gate here"
_FEEDBACK = [
    Key("human_feedback.enabled", reason=_HUMAN, flat="human_feedback_enabled", quiet=(False,)),
    *(
        Key(f"human_feedback.{name}", reason=_HUMAN, flat=f"human_feedback_{name}", quiet=(usual,))
        for name, usual in {
            "timeout_seconds": 0,
            "on_timeout": "fallback_to_gate",
            "max_retries_per_step": 3,
        }.items()
    ),
]

KEYS: Final = (*_MODEL, *_LEARNING, *_ENV, *_FEEDBACK)

ENV_SETTINGS: Final = frozenset(
    {
        "workers",
        "max_api_workers",
        "max_turns",
        "max_steps",
        "limit",
        "max_completion_tokens",
        "data_root",
    }
    | {"data_dirs", "mode", "image_detail", "shuffle_choices", "use_theorem", "use_sketch"}
    | {"max_tool_turns", "search_mode"}
)
"""Documented keys of single environments; ``env`` may have others."""

BACKENDS: Final = {
    "openai_chat": ("azure", "azure_openai", "azure-openai"),
    "claude_chat": ("claude", "anthropic"),
    "qwen_chat": ("qwen",),
    "minimax_chat": ("minimax",),
    "codex_exec": ("codex", "openai"),
    "claude_code_exec": (),
    "openai_compatible": ("openai_compatible_chat", "openai-compatible", "compat"),
    "copilot_chat": ("copilot", "copilot_cli", "github_copilot"),
    "cursor_exec": ("cursor", "cursor_agent"),
    "copilot_exec": (),
}
"""Backend -> its aliases: both documented tables together."""

FILLS_BOTH_ROLES: Final = frozenset(
    {"claude_chat", "codex_exec", "copilot_chat", "openai_compatible"}
)
"""Values of `model.backend` that apply to both roles; others, except openai_chat, to the target."""

PLACEHOLDER_MODELS: Final = ("gpt-5.4", "gpt-5.5")
DEFAULT_MODELS: Final = {
    "claude_chat": "claude-sonnet-4-6",
    "claude_code_exec": "claude-sonnet-4-6",
    "cursor_exec": "composer-2.5",
    "qwen_chat": "Qwen/Qwen3.5-4B",
    "minimax_chat": "MiniMax-M3",
    "copilot_chat": "gpt-4o",
    "openai_compatible": "gpt-4o-mini",
}
"""Backend -> model that replaces an unchosen placeholder."""


def _by_value(aliases: Mapping[str, StrEnum]) -> dict[str, tuple[str, ...]]:
    """Invert a table of aliases: value -> its aliases."""
    values = dict.fromkeys(aliases.values())
    return {
        value.value: tuple(name for name, of in aliases.items() if of is value and name != value)
        for value in values
    }


CHOICES: Final = {
    "optimizer_backend": BACKENDS,
    "target_backend": BACKENDS,
    "skill_update_mode": _by_value(UPDATE_ALIASES),
    "lr_control_mode": _by_value(CONTROL_ALIASES),
    "longitudinal_pair_policy": _by_value(POLICY_ALIASES),
}
"""Flat key -> its values with their aliases."""
