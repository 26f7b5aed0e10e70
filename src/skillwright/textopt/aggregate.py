"""Aggregate: many analysts' patches become one, level by level.

Source: SkillOpt (microsoft/SkillOpt), hierarchical merge. Failures and successes are merged in two
trees that grow at the same time, and then with each other. What a merged edit stands for is
counted from the edits that it names as its sources, never taken from the model's own number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from skillwright.core import Edit, Purpose
from skillwright.core.edit import SourceType
from skillwright.core.fence import json_block
from skillwright.core.together import together
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.items import ItemForm, item_form
from skillwright.textopt.merge_tree import Chunk, Level, PatchNode
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.prompts import notes_section, skill_section, user_message
from skillwright.textopt.proposal import AnalystFault, Proposal, united
from skillwright.textopt.reflect import AnalystPatch
from skillwright.textopt.replies import MergeReply

SIDES: tuple[SourceType, ...] = get_args(SourceType)


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge call.

    Attributes:
        call: ``s3.f.m1.0``: first merge on level 1 of the failure tree; ``s3.final`` the last one.
        level: From 1; the final merge has the level above the taller tree.
        inputs: Ids of the proposals that went in.
        outputs: Those that came out; the inputs themselves where ``fault`` is set.
        fault: Why the inputs were put one after the other instead of merged, or ``None``.
    """

    call: str
    level: int
    inputs: tuple[str, ...]
    outputs: tuple[Proposal, ...]
    fault: AnalystFault | None = None
    notes: tuple[str, ...] = ()
    prompt_digest: str = ""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One list of proposals, failures' before successes' where nothing merged them, and how."""

    proposals: tuple[Proposal, ...] = ()
    merges: tuple[Merge, ...] = ()


async def aggregate(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    patches: Sequence[AnalystPatch],
) -> Aggregate:
    """Merge patches into one; a patch without edits is left out, a single patch stays as it is.

    A merge whose reply cannot be used puts its inputs one after the other, and says so.
    """
    merging = Merging(optimizer, settings, context, groups=1)
    await merging.add(0, patches)
    return await merging.finish()


class Merging:
    """The merge calls of one step; patches are merged as they come, and the outcome is the same."""

    def __init__(
        self, optimizer: Optimizer, settings: StepSettings, context: StepContext, groups: int
    ) -> None:
        self._calls = _MergeCalls(optimizer, settings, context)
        self._trees = {side: _Tree(self._calls, side, groups) for side in SIDES}

    async def add(self, group: int, patches: Sequence[AnalystPatch]) -> None:
        """Add all patches of a group, in their order."""
        sides = {side: [p for p in patches if p.source_type == side] for side in SIDES}
        for side, found in sides.items():
            for number, patch in enumerate(found):
                self._trees[side].level(0).line.put(group, number, _node(patch))
        await together(self.expect(group, side, len(found)) for side, found in sides.items())

    async def expect(self, group: int, side: SourceType, count: int) -> None:
        """Say how many patches a side of a group has, and merge what that makes ready."""
        self._trees[side].level(0).line.expect(group, count)
        await self._trees[side].grow(0)

    async def put(
        self, group: int, side: SourceType, number: int, patch: AnalystPatch | None
    ) -> None:
        """Put a patch in its place, or ``None`` where there is none; merge what is ready then."""
        self._trees[side].level(0).line.put(group, number, _node(patch) if patch else None)
        await self._trees[side].grow(0)

    async def finish(self) -> Aggregate:
        """Merge what both sides came to, once every place was filled."""
        trees = list(self._trees.values())
        merges = tuple(merge for tree in trees for merge in tree.merges)
        roots = tuple(patch for tree in trees for patch in tree.top.root)
        if len(roots) < 2:
            return Aggregate(roots[0].proposals if roots else (), merges)
        level = max(tree.height for tree in trees) + 1
        calls = self._calls
        prompt = f"merge_final{calls.form.suffix}"
        final, merge = await calls.merge(f"{calls.context.name}.final", prompt, level, roots)
        return Aggregate(final.proposals, (*merges, merge))


class _Tree:
    """One side's patches, merged until one is left."""

    def __init__(self, calls: "_MergeCalls", side: SourceType, groups: int) -> None:
        self._calls = calls
        self._side = side
        self._levels = [Level(groups, calls.settings.merge_batch_size)]
        self._merges: dict[tuple[int, int], Merge] = {}

    @property
    def height(self) -> int:
        """How many levels of merges there are."""
        return len(self._levels) - 1

    @property
    def top(self) -> Level:
        """The level that holds what the tree has grown into."""
        return self._levels[-1]

    @property
    def merges(self) -> list[Merge]:
        """The merges so far, level by level."""
        return [self._merges[place] for place in sorted(self._merges)]

    def level(self, number: int) -> Level:
        """Return a level; the analysts' own patches are level 0."""
        if number == len(self._levels):
            self._levels.append(Level(1, self._calls.settings.merge_batch_size))
        return self._levels[number]

    async def grow(self, number: int) -> None:
        """Merge what is ready on a level, all of it at once, and on the levels above."""
        level = self._levels[number]
        chunks = level.take_chunks()
        works = [self._merge(number + 1, chunk) for chunk in chunks]
        if level.line.is_over and not level.is_top:
            # A merge may find nothing worth keeping; its place is then empty, and still counts.
            self.level(number + 1).line.expect(0, level.chunks)
            works.append(self.grow(number + 1))
        await together(works)

    async def _merge(self, number: int, chunk: Chunk) -> None:
        level = self.level(number)
        patch, *several = chunk.patches
        if several:
            name = f"{self._calls.context.name}.{self._side[0]}.m{number}.{chunk.number}"
            prompt = f"merge_{self._side}{self._calls.form.suffix}"
            patch, merge = await self._calls.merge(name, prompt, number, chunk.patches)
            self._merges[number, chunk.number] = merge
        level.line.put(0, chunk.number, patch)
        await self.grow(number)


