"""Rewrite the whole skill, from suggestions or by the analysts themselves.

Protected regions are taken from the old skill, whatever the model returns.

Source: SkillOpt (microsoft/SkillOpt), rewrite modes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, assert_never

from skillwright.core import Purpose, skill_hash
from skillwright.core.edits import PREVIEW_CHARS
from skillwright.core.fence import hidden_at, hidden_character, json_block, restore_tags
from skillwright.core.jsonio import encode
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_HEADING,
    APPENDIX_START,
    body,
    protected_regions,
    without_markers,
)
from skillwright.textopt.context import StepContext, StepSettings, read_notes, unique_notes
from skillwright.textopt.optimizer import (
    Call,
    ConsolidateReply,
    Optimizer,
    RewriteReply,
    notes_section,
    skill_section,
    user_message,
)
from skillwright.textopt.proposal import (
    TOO_LONG,
    AnalystFault,
    EditLimits,
    Proposal,
    SkillCandidate,
    UpdateMode,
    begun,
    cleaned,
    listed,
    texts,
)
from skillwright.textopt.repair import Repair, repair_anchors
from skillwright.textopt.update import EditOutcome, Update, apply_proposals

_REWRITTEN = "applied_rewrite"
_NOT_REWRITTEN = "skipped_no_rewrite"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of the skill.

    Attributes:
        unusable: Reason why there is no new skill, or ``""``.
        call: ``s3.rewrite``, or ``""`` if an analyst wrote the skill.
        repairs: What was done to read the reply.
    """

    change_summary: tuple[str, ...] = ()
    unusable: str = ""
    fault: AnalystFault | None = None
    call: str = ""
    prompt_digest: str = ""
    repairs: tuple[str, ...] = ()


async def rewrite_skill(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> tuple[Update, Rewrite | None]:
    """Rewrite the skill by the selected suggestions, in one call.

    Returns:
        The update with one outcome per suggestion, and the record, or ``None`` without a model
        call.
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
    record = replace(
        record, change_summary=tuple(texts(answer.reply.change_summary)), repairs=answer.repairs
    )
    new, wrong = _usable(answer.reply.new_skill, context.skill, settings.limits)
    if wrong:
        return _unchanged(context.skill, proposals), replace(record, unusable=wrong)
    return _update(context.skill, new, proposals, proposals), record


def take_candidate(
    settings: StepSettings, context: StepContext, proposals: Sequence[Proposal]
) -> tuple[Update, Rewrite]:
    """Take the first usable rewritten skill; return the update, an outcome each, and the record."""
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
    """Return a new document with the old one's protected regions at the end, and no others."""
    new = without_markers(body(text))
    regions = [skill[span.start : span.end] for span in protected_regions(skill)]
    return "\n\n".join([new, *regions]) + "\n"


def _usable(text: str, skill: str, limits: EditLimits) -> tuple[str, str]:
    """Return the document from a model's text, or the reason why it is unusable."""
    if restore_tags(skill) == skill:  # the skill has no such angle brackets, so they mean tags
        text = restore_tags(text)
    if not without_markers(body(text)):
        return skill, "the new skill is empty"
    new = with_regions_of(skill, cleaned(text, limits))
    if new.strip() == skill.strip():  # a final newline is no change
        return skill, ""
    if len(new) > max(limits.max_skill_chars, len(skill)):
        return skill, TOO_LONG
    if {new[at] for at in hidden_at(new)} - {skill[at] for at in hidden_at(skill)}:
        return skill, f"the new skill holds the hidden character {hidden_character(new)}"
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


# Execution notes: an appendix in a protected region at the end of a skill.
# Source: SkillOpt (microsoft/SkillOpt).


_MAX_TOKENS = 4_096


@dataclass(frozen=True, slots=True)
class AppendixUpdate:
    """The changes of a step's notes to a skill.

    Attributes:
        skill: The document with the notes; unchanged if there is nothing to add.
        step_notes: The unique notes of the step.
        notes: All notes in the appendix.
        added: Number of new notes.
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
    """Return the notes that are in a skill's appendix, in order."""
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
    """Add a step's notes to a skill's appendix.

    Above the run's threshold the optimizer is asked for fewer notes; its answer counts only if
    it has fewer.
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
    changed = begun(with_notes(skill, fewer), settings.limits)
    if len(changed) > max(settings.limits.max_skill_chars, len(skill)):
        return AppendixUpdate(skill, tuple(step_notes), tuple(before), fault=fault)
    is_fewer = len(fewer) < len(together)
    return AppendixUpdate(changed, tuple(step_notes), tuple(fewer), added, is_fewer, fault)


async def _consolidated(
    optimizer: Optimizer, context: StepContext, notes: list[str]
) -> tuple[list[str], AnalystFault | None]:
    """Ask for fewer notes; keep the given ones if the answer is not shorter, or empty."""
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


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate, and the further model calls that made it.

    Attributes:
        repair: Repair of lost anchors, or ``None`` without a model call.
        rewrite: The rewrite, or ``None`` if the skill was edited.
        appendix: Changes by the step's execution notes, or ``None`` if there are none, or a job
            adds them after the gate.
    """

    update: Update
    repair: Repair | None = None
    rewrite: Rewrite | None = None
    appendix: AppendixUpdate | None = None

    @property
    def faults(self) -> tuple[AnalystFault, ...]:
        """Errors of the repair, the rewrite and the consolidation of notes."""
        asked = (self.repair, self.rewrite, self.appendix)
        return tuple(one.fault for one in asked if one is not None and one.fault is not None)


async def make_candidate(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    proposals: Sequence[Proposal],
) -> Made:
    """Make a candidate from the selected proposals by the run's update mode."""
    match settings.update_mode:
        case UpdateMode.PATCH:
            fallback = settings.insert_after_fallback
            update = apply_proposals(
                context.skill, proposals, settings.limits, insert_after_fallback=fallback
            )
            update, repair = await repair_anchors(optimizer, settings, context, proposals, update)
            return Made(update, repair=repair)
        case UpdateMode.REWRITE:
            update, rewrite = await rewrite_skill(optimizer, settings, context, proposals)
            return Made(update, rewrite=rewrite)
        case UpdateMode.FULL_REWRITE:
            update, rewrite = take_candidate(settings, context, proposals)
            return Made(update, rewrite=rewrite)
        case never:
            assert_never(never)


async def with_step_notes(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    made: Made,
    notes: Sequence[str],
) -> Made:
    """Add a step's execution notes to its candidate if the gate judges them too."""
    if not notes or settings.skill_aware is None or not settings.skill_aware.gated:
        return made
    skill = made.update.candidate
    appendix = await add_notes(optimizer, settings, replace(context, skill=skill), notes)
    update = replace(
        made.update,
        candidate=appendix.skill,
        candidate_hash=skill_hash(appendix.skill),
        outcomes=_moved(made.update.outcomes, skill, appendix.skill),
        is_noop=appendix.skill == context.skill,
    )
    return replace(made, update=update, appendix=appendix)


def _moved(outcomes: Sequence[EditOutcome], before: str, after: str) -> tuple[EditOutcome, ...]:
    """Update the line numbers of edits after an appendix above them moved to the end."""
    same = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    shifts = {
        block.a + offset: block.b - block.a
        for block in same.get_matching_blocks()
        for offset in range(block.size)
    }

    def moved(outcome: EditOutcome) -> EditOutcome:
        if outcome.lines is None:
            return outcome
        first, last = outcome.lines
        shift = shifts.get(first - 1, 0)
        return replace(outcome, lines=(first + shift, last + shift))

    return tuple(moved(outcome) for outcome in outcomes)
