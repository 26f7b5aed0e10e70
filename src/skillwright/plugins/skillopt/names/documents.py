"""Edits of a skill document, schedules and update modes, under `skillopt.optimizer`.

Source: SkillOpt (microsoft/SkillOpt).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from skillwright.core import ConfigError, Edit, Patch
from skillwright.core import edits as _edit
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_HEADING,
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    inject_empty_appendix,
    inject_empty_slow_update,
    replace_slow_update_field,
    slow_update_field,
)
from skillwright.textopt import (
    AutonomousScheduler,
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    LRScheduler,
    appendix_notes,
    build_scheduler,
    parse_budget_control,
    parse_update_mode,
    read_notes,
    unique_notes,
    with_notes,
)
from skillwright.textopt.epoch import parse_pair_policy
from skillwright.textopt.optimizer import load_prompt
from skillwright.textopt.proposal import UpdateMode
from skillwright.textopt.select import AUTONOMOUS_CEILING


def apply_edit(skill: str, edit: Edit | Mapping[str, Any]) -> str:
    """Apply one edit, an `Edit` or its dict; see `skillwright.core.apply_edit`."""
    return _edit.apply_edit(skill, _as_edit(edit))


def _apply_edit_with_report(
    skill: str, edit: Edit | Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Apply one edit, and report its outcome."""
    changed, report = _edit.apply_patch_with_report(skill, Patch([_as_edit(edit)]))
    return changed, report[0]


def apply_patch(skill: str, patch: Patch | Mapping[str, Any]) -> str:
    """Apply a patch, a `Patch` or its dict."""
    return apply_patch_with_report(skill, patch)[0]


