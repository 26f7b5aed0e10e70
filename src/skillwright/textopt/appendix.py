"""The appendix of execution notes, in its protected region at the end of a skill.

Source: SkillOpt (microsoft/SkillOpt), its execution notes appendix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Purpose
from skillwright.core.codec import encode
from skillwright.core.fence import json_block
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_HEADING,
    APPENDIX_START,
    protected_regions,
    without_markers,
)
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.prompts import skill_section, user_message
from skillwright.textopt.proposal import AnalystFault
from skillwright.textopt.replies import ConsolidateReply
from skillwright.textopt.skill_aware import read_notes, unique_notes

_MAX_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class AppendixUpdate:
    """What a step's notes did to a skill.

    Attributes:
        skill: The document with the notes in it; as it was where there is nothing to add.
        step_notes: The notes of the step, each once.
        notes: All notes that stand in the appendix now.
        added: How many of the step's were new.
    """

    skill: str
    step_notes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    added: int = 0
    consolidated: bool = False
    fault: AnalystFault | None = None

    @property
    def counts(self) -> dict[str, int | bool]:
        """The documented counts of a step's record."""
        return {
            "n_execution_lapse_notes": len(self.step_notes),
            "n_appendix_notes_added": self.added,
            "n_appendix_notes_total": len(self.notes),
            "n_appendix_notes_consolidated": self.consolidated,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the documented record keys, and the notes."""
        return {
            "step_notes": list(self.step_notes),
            "appendix_after": list(self.notes),
            **self.counts,
            "fault": encode(self.fault),
        }


def appendix_notes(skill: str) -> list[str]:
    """Return the notes that stand in a skill's appendix, in order."""
    regions = (skill[span.start : span.end] for span in protected_regions(skill))
    lines = [
        line.strip()
        for region in regions
        if region.startswith(APPENDIX_START)
        for line in without_markers(region).splitlines()
    ]
    return unique_notes(line[2:] for line in lines if line.startswith("- "))


def with_notes(skill: str, notes: Sequence[str]) -> str:
    """Return the document with its appendix rebuilt at the end; other regions stay."""
    rest = skill
    for span in reversed(protected_regions(skill)):
        if skill.startswith(APPENDIX_START, span.start):
            rest = f"{rest[: span.start].rstrip()}\n\n{rest[span.end :].lstrip()}"
    lines = [APPENDIX_START, APPENDIX_HEADING, *(f"- {note}" for note in notes), APPENDIX_END]
    return f"{rest.rstrip()}\n\n" + "\n".join(lines) + "\n"


async def add_notes(
    optimizer: Optimizer, settings: StepSettings, context: StepContext, notes: Sequence[str]
) -> AppendixUpdate:
    """Put a step's notes into a skill's appendix.

    Where there are more notes than the run's threshold then, the optimiser is asked to make them
    fewer; its answer counts only if it does.
    """
    skill, aware = context.skill, settings.skill_aware
    step_notes, before = unique_notes(notes), appendix_notes(skill)
    together = unique_notes([*before, *step_notes])
    added = len(together) - len(before)
    is_crowded = aware is not None and 0 < aware.consolidate_threshold < len(together)
    if aware is None or not (added or is_crowded):
        return AppendixUpdate(skill, tuple(step_notes), tuple(before))
    fewer, fault = together, None
    if is_crowded:
        fewer, fault = await _consolidated(optimizer, context, together)
    changed = with_notes(skill, fewer)
    if len(changed) > max(settings.limits.max_skill_chars, len(skill)):
        return AppendixUpdate(skill, tuple(step_notes), tuple(before), fault=fault)
    is_fewer = len(fewer) < len(together)
    return AppendixUpdate(changed, tuple(step_notes), tuple(fewer), added, is_fewer, fault)


async def _consolidated(
    optimizer: Optimizer, context: StepContext, notes: list[str]
) -> tuple[list[str], AnalystFault | None]:
    """Ask for fewer notes; return those given where the answer does not have fewer, or none."""
    user = user_message(skill_section(context.skill), ("Notes", json_block(notes)))
    call = Call(
        f"{context.name}.notes",
        "appendix_consolidate",
        user,
        Purpose.APPENDIX,
        context.seed,
        _MAX_TOKENS,
    )
    answer = await optimizer.ask(call, ConsolidateReply)
    if isinstance(answer.reply, AnalystFault):
        return notes, answer.reply
    fewer = read_notes(answer.reply.notes)
    return (fewer if 0 < len(fewer) < len(notes) else notes), None
