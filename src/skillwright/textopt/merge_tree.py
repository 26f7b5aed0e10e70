"""The order of merges: patches come at any time, and are merged in the order of their places.

A merge of a level may start when the patches of its chunk are known, and every patch before them:
who comes first changes when a merge starts, never what goes into it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from skillwright.core.edit import SourceType
from skillwright.textopt.proposal import Proposal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PatchNode:
    """A node of a merge tree: the proposals that an analyst or a merge wrote."""

    source_type: SourceType
    proposals: tuple[Proposal, ...]


class InOrder(Generic[T]):
    """Hands things on in the order of their places, whenever they come.

    A place is a group and a number in it, both from 0. How many places a group has may be said
    later than its first things come.
    """

    def __init__(self, groups: int) -> None:
        self._counts: list[int | None] = [None] * groups
        self._here: dict[tuple[int, int], T] = {}
        self._group = self._number = 0

    def expect(self, group: int, count: int) -> None:
        """Say how many places a group has."""
        self._counts[group] = count

    def put(self, group: int, number: int, thing: T) -> None:
        """Put a thing in its place."""
        self._here[group, number] = thing

    def take(self) -> list[T]:
        """Return what may be handed on now; nothing is returned twice."""
        taken: list[T] = []
        while not self.is_over:
            place = self._group, self._number
            if place in self._here:
                taken.append(self._here.pop(place))
                self._number += 1
            elif self._number == self._counts[self._group]:
                self._group, self._number = self._group + 1, 0
            else:
                break
        return taken

    @property
    def is_over(self) -> bool:
        """Tell whether everything was handed on, and nothing more will come."""
        return self._group == len(self._counts)


class Chunk(NamedTuple):
    """Patches that one merge call makes one; a chunk of one passes through."""

    number: int
    patches: Sequence[PatchNode]


class Level:
    """The patches of one level of a merge tree, cut into chunks."""

    def __init__(self, groups: int, size: int) -> None:
        self.line: InOrder[PatchNode | None] = InOrder(groups)
        self.chunks = 0
        self._size = size
        self._seen = 0
        self._rest: list[PatchNode] = []

    @property
    def is_top(self) -> bool:
        """Tell whether the level is over with at most one patch, so that nothing is to merge."""
        return self.line.is_over and self._seen < 2

    @property
    def root(self) -> tuple[PatchNode, ...]:
        """What the tree has grown into: the top level's patch, if there is one."""
        return tuple(self._rest)

    def take_chunks(self) -> list[Chunk]:
        """Return the chunks that are complete now; a place without a patch is left out."""
        taken: list[Chunk] = []
        for patch in self.line.take():
            if patch is None or not patch.proposals:
                continue
            self._seen += 1
            self._rest.append(patch)
            if len(self._rest) == self._size:
                taken.append(self._chunk())
        if self.line.is_over and self._rest and not self.is_top:
            taken.append(self._chunk())
        return taken

    def _chunk(self) -> Chunk:
        chunk = Chunk(self.chunks, tuple(self._rest))
        self._rest.clear()
        self.chunks += 1
        return chunk