def apply_patch_with_report(
    skill: str, patch: Patch | Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    """Apply a patch, and report the outcome of each edit."""
    found = patch if isinstance(patch, Patch) else Patch.from_dict(patch)
    return _edit.apply_patch_with_report(skill, found)


def normalize_update_mode(mode: str) -> str:
    """Return the canonical name of an update mode."""
    return _canonical(parse_update_mode, mode or "patch")


def payload_key(mode: str = "patch") -> str:
    """Return the key of the items in a patch of this mode."""
    return parse_update_mode(mode or "patch").payload_key


def get_payload_items(payload: Mapping[str, Any], mode: str = "patch") -> list[Any]:
    """Return the items of a patch of this mode, or an empty list."""
    items = payload.get(payload_key(mode))
    return list(items) if isinstance(items, list | tuple) else []


def is_rewrite_mode(mode: str | None) -> bool:
    """Tell whether one call rewrites the skill by suggestions."""
    return normalize_update_mode(mode or "patch") == UpdateMode.REWRITE


def is_full_rewrite_minibatch_mode(mode: str | None) -> bool:
    """Tell whether every analyst rewrites the skill."""
    return normalize_update_mode(mode or "patch") == UpdateMode.FULL_REWRITE


def payload_label(mode: str | None, *, singular: bool = False, title: bool = False) -> str:
    """Return the name of this mode's items."""
    word = _LABELS[parse_update_mode(mode or "patch")]
    word = word if singular else f"{word}s"
    return word.title() if title else word


def set_payload_items(
    payload: dict[str, Any], items: list[Any], mode: str | None
) -> dict[str, Any]:
    """Put items into a patch of this mode, and return it."""
    payload[payload_key(mode or "patch")] = items
    return payload


def truncate_payload(payload: dict[str, Any], max_items: int, mode: str | None) -> dict[str, Any]:
    """Truncate a patch of this mode to its first items, and return it; below 0 is no limit."""
    items = get_payload_items(payload, mode or "patch")
    return payload if max_items < 0 else set_payload_items(payload, items[:max_items], mode)


def normalize_lr_control_mode(mode: str) -> str:
    """Return the canonical name of an LR control mode."""
    return _canonical(parse_budget_control, mode)


def normalize_longitudinal_pair_policy(policy: str) -> str:
    """Return the canonical name of a pair policy."""
    return _canonical(parse_pair_policy, policy)


def has_appendix_field(skill: str) -> bool:
    """Tell whether a skill has an appendix, empty or not."""
    return inject_empty_appendix(skill) == skill


def has_slow_update_field(skill: str) -> bool:
    """Tell whether a skill has a region for slow updates, empty or not."""
    return inject_empty_slow_update(skill) == skill


def extract_appendix_notes(result: Mapping[str, Any] | None) -> list[str]:
    """Return the notes in an analyst's answer, or an empty list."""
    return read_notes(result.get("appendix_notes")) if isinstance(result, Mapping) else []


def augment_error_prompt(system_prompt: str) -> str:
    """Add the distinction between a gap in the skill and a lapse to a failure analyst's prompt."""
    return f"{system_prompt.rstrip()}\n\n{load_prompt('skill_aware_error')}"


def augment_success_prompt(system_prompt: str) -> str:
    """Add the definition of a reminder to a success analyst's prompt."""
    return f"{system_prompt.rstrip()}\n\n{load_prompt('skill_aware_success')}"


def append_notes(skill: str, notes: Iterable[str]) -> str:
    """Add notes to a skill's appendix, each once."""
    return with_notes(skill, unique_notes([*appendix_notes(skill), *notes]))


def _canonical(parse: Callable[[str], StrEnum], name: str) -> str:
    try:
        return parse(name).value
    except ConfigError as error:  # a ValueError in the original, which callers catch
        raise ValueError(str(error)) from error


def _as_edit(edit: Edit | Mapping[str, Any]) -> Edit:
    return edit if isinstance(edit, Edit) else Edit.from_dict(edit)


_LABELS: Final[Mapping[UpdateMode, str]] = {
    UpdateMode.PATCH: "edit",
    UpdateMode.REWRITE: "suggestion",
    UpdateMode.FULL_REWRITE: "skill candidate",
}
_SKILL: Final = {
    "apply_edit": apply_edit,
    "apply_patch": apply_patch,
    "apply_patch_with_report": apply_patch_with_report,
}
_SCHEDULER: Final = {
    "LRScheduler": LRScheduler,
    "ConstantScheduler": ConstantScheduler,
    "LinearScheduler": LinearScheduler,
    "CosineScheduler": CosineScheduler,
    "AutonomousScheduler": AutonomousScheduler,
    "build_scheduler": build_scheduler,
    "NO_LIMIT": AUTONOMOUS_CEILING,
}
_SLOW: Final = {
    "SLOW_UPDATE_START": SLOW_UPDATE_START,
    "SLOW_UPDATE_END": SLOW_UPDATE_END,
    "has_slow_update_field": has_slow_update_field,
    "inject_empty_slow_update_field": inject_empty_slow_update,
    "extract_slow_update_field": slow_update_field,
    "replace_slow_update_field": replace_slow_update_field,
    "normalize_longitudinal_pair_policy": normalize_longitudinal_pair_policy,
}
_APPENDIX: Final = {
    "APPENDIX_START": APPENDIX_START,
    "APPENDIX_END": APPENDIX_END,
    "APPENDIX_HEADING": APPENDIX_HEADING,
    "has_appendix_field": has_appendix_field,
    "inject_empty_appendix_field": inject_empty_appendix,
    "extract_appendix_notes": appendix_notes,
    "replace_appendix_notes": with_notes,
    "append_notes": append_notes,
    "append_to_appendix_field": append_notes,
}
_MODES: Final = {
    "normalize_update_mode": normalize_update_mode,
    "normalize_lr_control_mode": normalize_lr_control_mode,
    "payload_key": payload_key,
    "get_payload_items": get_payload_items,
    "set_payload_items": set_payload_items,
    "truncate_payload": truncate_payload,
    "payload_label": payload_label,
    "is_rewrite_mode": is_rewrite_mode,
    "is_full_rewrite_minibatch_mode": is_full_rewrite_minibatch_mode,
    "PATCH_MODE": UpdateMode.PATCH.value,
    "REWRITE_MODE": UpdateMode.REWRITE.value,
    "FULL_REWRITE_MINIBATCH_MODE": UpdateMode.FULL_REWRITE.value,
}
_AWARE: Final = {
    "read_appendix_notes": read_notes,
    "deduplicate_notes": unique_notes,
    "augment_error_prompt": augment_error_prompt,
    "augment_success_prompt": augment_success_prompt,
}

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    # Another function of this name reads the appendix; this one reads an analyst's answer.
    "skillopt.optimizer.skill_aware": {**_AWARE, "extract_appendix_notes": extract_appendix_notes},
    "skillopt.optimizer.skill": {
        **_SKILL,
        "_apply_edit_with_report": _apply_edit_with_report,
        **{name: _SLOW[name] for name in ("SLOW_UPDATE_START", "SLOW_UPDATE_END")},
        **{name: _APPENDIX[name] for name in ("APPENDIX_START", "APPENDIX_END")},
    },
    "skillopt.optimizer.scheduler": _SCHEDULER,
    "skillopt.optimizer.slow_update": _SLOW,
    "skillopt.optimizer.appendix": _APPENDIX,
    "skillopt.optimizer.update_modes": _MODES,
}
