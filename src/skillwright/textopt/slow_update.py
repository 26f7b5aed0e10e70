"""Slow update: at an epoch's end, guidance that looks further than one batch.

The optimiser compares the same tasks under the skill of the epoch before and the current one, and
writes guidance into a region of the document that no edit of a step may touch. What comes out is a
candidate; whether it replaces the skill is the gate's decision.

Source: SkillOpt (microsoft/SkillOpt; arXiv 2605.23904), its slow update, the momentum of text.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from skillwright.core import Purpose, skill_hash
from skillwright.core.codec import encode_fields
from skillwright.core.skill import (
    inject_empty_slow_update,
    replace_slow_update_field,
    slow_update_field,
    without_markers,
)
from skillwright.rollout.transcript_text import Cut
from skillwright.textopt.comparison import ComparedPair
from skillwright.textopt.epoch import EpochContext, epoch_message
from skillwright.textopt.lint import EditLimits, text_refusal
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.proposal import AnalystFault
from skillwright.textopt.replies import SlowUpdateReply


class SlowUpdateStatus(StrEnum):
    """What a slow update came to before the gate."""

    CANDIDATE = "candidate"
    """There is a changed document to judge."""
    PLACEHOLDER = "inject_placeholder"
    """The first epoch has nothing to compare; an empty region stands in the document."""
    NO_PAIRS = "skip_no_pairs"
    """No task was scored under both skills, or none that the policy keeps."""
    NO_CONTENT = "skip_no_content"
    """The optimiser had nothing to say, or what it said may not enter a skill."""
    NO_CHANGE = "skip_no_change"
    """The guidance is what stands there already."""
    FAULT = "skip_fault"
    """The optimiser's answer could not be used."""


@dataclass(frozen=True, slots=True)
class SlowUpdate:
    """A slow update before the gate.

    Attributes:
        candidate: The document to judge; the skill itself where nothing changed.
        means: Mean rewards under the previous and the current skill, or ``None`` without pairs.
    """

    status: SlowUpdateStatus
    candidate: str
    content: str = ""
    reasoning: str = ""
    pairs: tuple[ComparedPair, ...] = ()
    means: tuple[float, float] | None = None
    cuts: tuple[Cut, ...] = ()
    notes: tuple[str, ...] = ()
    fault: AnalystFault | None = None
    prompt_digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trajectories as a JSON object, for the run's record."""
        record = encode_fields(self)
        content = record.pop("content")
        named = {"candidate_hash": skill_hash(self.candidate), "slow_update_content": content}
        return {**record, **named}


def placeholder(skill: str) -> SlowUpdate:
    """Return the first epoch's update, an empty region. It changes the text and is not measured."""
    return SlowUpdate(SlowUpdateStatus.PLACEHOLDER, inject_empty_slow_update(skill))


async def write_slow_update(
    optimizer: Optimizer, context: EpochContext, limits: EditLimits
) -> SlowUpdate:
    """Have the guidance of an epoch written, and put it into the skill."""
    skill, comparison = context.skill, context.comparison
    nothing = SlowUpdate(
        SlowUpdateStatus.NO_PAIRS, skill, pairs=comparison.pairs, means=comparison.means
    )
    if not comparison.pairs:
        return nothing
    guidance = ("Previous guidance", slow_update_field(skill))
    user, cuts = epoch_message(optimizer, "slow_update", context, guidance)
    call = Call(f"{context.name}.slow", "slow_update", user, Purpose.SLOW_UPDATE, context.seed)
    answer = await optimizer.ask(call, SlowUpdateReply)
    asked = replace(nothing, cuts=cuts, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(asked, status=SlowUpdateStatus.FAULT, fault=answer.reply)
    content = without_markers(answer.reply.slow_update_content)
    asked = replace(
        asked,
        status=SlowUpdateStatus.NO_CONTENT,
        reasoning=answer.reply.reasoning,
        content=content,
    )
    candidate = replace_slow_update_field(skill, content)
    refused = text_refusal(content, candidate, skill, limits) if content else None
    if refused or not content:
        notes = (f"the guidance is dropped: {refused}",) if refused else ()
        return replace(asked, content="", notes=notes)
    if candidate == skill:
        return replace(asked, status=SlowUpdateStatus.NO_CHANGE)
    return replace(asked, status=SlowUpdateStatus.CANDIDATE, candidate=candidate)
