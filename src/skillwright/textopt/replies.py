"""The JSON that the optimizer model is asked for.

Only the part that a stage cannot do without is checked here: a reply without it is asked for once
more, and then is a fault. Single bad edits inside a good reply are dropped by the stage that reads
them, which says so.
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from skillwright.textopt.proposal import UpdateMode

Prose = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]
Remarks = Annotated[
    list[Any], BeforeValidator(lambda value: value if isinstance(value, list) else [])
]


def _as_edits(value: Any) -> Any:
    """Read the items of every update mode under one name."""
    if not isinstance(value, dict) or "edits" in value:
        return value
    key = next((mode.payload_key for mode in UpdateMode if mode.payload_key in value), None)
    return value if key is None else {**value, "edits": value[key]}


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    reasoning: Prose = ""


class PatchReply(BaseModel):
    """The edits, suggestions or skills of an analyst's reply."""

    model_config = ConfigDict(extra="ignore", strict=True)

    edits: list[Any]

    _any_payload = model_validator(mode="before")(_as_edits)


class AnalystReply(_Reply):
    """What an analyst found, and the edits that it proposes."""

    patch: PatchReply
    failure_summary: Remarks = []
    success_patterns: Remarks = []
    appendix_notes: Any = None

    @model_validator(mode="before")
    @classmethod
    def _bare_patch(cls, value: Any) -> Any:
        """Accept ``edits`` at the top level, as the documented raw patches allow."""
        value = _as_edits(value)
        if isinstance(value, dict) and not value.get("patch") and "edits" in value:
            return {**value, "patch": {"edits": value["edits"]}}
        return value


class MergeReply(_Reply):
    """Merged edits, each with the ids of the edits that it stands for."""

    edits: list[dict[str, Any]]

    _any_payload = model_validator(mode="before")(_as_edits)


class RankReply(_Reply):
    """Which edits to make, the most valuable first."""

    selected_indices: list[Any]


class RepairReply(_Reply):
    """Where edits belong whose anchor was not found."""

    anchors: list[Any]


class SlowUpdateReply(_Reply):
    """Guidance from comparing two epochs' skills."""

    slow_update_content: str


class MetaSkillReply(_Reply):
    """What the optimizer wants to remember."""

    meta_skill_content: str


class BudgetReply(_Reply):
    """How many edits a step makes."""

    edit_budget: Any


class RewriteReply(_Reply):
    """A whole skill, and what is different in it."""

    new_skill: str
    change_summary: Any


class ConsolidateReply(_Reply):
    """Fewer execution notes."""

    notes: list[Any]
