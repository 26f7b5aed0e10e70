"""A proposed edit, and where it came from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from skillwright.asking import AskFault
from skillwright.core import Edit
from skillwright.core.codec import encode_fields
from skillwright.core.edit import SourceType


class Evidence(NamedTuple):
    """Turns of one trajectory that speak for an edit; no turns means the whole of it."""

    trajectory: str
    turns: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"id", "turns"}``."""
        return {"id": self.trajectory, "turns": list(self.turns)}


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit with its provenance.

    Attributes:
        id: Says where it was written: ``s3.f0.e1`` is edit 1 of failure minibatch 0 in step 3,
            ``s3.f.m2.0.e1`` edit 1 of the first merge on level 2 of the failure tree.
        edit: What to do. Its ``support_count`` and ``source_type`` repeat ours.
        source_type: Whether failures or successes suggested it; failures win where both did.
        evidence: The trajectories behind it, each once.
        parents: Proposals that it was merged from; empty for an analyst's own.
    """

    id: str
    edit: Edit
    source_type: SourceType
    evidence: tuple[Evidence, ...] = ()
    parents: tuple[str, ...] = ()
    prompt_digest: str = ""

    @property
    def support(self) -> int:
        """How many distinct trajectories speak for the edit."""
        return len({item.trajectory for item in self.evidence})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the support as a JSON object."""
        evidence = [item.to_dict() for item in self.evidence]
        return {**encode_fields(self), "evidence": evidence, "support": self.support}


AnalystFault = AskFault
"""A call of the optimiser model that gave nothing usable. It never means "no edits"."""


def united(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Unite evidence: each trajectory once, in order of first mention, its turns sorted."""
    turns: dict[str, set[int]] = {}
    for item in evidence:
        turns.setdefault(item.trajectory, set()).update(item.turns)
    return tuple(Evidence(trajectory, tuple(sorted(at))) for trajectory, at in turns.items())