def _node(patch: AnalystPatch) -> PatchNode:
    return PatchNode(patch.source_type, patch.proposals)


@dataclass(frozen=True, slots=True)
class _MergeCalls:
    """Asks for one merge."""

    optimizer: Optimizer
    settings: StepSettings
    context: StepContext

    @property
    def form(self) -> ItemForm:
        """The form of what is merged."""
        return item_form(self.settings.update_mode)

    async def merge(
        self, name: str, prompt: str, level: int, patches: Sequence[PatchNode]
    ) -> tuple[PatchNode, Merge]:
        """Merge patches by one call, or put their edits one after the other where it fails."""
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
            fault, notes = answer.reply, []
            outputs = [_on_level(proposal, tree_level) for proposal in inputs]
        else:
            reader = _Reader(name, patches, tree_level, answer.prompt_digest)
            found = self.form.read(answer.reply.edits, self.context.skill, self.settings.limits)
            fault, outputs = None, [reader.proposal(*edit) for edit in found.edits]
            notes = [*found.notes, *reader.notes]
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
        )
        return PatchNode(patches[0].source_type, tuple(outputs)), merge


class _Reader:
    """Reads one merge's reply against the edits that it was shown."""

    def __init__(
        self, call: str, patches: Sequence[PatchNode], level: int | None, prompt_digest: str
    ) -> None:
        self.notes: list[str] = []
        self._call = call
        self._source_type = patches[0].source_type
        self._level = level
        self._prompt_digest = prompt_digest
        self._inputs = _labelled(patches)

    def proposal(self, number: int, edit: Edit, item: Mapping[str, Any]) -> Proposal:
        """Give a merged edit the evidence of the edits that it names, and no other."""
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
        # A copied edit says where it comes from; any other without a source has no support, or an
        # edit that nothing speaks for would outrank those that trajectories do.
        same = [p for p in self._inputs.values() if _text_of(p.edit) == _text_of(edit)]
        if not same:
            self.notes.append(f"e{number} names no known source; its support is 0")
        return same


def _labelled(patches: Sequence[PatchNode]) -> dict[str, Proposal]:
    """Give each edit the short name by which a merge reply cites it, ``p1.e1``."""
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
                for label, proposal in _labelled(patches).items()
                if label.startswith(f"p{p}.")
            ],
        }
        for p, patch in enumerate(patches, start=1)
    ]


def _text_of(edit: Edit) -> tuple[str, str, str]:
    return edit.op, edit.target, edit.content


def _on_level(proposal: Proposal, level: int | None) -> Proposal:
    """Mark an unmerged edit with the level that it came through, where it has none."""
    if level is None or proposal.edit.merge_level is not None:
        return proposal
    return replace(proposal, edit=replace(proposal.edit, merge_level=level))
