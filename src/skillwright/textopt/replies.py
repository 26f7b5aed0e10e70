"""The JSON that the optimiser model is asked for.

Only the part that a stage cannot do without is checked here: a reply without it is asked for once
more, and then is a fault. Single bad edits inside a good reply are dropped by the stage that reads
them, which says so.
"""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

Prose = Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")]
Remarks = Annotated[
    list[Any], BeforeValidator(lambda value: value if isinstance(value, list) else [])
]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    reasoning: Prose = ""


class PatchReply(BaseModel):
    """The edits of an analyst's reply."""

    model_config = ConfigDict(extra="ignore", strict=True)

    edits: list[Any]


class AnalystReply(_Reply):
    """What an analyst found, and the edits that it proposes."""

    patch: PatchReply
    failure_summary: Remarks = []
    success_patterns: Remarks = []

    @model_validator(mode="before")
    @classmethod
    def _bare_patch(cls, value: Any) -> Any:
        """Accept ``edits`` at the top level, as the documented raw patches allow."""
        if isinstance(value, dict) and not value.get("patch") and "edits" in value:
            return {**value, "patch": {"edits": value["edits"]}}
        return value


class MergeReply(_Reply):
    """Merged edits, each with the ids of the edits that it stands for."""

    edits: list[dict[str, Any]]


class RankReply(_Reply):
    """Which edits to make, the most valuable first."""

    selected_indices: list[Any]
