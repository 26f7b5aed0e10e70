"""Aggregate: merge the patches of all analysts into one, level by level.

Source: SkillOpt (microsoft/SkillOpt), hierarchical merge. Failures and successes are merged in two
trees at the same time, and then with each other. The support of a merged edit is counted from
the edits that it names as its sources, never taken from the model's own number.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

from skillwright.core import Edit, Purpose
from skillwright.core.concurrency import together
from skillwright.core.edits import SourceType
from skillwright.core.fence import json_block
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.optimizer import (
    Call,
    MergeReply,
    Optimizer,
    notes_section,
    skill_section,
    user_message,
)
from skillwright.textopt.proposal import AnalystFault, ItemForm, Proposal, item_form, label, united
from skillwright.textopt.reflect import AnalystPatch

SIDES: tuple[SourceType, ...] = get_args(SourceType)


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge call.

    Attributes:
        call: ``s3.f.m1.0``: first merge on level 1 of the failure tree; ``s3.final`` the last one.
        level: Level from 1; the final merge is one above the taller tree.
        inputs: Ids of the merged proposals.
        outputs: Ids of the results; the inputs themselves if ``fault`` is set.
        fault: Reason for concatenating the inputs instead of merging them, or ``None``.
        dropped: Number of the reply's edits that could not be read or are refused.
        repairs: What was done to read the reply.
    """

    call: str
    level: int
    inputs: tuple[str, ...]
    outputs: tuple[Proposal, ...]
    fault: AnalystFault | None = None
    notes: tuple[str, ...] = ()
    prompt_digest: str = ""
    dropped: int = 0
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Merged proposals, and the merge calls; without a final merge failures come first.

    Attributes:
        notes: Which proposals were equal to earlier ones.
    """

    proposals: tuple[Proposal, ...] = ()
    merges: tuple[Merge, ...] = ()
    notes: tuple[str, ...] = ()


class PatchNode(NamedTuple):
    """A node of a merge tree: the proposals that an analyst or a merge wrote."""

    source_type: SourceType
    proposals: tuple[Proposal, ...]


async def aggregate(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    patches: Sequence[AnalystPatch],
) -> Aggregate:
    """Merge patches into one; drop patches without edits, keep a single patch as it is.

    If a merge's reply is unusable, its inputs are concatenated, and its record says so.
    """

    async def of(side: SourceType) -> AsyncIterator[PatchNode]:
        for patch in patches:
            if patch.source_type == side:
                yield PatchNode(side, patch.proposals)

    return await merge_sides(optimizer, settings, context, {side: of(side) for side in SIDES})


async def merge_sides(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    sides: Mapping[SourceType, AsyncIterator[PatchNode]],
) -> Aggregate:
    """Merge each side's patches as they arrive, then both sides.

    A merge starts when its chunk and all earlier patches are known, so the order of arrival does
    not change what is merged.
    """
    calls = _MergeCalls(optimizer, settings, context)
    trees = [_Tree(calls, side) for side in sides]
    grown = await together(
        tree.grow(0, patches) for tree, patches in zip(trees, sides.values(), strict=True)
    )
    roots = [root for root in grown if root is not None]
    merges = tuple(merge for tree in trees for merge in tree.merges)
    if len(roots) < 2:
        proposals = roots[0].proposals if roots else ()
    else:
        level = max(tree.height for tree in trees) + 1
        prompt = f"merge_final{calls.form.suffix}"
        final, merge = await calls.merge(f"{context.name}.final", prompt, level, roots)
        proposals, merges = final.proposals, (*merges, merge)
    if settings.limits.as_written:
        return Aggregate(proposals, merges)
    distinct, notes = _without_equals(proposals)
    return Aggregate(distinct, merges, notes)


def _without_equals(proposals: Sequence[Proposal]) -> tuple[tuple[Proposal, ...], tuple[str, ...]]:
    """Keep the first of equal proposals, with the evidence of all, and note the others."""
    first: dict[tuple[str, ...], Proposal] = {}
    notes = []
    for one in proposals:
        wording = (label(one.edit)[0], one.edit.target, one.edit.content.strip())
        known = first.setdefault(wording, one)
        if known is one:
            continue
        sides: set[SourceType] = {known.source_type, one.source_type}
        both = replace(
            known,
            edit=replace(known.edit),
            source_type="failure" if "failure" in sides else "success",
            evidence=united((*known.evidence, *one.evidence)),
            parents=tuple(dict.fromkeys((*known.parents, *one.parents))),
        )
        both.edit.support_count, both.edit.source_type = both.support, both.source_type
        first[wording] = both
        notes.append(f"{one.id} is equal to {known.id}: they are one edit")
    return tuple(first.values()), tuple(notes)


class _Tree:
    """One side's patches, merged level by level until one is left."""

    def __init__(self, calls: "_MergeCalls", side: SourceType) -> None:
        self.height = 0
        self._calls = calls
        self._side = side
        self._merges: dict[tuple[int, int], Merge] = {}

    @property
    def merges(self) -> list[Merge]:
        """The merges so far, level by level."""
        return [self._merges[place] for place in sorted(self._merges)]

    async def grow(self, level: int, patches: AsyncIterator[PatchNode]) -> PatchNode | None:
        """Merge patches in chunks, and the chunks on the levels above; return the last patch."""
        waiting: list[PatchNode] = []
        merging: asyncio.Queue[asyncio.Task[PatchNode] | None] = asyncio.Queue()
        numbers = itertools.count()
        above: asyncio.Task[PatchNode | None] | None = None
        async with asyncio.TaskGroup() as group:

            def start_chunk() -> asyncio.Task[PatchNode | None]:
                chunk = self._merged(level + 1, next(numbers), tuple(waiting))
                merging.put_nowait(group.create_task(chunk))
                waiting.clear()
                return above or group.create_task(self.grow(level + 1, _in_order(merging)))

            async for patch in patches:
                # A merge may drop every edit; its place is then empty.
                waiting += [patch] if patch.proposals else []
                if len(waiting) == self._calls.settings.merge_batch_size:
                    above = start_chunk()
            if len(waiting) > 1 or (waiting and above):
                above = start_chunk()
            merging.put_nowait(None)
        if above is None:
            return waiting[0] if waiting else None
        return above.result()

    async def _merged(self, level: int, number: int, chunk: Sequence[PatchNode]) -> PatchNode:
        """Merge a chunk into one patch; keep a chunk of one as it is."""
        self.height = max(self.height, level)
        if len(chunk) == 1:
            return chunk[0]
        name = f"{self._calls.context.name}.{self._side[0]}.m{level}.{number}"
        prompt = f"merge_{self._side}{self._calls.form.suffix}"
        patch, self._merges[level, number] = await self._calls.merge(name, prompt, level, chunk)
        return patch


