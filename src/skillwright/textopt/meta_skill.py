"""Meta skill: what the optimiser has learned about optimising this skill.

It is written at an epoch's end and read by analysts, merges, rankings and budget decisions of the
next epoch. It never enters the skill itself.

Source: SkillOpt (microsoft/SkillOpt), its meta skill.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from skillwright.core import Purpose
from skillwright.core.codec import encode_fields
from skillwright.rollout.transcript_text import Cut
from skillwright.textopt.epoch import EpochContext, epoch_message
from skillwright.textopt.lint import EditLimits, text_refusal
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.proposal import AnalystFault
from skillwright.textopt.replies import MetaSkillReply


class MetaSkillAction(StrEnum):
    """What writing the memory came to."""

    WRITTEN = "write_meta_skill"
    """There is new content."""
    NO_CONTENT = "no_content"
    """The optimiser had nothing to say, or nothing was compared; the old content stays."""
    FAULT = "skip_fault"
    """The optimiser's answer could not be used; the old content stays."""


@dataclass(frozen=True, slots=True)
class MetaSkill:
    """The optimiser's memory after an epoch.

    Attributes:
        content: What the next epoch is told, in its `StepContext.meta_skill`.
    """

    action: MetaSkillAction
    content: str
    reasoning: str = ""
    cuts: tuple[Cut, ...] = ()
    notes: tuple[str, ...] = ()
    fault: AnalystFault | None = None
    prompt_digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        record = encode_fields(self)
        return {**record, "meta_skill_content": record.pop("content")}


async def write_meta_skill(
    optimizer: Optimizer, context: EpochContext, previous: str, limits: EditLimits
) -> MetaSkill:
    """Have the memory of an epoch written."""
    nothing = MetaSkill(MetaSkillAction.NO_CONTENT, previous)
    if not context.comparison.pairs:
        return nothing
    earlier = ("Previous notes", previous)
    user, cuts = epoch_message(optimizer, "meta_skill", context, earlier)
    call = Call(f"{context.name}.meta", "meta_skill", user, Purpose.META_SKILL, context.seed)
    answer = await optimizer.ask(call, MetaSkillReply)
    asked = replace(nothing, cuts=cuts, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(asked, action=MetaSkillAction.FAULT, fault=answer.reply)
    asked = replace(asked, reasoning=answer.reply.reasoning)
    content = answer.reply.meta_skill_content.strip()
    refused = text_refusal(content, content, previous, limits)
    if refused:
        return replace(asked, notes=(f"the notes are dropped: {refused}",))
    if not content:
        return asked
    return replace(asked, action=MetaSkillAction.WRITTEN, content=content)
