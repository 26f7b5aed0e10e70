"""Aggregate: many analysts' patches become one, level by level.

Source: SkillOpt (microsoft/SkillOpt), hierarchical merge. Failures and successes are merged in two
trees that grow at the same time, and then with each other. What a merged edit stands for is
counted from the edits that it names as its sources, never taken from the model's own number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from skillwright.core import Edit, Purpose
from skillwright.core.edit import SourceType
from skillwright.core.together import together
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.fence import json_block
from skillwright.textopt.items import ItemForm, item_form
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.prompts import notes_section, skill_section, user_message
from skillwright.textopt.proposal import AnalystFault, Proposal, united
from skillwright.textopt.reflect import AnalystPatch
from skillwright.textopt.replies import MergeReply


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge call.

    Attributes:
        call: ``s3.f.m1.0``: first merge on level 1 of the failure tree; ``s3.final`` the last one.
        level: From 1; the final merge has the level above the taller tree.
        inputs: Ids of the proposals that went in.
        outputs: Those that came out; the inputs themselves where ``fault`` is set.
        fault: Why the inputs were put one after the other instead of merged, or ``None``.
        notes: What was dropped or put right in the reply.
        prompt_digest: The digest of the prompt.
    """

    call: str
    level: int
    inputs: tuple[str, ...]
    outputs: tuple[Proposal, ...]
    fault: AnalystFault | None = None
    notes: tuple[str, ...] = ()
    prompt_digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            **asdict(self),
            "outputs": [proposal.to_dict() for proposal in self.outputs],
            "fault": self.fault.to_dict() if self.fault else None,
        }


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One list of proposals, failures' before successes' where nothing merged them, and how."""

    proposals: tuple[Proposal, ...] = ()
    merges: tuple[Merge, ...] = ()


@dataclass(frozen=True, slots=True)
class _Patch:
    """A node of a merge tree."""

    source_type: SourceType
    proposals: tuple[Proposal, ...]


@dataclass(frozen=True, slots=True)
class _Tree:
    """What a merge tree has grown into."""

    patches: tuple[_Patch, ...]
    merges: tuple[Merge, ...] = ()
    level: int = 0


async def aggregate(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    patches: Sequence[AnalystPatch],
) -> Aggregate:
    """Merge patches into one; a patch without edits is left out, a single patch stays as it is.

    A merge whose reply cannot be used puts its inputs one after the other, and says so.
    """
    stage = _Merging(optimizer, settings, context)
    failed, succeeded = await together(
        [stage.grow("failure", patches), stage.grow("success", patches)]
    )
    merges = failed.merges + succeeded.merges
    roots = failed.patches + succeeded.patches
    if len(roots) < 2:
        return Aggregate(roots[0].proposals if roots else (), merges)
    level = max(failed.level, succeeded.level) + 1
    prompt = f"merge_final{stage.form.suffix}"
    final, merge = await stage.merge(f"{context.name}.final", prompt, level, roots)
    return Aggregate(final.proposals, (*merges, merge))


@dataclass(frozen=True, slots=True)
class _Merging:
    """The merge calls of one step."""

    optimizer: Optimizer
    settings: StepSettings
    context: StepContext

    @property
    def form(self) -> ItemForm:
        """The form of what is merged."""
        return item_form(self.settings.update_mode)

    async def grow(self, source_type: SourceType, patches: Sequence[AnalystPatch]) -> _Tree:
        """Merge one side's patches until one is left, all merges of a level at once."""
        leaves = [p.proposals for p in patches if p.source_type == source_type and p.proposals]
        tree = _Tree(tuple(_Patch(source_type, proposals) for proposals in leaves))
        while len(tree.patches) > 1:
            tree = await self._grow_level(source_type, tree)
        return tree

    async def _grow_level(self, source_type: SourceType, tree: _Tree) -> _Tree:
        level, size = tree.level + 1, self.settings.merge_batch_size
        chunks = [tree.patches[i : i + size] for i in range(0, len(tree.patches), size)]
        stem = f"{self.context.name}.{source_type[0]}.m{level}"
        prompt = f"merge_{source_type}{self.form.suffix}"
        several = [number for number, chunk in enumerate(chunks) if len(chunk) > 1]
        replies = await together(
            self.merge(f"{stem}.{number}", prompt, level, chunks[number]) for number in several
        )
        merged = dict(zip(several, replies, strict=True))
        grown = [merged[n][0] if n in merged else chunk[0] for n, chunk in enumerate(chunks)]
        return _Tree(
            # A merge may find nothing worth keeping; its node is then gone.
            patches=tuple(patch for patch in grown if patch.proposals),
            merges=tree.merges + tuple(merge for _, merge in merged.values()),
            level=level,
        )

    async def merge(
        self, name: str, prompt: str, level: int, patches: Sequence[_Patch]
    ) -> tuple[_Patch, Merge]:
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
        return _Patch(patches[0].source_type, tuple(outputs)), merge


class _Reader:
    """Reads one merge's reply against the edits that it was shown."""

    def __init__(
        self, call: str, patches: Sequence[_Patch], level: int | None, prompt_digest: str
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


def _labelled(patches: Sequence[_Patch]) -> dict[str, Proposal]:
    """Give each edit the short name by which a merge reply cites it, ``p1.e1``."""
    return {
        f"p{p}.e{e}": proposal
        for p, patch in enumerate(patches, start=1)
        for e, proposal in enumerate(patch.proposals, start=1)
    }


def _shown(patches: Sequence[_Patch], form: ItemForm) -> list[dict[str, Any]]:
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