async def _in_order(
    merging: asyncio.Queue[asyncio.Task[PatchNode] | None],
) -> AsyncIterator[PatchNode]:
    while (task := await merging.get()) is not None:
        yield await task


@dataclass(frozen=True, slots=True)
class _MergeCalls:
    """Makes merge calls."""

    optimizer: Optimizer
    settings: StepSettings
    context: StepContext

    @property
    def form(self) -> ItemForm:
        """The form of the merged items."""
        return item_form(self.settings.update_mode)

    async def merge(
        self, name: str, prompt: str, level: int, patches: Sequence[PatchNode]
    ) -> tuple[PatchNode, Merge]:
        """Merge patches by one call, or concatenate their edits if it fails."""
        user = user_message(
            skill_section(self.context.skill),
            notes_section(self.context.meta_skill),
            ("Merge level", str(level)),
            ("Patches", json_block(_shown(patches, self.form))),
        )
        longer = self.settings.rewrite_max_tokens if self.settings.rewrites_whole else None
        call = Call(name, prompt, user, Purpose.MERGE, self.context.seed, longer)
        answer = await self.optimizer.ask(call, MergeReply)
        inputs = [proposal for patch in patches for proposal in patch.proposals]
        tree_level = None if prompt.startswith("merge_final") else level
        if isinstance(answer.reply, AnalystFault):
            fault, notes, dropped = answer.reply, [], 0
            repairs: tuple[str, ...] = ()
            outputs = [_on_level(proposal, tree_level) for proposal in inputs]
        else:
            reader = _Reader(name, patches, tree_level, answer.prompt_digest)
            found = self.form.read(answer.reply.edits, self.context.skill, self.settings.limits)
            fault, outputs = None, [reader.proposal(*edit) for edit in found.edits]
            notes = [*found.notes, *reader.notes]
            dropped = len(answer.reply.edits) - len(found.edits) + answer.left_edits
            repairs = (*answer.repairs, *found.repairs)
            if not outputs:
                notes.append(f"none of {len(inputs)} edits is kept")
        merge = Merge(
            call=name,
            level=level,
            inputs=tuple(proposal.id for proposal in inputs),
            outputs=tuple(outputs),
            fault=fault,
            notes=tuple(notes),
            prompt_digest=answer.prompt_digest,
            dropped=dropped,
            repairs=repairs,
        )
        return PatchNode(patches[0].source_type, tuple(outputs)), merge


