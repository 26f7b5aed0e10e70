"""Rewrite: the whole skill is written anew, by suggestions or by the analysts themselves.

Protected regions are taken from the skill, whatever the model returns.

Source: SkillOpt (microsoft/SkillOpt), rewrite modes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillwright.core import Purpose, skill_hash
from skillwright.core.edit import PREVIEW_CHARS
from skillwright.core.fence import is_hidden, json_block, restore_tags
from skillwright.core.skill import body, protected_regions, without_markers
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.items import SkillCandidate, listed, texts
from skillwright.textopt.lint import INVISIBLE, TOO_LONG, EditLimits
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.prompts import notes_section, skill_section, user_message
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.replies import RewriteReply
from skillwright.textopt.update import EditOutcome, Update

_REWRITTEN = "applied_rewrite"
_NOT_REWRITTEN = "skipped_no_rewrite"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a skill was written anew.

    Attributes:
        unusable: Why there is no new skill, or ``""``.
        call: ``s3.rewrite``, or ``""`` where an analyst wrote the skill.
    """

    change_summary: tuple[str, ...] = ()
    unusable: str = ""
    fault: AnalystFault | None = None
    call: str = ""
    prompt_digest: str = ""


async def rewrite_skill(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> tuple[Update, Rewrite | None]:
    """Have the skill rewritten by the selected suggestions, in one call.

    Returns:
        The update with one outcome per suggestion, and the record; ``None`` for the record where
        there is no suggestion, and nobody was asked.
    """
    if not proposals:
        return _unchanged(context.skill, proposals), None
    user = user_message(
        skill_section(context.skill),
        ("Earlier steps", context.earlier_steps),
        notes_section(context.meta_skill),
        ("Suggestions", json_block(listed(settings.update_mode, proposals))),
    )
    call = Call(
        f"{context.name}.rewrite",
        "rewrite_skill",
        user,
        Purpose.REWRITE,
        context.seed,
        settings.rewrite_max_tokens,
    )
    answer = await optimizer.ask(call, RewriteReply)
    record = Rewrite(call=call.name, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        fault = answer.reply
        return _unchanged(context.skill, proposals), replace(
            record, unusable=fault.failure.message, fault=fault
        )
    record = replace(record, change_summary=tuple(texts(answer.reply.change_summary)))
    new, wrong = _usable(answer.reply.new_skill, context.skill, settings.limits)
    if wrong:
        return _unchanged(context.skill, proposals), replace(record, unusable=wrong)
    return _update(context.skill, new, proposals, proposals), record


def take_candidate(
    settings: StepSettings, context: StepContext, proposals: Sequence[Proposal]
) -> tuple[Update, Rewrite]:
    """Take the first rewritten skill that can be used.

    Returns:
        The update with one outcome per rewritten skill, and the record.
    """
    wrong = "no analyst and no merge wrote a skill"
    for proposal in proposals:
        new, wrong = _usable(proposal.edit.content, context.skill, settings.limits)
        if not wrong:
            summary = (
                proposal.edit.change_summary if isinstance(proposal.edit, SkillCandidate) else []
            )
            update = _update(context.skill, new, proposals, [proposal])
            return update, Rewrite(tuple(summary), prompt_digest=proposal.prompt_digest)
    return _unchanged(context.skill, proposals), Rewrite(unusable=wrong)


def with_regions_of(skill: str, text: str) -> str:
    """Return a new document with the protected regions of the old one, and no other.

    The regions stand at the end, each as it was and in the old order.
    """
    new = without_markers(body(text))
    regions = [skill[span.start : span.end] for span in protected_regions(skill)]
    return "\n\n".join([new, *regions]) + "\n"


def _usable(text: str, skill: str, limits: EditLimits) -> tuple[str, str]:
    """Return the document that a model's text becomes, or why it cannot be used."""
    if restore_tags(skill) == skill:  # the skill has no such angles, so they stand for ours
        text = restore_tags(text)
    if not without_markers(body(text)):
        return skill, "the new skill is empty"
    new = with_regions_of(skill, text)
    if new.strip() == skill.strip():  # a final newline is no change to judge
        return skill, ""
    if len(new) > max(limits.max_skill_chars, len(skill)):
        return skill, TOO_LONG
    if any(map(is_hidden, set(new) - set(skill))):
        return skill, INVISIBLE
    return new, ""


def _unchanged(skill: str, proposals: Sequence[Proposal]) -> Update:
    return _update(skill, skill, proposals, [])


def _update(
    skill: str, new: str, proposals: Sequence[Proposal], used: Sequence[Proposal]
) -> Update:
    outcomes = [
        EditOutcome(
            proposal_id=proposal.id,
            index=index,
            op=proposal.edit.op,
            target="",
            content_preview=proposal.edit.content[:PREVIEW_CHARS],
            status=_REWRITTEN if proposal in used else _NOT_REWRITTEN,
        )
        for index, proposal in enumerate(proposals, start=1)
    ]
    return Update(new, skill_hash(new), tuple(outcomes), is_noop=new == skill)
