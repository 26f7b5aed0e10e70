"""Keys that a configuration had once: what holds now, and what to set instead.

A key with the value that holds now says nothing new and is dropped; any other value is refused. A
run that began with another one is shown, and resumed where our classes still have the setting.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillwright.core import ConfigError

_SAME: Final = object()

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Removed:
    """A key that is no more.

    Attributes:
        key: Its dotted path; ``*`` is any role of a model.
        now: What holds now, as a value of the key.
        instead: What to do instead, as a sentence, or ``""``.
        parity: What holds with ``run.parity``; unset, the same.
        is_setting: Our classes still have it: code may set it, and a stored run's is kept.
    """

    key: str
    now: Any
    instead: str = ""
    parity: Any = _SAME
    is_setting: bool = False

    def holds(self, value: Any, *, parity: bool) -> bool:
        """Whether a value is what holds anyway."""
        differs = parity and self.parity is not _SAME
        return bool(value == (self.parity if differs else self.now))


_PARITY = "run.parity: true does as SkillOpt does, in this and all else."
_AIMD = "The number of calls in flight finds its own level below models.*.max_concurrent."
_SPLITS = "Name the splits of the data train, val (or dev) and test."
_CONTROLS = "evaluation.test: false opens no test at all."
_NETWORK = "The network's size is policy.width and hidden."


def _setting(key: str, now: Any, instead: str = "", parity: Any = _SAME) -> Removed:
    return Removed(key, now, instead, parity, is_setting=True)


REMOVED: Final = (
    _setting("env.data.train_split", "train", _SPLITS),
    _setting("env.data.val_split", None, _SPLITS),
    _setting("env.data.test_split", "test", _SPLITS),
    _setting("models.*.start_concurrent", 16, _AIMD),
    _setting("models.*.min_concurrent", 1, _AIMD),
    _setting("models.*.hedge_above", None, "Use models.*.hedge, a share of further calls."),
    _setting("models.*.betas", [], "Use headers: {anthropic-beta: NAMES}."),
    _setting("models.*.top_k", None, "Use extra_body: {top_k: N}."),
    _setting("models.*.empty_retries", 1, "Use EXEC_EMPTY_RESPONSE_RETRIES in the environment."),
    _setting("models.*.keep_failures", None, "keep_output keeps all; unset, the last 20 failures."),
    _setting("models.*.max_output_mb", 16.0, "Tell the program to print less."),
    _setting("models.*.max_budget_usd", None, "Use budget.usd, and models.*.max_turns."),
    _setting("gradient.success_threshold", None, "Use env.success_threshold.", parity=1e-9),
    _setting("gradient.analyst_budget", "scheduled", _PARITY, parity="initial"),
    _setting("optimizer.none_means_fixed", False, _PARITY, parity=True),
    _setting("optimizer.rank_fallback", "support", _PARITY, parity="order"),
    _setting("optimizer.repair_anchors", True, _PARITY, parity=False),
    _setting("optimizer.insert_after_fallback", False, _PARITY, parity=True),
    _setting("optimizer.memory_steps", 64),
    _setting("optimizer.memory_across_epochs", True, _PARITY, parity=False),
    _setting("optimizer.skill_aware.gated", True, _PARITY, parity=False),
    _setting("evaluation.inherit_scores", False, _PARITY, parity=True),
    _setting("evaluation.gate.fresh_draws", True, _PARITY, parity=False),
    _setting("evaluation.gate.margin", 0.0, "Use gate.kind: explore or paired for noisy scores."),
    _setting("evaluation.controls", ["no_skills", "other_scope"], _CONTROLS),
    _setting("rollout.mode", "free"),
    _setting("bank.max_general_tokens", 1_200, "Use bank.max_tokens."),
    Removed("distill.batch_size", 4),
    Removed("distill.general_episodes", 12),
    _setting("distill.per_category", 6),
    _setting("distill.temperature", 1.0),
    Removed("evolve.per_category", 3, "Use evolve.per_checkpoint."),
    _setting("evolve.weakest_extra", 1, "Use evolve.per_checkpoint."),
    Removed("evolve.max_active", 100),
    _setting("policy.layers", 2, _NETWORK),
    Removed("policy.heads", 2, _NETWORK),
    Removed("policy.reach", 5, _NETWORK),
    Removed("policy.most_rows", 64),
    Removed("policy.max_grad_norm", 1.0),
    Removed("policy.weight_decay", 0.01),
    _setting("policy.threads", 1),
    _setting("policy.device", "auto", "Use CUDA_VISIBLE_DEVICES in the environment."),
    _setting("policy.sample_rows", 128, "Use rollout.max_concurrent."),
    _setting("policy.restrict", True),
    Removed("policy.lora.targets", "all-linear"),
    Removed("grpo.iterations_per_epoch", 1, "Use evolve.every, which counts iterations."),
    _setting("grpo.skill_dropout", 0.0, "cold_start.without_skills teaches to do without."),
    Removed("grpo.clip_low", 0.2),
    _setting("grpo.clip_high", 0.2),
    Removed("grpo.dual_clip", 3.0),
    _setting("grpo.entropy_weight", 0.0, "Use grpo.temperature and grpo.kl_weight."),
    Removed("grpo.average", "tokens"),
    Removed("grpo.leave_one_out", False),
    _setting("grpo.scale_by_std", True),
    Removed("grpo.step_advantage.scale_by_std", True),
    _setting("grpo.step_advantage.discount", 0.95),
)  # fmt: skip
"""All of them."""

_BY_KEY: Final = {row.key: row for row in REMOVED}


def removed_key(path: str) -> Removed | None:
    """Find the row of a dotted path."""
    return _BY_KEY.get(re.sub(r"^models\.\w+\.", "models.*.", path))


def why_removed(path: str) -> str:
    """Say what became of a key; ``""`` for one that was none."""
    row = removed_key(path)
    if row is None:
        return ""
    return f"key {path!r} was removed: it is now always {_shown(row.now)}. {row.instead}".rstrip()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and value:
        return " and ".join(map(str, value))
    return "unset" if value in (None, []) else str(value)


def without_removed(values: Mapping[str, Any], where: str, *, stored: bool = False) -> Values:
    """Drop what was removed and holds anyway.

    Of a ``stored`` run other values are kept where our classes have the setting, and dropped
    elsewhere; `refuse_to_resume` refuses these.

    Raises:
        ConfigError: A key has another value; one line per key.
    """
    parity = _is_parity(values)
    other = {path for path, row, value in _found(values) if not row.holds(value, parity=parity)}
    if other and not stored:
        raise ConfigError("\n".join(f"{where}: {why_removed(path)}" for path in sorted(other)))
    kept = {path for path, row, _ in _found(values) if path in other and row.is_setting}
    return _pruned(values, kept)


def refuse_to_resume(values: Mapping[str, Any], where: str) -> None:
    """Refuse to resume a run with a setting that is no more.

    Raises:
        ConfigError: It has one; one line per key.
    """
    gone = [
        why_removed(path)
        for path, row, value in _found(values)
        if not (row.is_setting or row.holds(value, parity=False))
    ]
    if gone:
        raise ConfigError(
            f"{where}: the run began with settings that were removed. Resume it with the version "
            "that began it, or start a new run:\n" + "\n".join(gone)
        )


def _is_parity(values: Mapping[str, Any]) -> bool:
    run = values.get("run")
    return isinstance(run, Mapping) and run.get("parity") is True


def _found(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Removed, Any]]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        row = removed_key(path)
        if row is not None:
            yield path, row, value
        elif isinstance(value, Mapping):
            yield from _found(value, f"{path}.")


def _pruned(values: Mapping[str, Any], kept: set[str], prefix: str = "") -> Values:
    left: Values = {}
    for name, value in values.items():
        path = f"{prefix}{name}"
        if removed_key(path) is None or path in kept:
            left[name] = _pruned(value, kept, f"{path}.") if isinstance(value, Mapping) else value
    return left