class _Reader:
    """Reads a merge's reply against the edits in its prompt."""

    def __init__(
        self, call: str, patches: Sequence[PatchNode], level: int | None, prompt_digest: str
    ) -> None:
        self.notes: list[str] = []
        self._call = call
        self._source_type = patches[0].source_type
        self._level = level
        self._prompt_digest = prompt_digest
        self._inputs = _labeled(patches)

    def proposal(self, number: int, edit: Edit, item: Mapping[str, Any]) -> Proposal:
        """Give a merged edit the evidence of the edits that it names."""
        parents = self._parents(number, edit, item.get("sources"))
        failed = any(parent.source_type == "failure" for parent in parents)
        source_type: SourceType = "failure" if failed else "success"
        proposal = Proposal(
            id=f"{self._call}.e{number}",
            edit=edit,
            source_type=source_type if parents else self._source_type,
            evidence=united(item for parent in parents for item in parent.evidence),
            parents=tuple(parent.id for parent in parents),
            prompt_digest=self._prompt_digest,
        )
        edit.support_count, edit.source_type = proposal.support, proposal.source_type
        edit.merge_level = self._level
        return proposal

    def _parents(self, number: int, edit: Edit, sources: Any) -> list[Proposal]:
        cited = [s for s in sources if isinstance(s, str)] if isinstance(sources, list) else []
        parents = [proposal for label, proposal in self._inputs.items() if label in cited]
        if parents:
            return parents
        # A copied edit names its source. Any other edit without a source has no support, so that it
        # ranks below edits with evidence.
        same = [p for p in self._inputs.values() if _text_of(p.edit) == _text_of(edit)]
        if not same:
            self.notes.append(f"e{number} names no known source; its support is 0")
        return same


def _labeled(patches: Sequence[PatchNode]) -> dict[str, Proposal]:
    """Give each edit a short name, ``p1.e1``, for citations in the reply."""
    return {
        f"p{p}.e{e}": proposal
        for p, patch in enumerate(patches, start=1)
        for e, proposal in enumerate(patch.proposals, start=1)
    }


def _shown(patches: Sequence[PatchNode], form: ItemForm) -> list[dict[str, Any]]:
    return [
        {
            "id": f"p{p}",
            "source_type": patch.source_type,
            "support": len({e.trajectory for q in patch.proposals for e in q.evidence}),
            "edits": [
                {"id": label, **form.fields(proposal.edit), "support": proposal.support}
                for label, proposal in _labeled(patches).items()
                if label.startswith(f"p{p}.")
            ],
        }
        for p, patch in enumerate(patches, start=1)
    ]


def _text_of(edit: Edit) -> tuple[str, str, str]:
    return edit.op, edit.target, edit.content


def _on_level(proposal: Proposal, level: int | None) -> Proposal:
    """Set the level of an unmerged edit that has none."""
    if level is None or proposal.edit.merge_level is not None:
        return proposal
    return replace(proposal, edit=replace(proposal.edit, merge_level=level))
