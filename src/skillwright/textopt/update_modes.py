"""The modes of a step: how a skill is updated, and who says how much.

Source: SkillOpt (microsoft/SkillOpt): names, aliases and payload keys. There an unknown update mode
silently means ``patch``; ours is refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from skillwright.core import ConfigError, did_you_mean

Mode = TypeVar("Mode", bound=StrEnum)


class UpdateMode(StrEnum):
    """How analysts' findings become a candidate."""

    PATCH = "patch"
    """Edits are merged, ranked and applied."""
    REWRITE = "rewrite_from_suggestions"
    """Suggestions are merged and ranked, and one call rewrites the skill by them."""
    FULL_REWRITE = "full_rewrite_minibatch"
    """Every analyst rewrites the skill, and the rewrites are merged."""

    @property
    def payload_key(self) -> str:
        """Where a reply of this mode has its items."""
        return _PAYLOAD_KEYS[self]


_PAYLOAD_KEYS: Mapping[UpdateMode, str] = {
    UpdateMode.PATCH: "edits",
    UpdateMode.REWRITE: "revise_suggestions",
    UpdateMode.FULL_REWRITE: "skill_candidates",
}
UPDATE_ALIASES: Mapping[str, UpdateMode] = {
    **{mode.value: mode for mode in UpdateMode},
    "edits": UpdateMode.PATCH,
    **dict.fromkeys(("rewrite", "suggestions", "rewrite_suggestions"), UpdateMode.REWRITE),
    **dict.fromkeys(
        ("full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"),
        UpdateMode.FULL_REWRITE,
    ),
}


class BudgetControl(StrEnum):
    """Who says how many edits a step makes."""

    FIXED = "fixed"
    """The schedule."""
    AUTONOMOUS = "autonomous"
    """The optimiser, once it has seen the merged edits."""
    NONE = "none"
    """Nobody: every merged edit is made."""


class RankFallback(StrEnum):
    """Which edits a step makes where the model's ranking cannot be used."""

    SUPPORT = "support"
    """Those that most trajectories speak for, the earlier of two equals first."""
    ORDER = "order"
    """The first ones, as in SkillOpt."""


CONTROL_ALIASES: Mapping[str, BudgetControl] = {
    **{control.value: control for control in BudgetControl},
    **dict.fromkeys(("manual", "scheduler", "scheduled"), BudgetControl.FIXED),
    **dict.fromkeys(("auto", "optimizer"), BudgetControl.AUTONOMOUS),
    **dict.fromkeys(("off", "no_lr"), BudgetControl.NONE),
}


def parse_update_mode(name: str) -> UpdateMode:
    """Read an update mode or one of its aliases, whatever its case.

    Raises:
        ConfigError: There is no such mode; the message names the nearest.
    """
    return parse_mode("skill update mode", name, UPDATE_ALIASES)


def parse_budget_control(name: str) -> BudgetControl:
    """Read an LR control mode or one of its aliases, whatever its case.

    Raises:
        ConfigError: There is no such mode; the message names the nearest.
    """
    return parse_mode("LR control mode", name, CONTROL_ALIASES)


def parse_mode(kind: str, name: str, known: Mapping[str, Mode]) -> Mode:
    """Read a mode or one of its aliases, whatever its case."""
    found = known.get(name.strip().lower())
    if found is None:
        raise ConfigError(f"there is no {kind} {name!r}. {did_you_mean(name, known)}")
    return found
