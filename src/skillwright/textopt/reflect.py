"""Reflect: analysts read trajectories in minibatches and propose edits.

Source: SkillOpt (microsoft/SkillOpt), minibatch reflection, with its partition, shuffles and
chunks. Unlike there, patches are in the order of their minibatches, and an unusable answer is a
recorded fault instead of an empty patch.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Edit, FailureCause, Purpose
from skillwright.core.concurrency import together
from skillwright.core.edits import SourceType
from skillwright.core.fence import attribute
from skillwright.rollout import EngineDown
from skillwright.rollout.transcript import Cut, Transcript, render_trajectories
from skillwright.textopt.context import StepContext, StepSettings, read_notes, unique_notes
from skillwright.textopt.optimizer import (
    AnalystReply,
    Call,
    Optimizer,
    budget_section,
    notes_section,
    skill_section,
    user_message,
)
from skillwright.textopt.proposal import AnalystFault, Evidence, Proposal, item_form, united


@dataclass(frozen=True, slots=True)
class Minibatch:
    """The trajectories of one analyst call.

    Attributes:
        source_type: Whether they failed or succeeded.
        number: Number from 0, per source type.
        rows: Transcripts; those without lines count but are not shown.
    """

    source_type: SourceType
    number: int
    rows: tuple[Transcript, ...]

    @property
    def shown(self) -> tuple[Transcript, ...]:
        """The rows that can be read."""
        return tuple(row for row in self.rows if row.lines)


@dataclass(frozen=True, slots=True)
class FailureNote:
    """A kind of failure that an analyst named.

    Attributes:
        count: Number of trajectories named, or else the analyst's own number, at most the size of
            the minibatch.
    """

    failure_type: str
    count: int
    description: str = ""
    trajectories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalystPatch:
    """The patch of one analyst.

    Attributes:
        call: ``s3.f0``: the analyst of failure minibatch 0 in step 3.
        trajectories: Their ids, in the order shown.
        proposals: Its edits, within the budget.
        failures: Kinds of failure that it named.
        success_patterns: Behavior that worked.
        execution_notes: Reminders of rules that the agent did not follow.
        notes: Dropped and corrected parts of its reply.
        dropped: Number of its edits that could not be read or are refused.
        repairs: What was done to read its reply.
    """

    call: str
    source_type: SourceType
    trajectories: tuple[str, ...]
    proposals: tuple[Proposal, ...]
    reasoning: str = ""
    failures: tuple[FailureNote, ...] = ()
    success_patterns: tuple[str, ...] = ()
    execution_notes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cuts: tuple[Cut, ...] = ()
    prompt_digest: str = ""
    dropped: int = 0
    repairs: tuple[str, ...] = ()


Outcome = AnalystPatch | AnalystFault
"""The result of a minibatch."""

INFRASTRUCTURE = frozenset({FailureCause.MODEL, FailureCause.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Reflection:
    """The result of each minibatch, in order: a patch or a fault.

    Attributes:
        notes: Invalid patches of an adapter's own analysts.
    """

    outcomes: tuple[Outcome, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def patches(self) -> tuple[AnalystPatch, ...]:
        """The readable replies, with or without edits."""
        return tuple(o for o in self.outcomes if isinstance(o, AnalystPatch))

    @property
    def faults(self) -> tuple[AnalystFault, ...]:
        """The failed calls."""
        return tuple(o for o in self.outcomes if isinstance(o, AnalystFault))

    @property
    def execution_notes(self) -> tuple[str, ...]:
        """The unique notes for the agent."""
        return tuple(unique_notes(note for p in self.patches for note in p.execution_notes))

    def refuse_dead_optimizer(self) -> None:
        """Stop if no analyst could be reached; an unusable reply or a refusal is an answer.

        Raises:
            EngineDown: Every call failed in the infrastructure; the message quotes the latest.
        """
        faults = self.faults
        if faults and all(
            isinstance(outcome, AnalystFault) and outcome.failure.cause in INFRASTRUCTURE
            for outcome in self.outcomes
        ):
            raise EngineDown(
                f"all {len(faults)} analyst calls to the optimizer failed; the latest: "
                f"{faults[-1].failure.message}"
            )


async def reflect(
    optimizer: Optimizer, settings: StepSettings, context: StepContext, rows: Sequence[Transcript]
) -> Reflection:
    """Analyze all minibatches concurrently; the result does not depend on timing."""
    slots = asyncio.Semaphore(settings.analyst_workers)
    minibatches = readable_minibatches(rows, settings, context.seed)
    works = [analyze(optimizer, settings, context, one, slots) for one in minibatches]
    return Reflection(tuple(await together(works)))


def readable_minibatches(
    rows: Sequence[Transcript], settings: StepSettings, seed: int | None
) -> list[Minibatch]:
    """Plan minibatches; leave out results without a transcript."""
    return [one for one in plan_minibatches(rows, settings, seed) if one.shown]


def plan_minibatches(
    rows: Sequence[Transcript], settings: StepSettings, seed: int | None
) -> list[Minibatch]:
    """Shuffle failures and successes separately, and split them into minibatches, failures first.

    Failures are shuffled by ``Random(seed)``, successes by ``Random(seed + 1)``; without a seed
    they keep their order.
    """
    threshold, size = settings.success_threshold, settings.minibatch_size
    failures = [row for row in rows if not row.is_success(threshold)]
    successes = [row for row in rows if row.is_success(threshold) and not settings.failure_only]
    if seed is not None:
        random.Random(seed).shuffle(failures)
        random.Random(seed + 1).shuffle(successes)
    groups: tuple[tuple[SourceType, list[Transcript]], ...] = (
        ("failure", failures),
        ("success", successes),
    )
    return [
        Minibatch(source_type, number, tuple(group[start : start + size]))
        for source_type, group in groups
        for number, start in enumerate(range(0, len(group), size))
    ]


async def analyze(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    minibatch: Minibatch,
    slots: asyncio.Semaphore,
) -> Outcome:
    """Analyze one minibatch when a slot is free."""
    form, is_whole = item_form(settings.update_mode), settings.rewrites_whole
    budget = settings.analyst_cap(context.budget)
    analyst = "analyst_error" if minibatch.source_type == "failure" else "analyst_success"
    prompt = analyst + form.suffix
    addendum = settings.addendum(minibatch.source_type)
    before = user_message(
        skill_section(context.skill),
        budget_section("Propose", 1 if is_whole else budget, form.noun),
        ("Earlier steps", context.earlier_steps),
        notes_section(context.meta_skill),
    )
    before = f"{before}\n\n## Trajectories\n"
    rendering = render_trajectories(
        minibatch.shown, minibatch.source_type, optimizer.room(prompt, before, addendum)
    )
    call = Call(
        name=f"{context.name}.{minibatch.source_type[0]}{minibatch.number}",
        prompt=prompt,
        user=before + rendering.text,
        purpose=Purpose.REFLECT,
        seed=context.seed,
        max_tokens=settings.rewrite_max_tokens if is_whole else None,
        addendum=addendum,
    )
    async with slots:
        answer = await optimizer.ask(call, AnalystReply)
    if isinstance(answer.reply, AnalystFault):
        return answer.reply
    reader = ReplyReader(call.name, minibatch, answer.prompt_digest)
    found = form.read(answer.reply.patch.edits, context.skill, settings.limits)
    proposals = [reader.proposal(*edit) for edit in found.edits]
    notes = [*found.notes, *reader.notes]
    reminders = read_notes(answer.reply.appendix_notes, notes) if addendum else []
    if budget is not None and len(proposals) > budget:
        notes.append(f"{len(proposals)} edits were proposed; the first {budget} are kept")
    return AnalystPatch(
        call=call.name,
        source_type=minibatch.source_type,
        trajectories=tuple(row.id for row in minibatch.shown),
        proposals=tuple(proposals[:budget]),
        reasoning=answer.reply.reasoning,
        failures=tuple(reader.failures(answer.reply.failure_summary)),
        success_patterns=tuple(
            text for text in answer.reply.success_patterns if isinstance(text, str)
        ),
        execution_notes=tuple(reminders),
        notes=tuple(notes),
        cuts=rendering.cuts,
        prompt_digest=answer.prompt_digest,
        dropped=len(answer.reply.patch.edits) - len(found.edits) + answer.left_edits,
        repairs=(*answer.repairs, *found.repairs),
    )


class ReplyReader:
    """Reads one analyst's reply against the trajectories that it was shown."""

    def __init__(self, call: str, minibatch: Minibatch, prompt_digest: str) -> None:
        self.notes: list[str] = []
        self._call = call
        self._source_type = minibatch.source_type
        self._prompt_digest = prompt_digest
        self._turns = {row.id: {line.turn for line in row.lines} for row in minibatch.shown}

    def proposal(self, number: int, edit: Edit, item: Mapping[str, Any]) -> Proposal:
        """Give an edit its id and its evidence."""
        evidence = self._evidence(number, item.get("evidence"))
        edit.support_count, edit.source_type = len(evidence), self._source_type
        return Proposal(
            id=f"{self._call}.e{number}",
            edit=edit,
            source_type=self._source_type,
            evidence=evidence,
            prompt_digest=self._prompt_digest,
        )

    def failures(self, entries: Sequence[Any]) -> Iterable[FailureNote]:
        """Read the kinds of failure; a count is never more than there was to see."""
        for entry in entries:
            name = entry.get("failure_type") if isinstance(entry, Mapping) else None
            if not isinstance(name, str) or not name.strip():
                continue
            ids = _texts(entry.get("ids"))
            named = tuple(row_id for row_id in self._turns if row_id in ids)
            count = entry.get("count")
            guess = count if isinstance(count, int) and not isinstance(count, bool) else 1
            yield FailureNote(
                failure_type=name.strip(),
                count=len(named) or min(max(guess, 1), len(self._turns)),
                description=" ".join(_texts([entry.get("description")])),
                trajectories=named,
            )

    def _evidence(self, number: int, items: Any) -> tuple[Evidence, ...]:
        known, unknown = [], []
        for item in items if isinstance(items, list) else ():
            row_id, turns = _citation(item)
            if row_id in self._turns:
                known.append(Evidence(row_id, tuple(t for t in turns if t in self._turns[row_id])))
            else:
                unknown.append(row_id)
        if unknown:
            names = ", ".join(repr(name[:80]) for name in unknown)
            self.notes.append(f"e{number} cites trajectories that were not shown: {names}")
        if not known:
            self.notes.append(
                f"e{number} cites nothing known; all of its minibatch is its evidence"
            )
            known = [Evidence(row_id) for row_id in self._turns]
        return united(known)


def _citation(item: Any) -> tuple[str, list[int]]:
    """Read one piece of evidence: an object with ``id`` and ``turns``, or a bare id."""
    fields = item if isinstance(item, Mapping) else {"id": item}
    turns = fields.get("turns")
    numbers = [turn for turn in turns if type(turn) is int] if isinstance(turns, list) else []
    return attribute(str(fields.get("id", ""))), numbers


def _texts(values: Any) -> list[str]:
    return [v for v in values if isinstance(v, str)] if isinstance(values, list) else []
