"""Edits of a skill document, schedules and update modes, under `skillopt.optimizer`.

Source: SkillOpt (microsoft/SkillOpt).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from skillwright.core import ConfigError, Edit, Patch
from skillwright.core import edit as _edit
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
from skillwright.textopt.comparison import parse_pair_policy


def apply_edit(skill: str, edit: Edit | Mapping[str, Any]) -> str:
    """Apply one edit, an `Edit` or its dict; see `skillwright.core.apply_edit`."""
    return _edit.apply_edit(skill, _as_edit(edit))


def apply_patch(skill: str, patch: Patch | Mapping[str, Any]) -> str:
    """Apply a patch, a `Patch` or its dict."""
    return apply_patch_with_report(skill, patch)[0]


def apply_patch_with_report(
    skill: str, patch: Patch | Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    """Apply a patch, and say what became of each edit."""
    found = patch if isinstance(patch, Patch) else Patch.from_dict(dict(patch))
    return _edit.apply_patch_with_report(skill, found)


def normalize_update_mode(mode: str) -> str:
    """Return the canonical name of an update mode.

    Raises:
        ValueError: There is none of that name; the original takes it for ``patch``.
    """
    return _canonical(parse_update_mode, mode or "patch")


def payload_key(mode: str = "patch") -> str:
    """Return under which key a patch of this mode has its items."""
    return parse_update_mode(mode or "patch").payload_key


def get_payload_items(payload: Mapping[str, Any], mode: str = "patch") -> list[Any]:
    """Return the items of a patch of this mode; none where they are missing."""
    items = payload.get(payload_key(mode))
    return list(items) if isinstance(items, list | tuple) else []


def normalize_lr_control_mode(mode: str) -> str:
    """Return the canonical name of an LR control mode.

    Raises:
        ValueError: There is none of that name.
    """
    return _canonical(parse_budget_control, mode)


def normalize_longitudinal_pair_policy(policy: str) -> str:
    """Return the canonical name of a pair policy.

    Raises:
        ValueError: There is none of that name.
    """
    return _canonical(parse_pair_policy, policy)


def append_notes(skill: str, notes: Iterable[str]) -> str:
    """Add notes to a skill's appendix, each once."""
    return with_notes(skill, unique_notes([*appendix_notes(skill), *notes]))


def _canonical(parse: Callable[[str], StrEnum], name: str) -> str:
    try:
        return parse(name).value
    except ConfigError as error:  # there it is a ValueError, which callers catch
        raise ValueError(str(error)) from error


def _as_edit(edit: Edit | Mapping[str, Any]) -> Edit:
    return edit if isinstance(edit, Edit) else Edit.from_dict(dict(edit))


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
}
_SLOW: Final = {
    "SLOW_UPDATE_START": SLOW_UPDATE_START,
    "SLOW_UPDATE_END": SLOW_UPDATE_END,
    "inject_empty_slow_update_field": inject_empty_slow_update,
    "extract_slow_update_field": slow_update_field,
    "replace_slow_update_field": replace_slow_update_field,
    "normalize_longitudinal_pair_policy": normalize_longitudinal_pair_policy,
}
_APPENDIX: Final = {
    "APPENDIX_START": APPENDIX_START,
    "APPENDIX_END": APPENDIX_END,
    "APPENDIX_HEADING": APPENDIX_HEADING,
    "inject_empty_appendix_field": inject_empty_appendix,
    "extract_appendix_notes": appendix_notes,
    "replace_appendix_notes": with_notes,
    "append_notes": append_notes,
}
_MODES: Final = {
    "normalize_update_mode": normalize_update_mode,
    "normalize_lr_control_mode": normalize_lr_control_mode,
    "payload_key": payload_key,
    "get_payload_items": get_payload_items,
}
_AWARE: Final = {"read_appendix_notes": read_notes, "deduplicate_notes": unique_notes}

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "skillopt.optimizer.skill": _SKILL,
    "skillopt.optimizer.scheduler": _SCHEDULER,
    "skillopt.optimizer.slow_update": _SLOW,
    "skillopt.optimizer.appendix": _APPENDIX,
    "skillopt.optimizer.update_modes": _MODES,
    "skillopt.optimizer.skill_aware": _AWARE,
}
