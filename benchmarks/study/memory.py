"""A flat memory of statements in place of the skills: a baseline in the manner of Mem0.

Episodes are read in order. What one shows of where a class of things was becomes a statement, and
is compared with the stored one about that class in that room of that home: it is added, says
nothing new, or replaces the stored one, as the newest wins. For a task, the most similar statements
of its home are injected, as many as fit into the length of the skills that would be injected there.
Sightings are not counted, and there is no principle and no hierarchy.

In Mem0 a language model extracts and compares; here a script does, which reads observations alone,
and so finds every statement. Source: Mem0 (arXiv 2504.19413).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skillwright.bank import Bank, Embedder, Vectors, approximate_tokens, query_of, scope_of
from skillwright.core import EpisodeResult, SkillContext, SkillSource, Task
from skillwright.core.jsonio import JsonRecord, digest
from skillwright.jobs.weights import Injector, RlCallback, RlReport, RlRun, selected
from skillwright.jobs.weights.recipe import rl
from skillwright.jobs.weights.wiring import RlParts, rl_parts
from skillwright.worlds.alfworld.scripted import Belief, class_of, room_of

HEADING = "### Memories"


@dataclass(frozen=True, slots=True)
class Memory(JsonRecord):
    """Where a class of things was, in a room of a home, when it was last seen elsewhere."""

    home: str
    room: str
    thing: str
    places: tuple[str, ...]  # "in fridge 1", "on shelf 2"

    @property
    def text(self) -> str:
        """What it says, in the words of a skill about a place."""
        return f"In this home's {self.room}, the {self.thing} was {' and '.join(self.places)}."

    @property
    def other_text(self) -> str:
        """The same in the words of the teacher's second grammar."""
        names = " and ".join(place.partition(" ")[2] for place in self.places)
        return f"{names.capitalize()} of the {self.room} held this home's {self.thing}."


def statements(episode: EpisodeResult) -> list[Memory]:
    """Return what an episode's observations say of where things were when first seen."""
    belief, home = Belief(), scope_of(episode.spec.task)
    belief.open_with(episode.trajectory.opening)
    room, met, found = room_of(belief.places), set[str](), dict[str, dict[str, None]]()
    for turn in episode.trajectory.turns:
        belief.act(turn.act.text)
        belief.read(turn.observation)
        for place, names in belief.latest.contents.items():
            where = f"{'in' if place in belief.doors else 'on'} {place}"
            for name in sorted({*names} - met):
                found.setdefault(class_of(name), {})[where] = None
            met.update(names)
    return [Memory(home, room, thing, tuple(places)) for thing, places in found.items()]


def remember(episodes: Iterable[EpisodeResult]) -> tuple[list[Memory], dict[str, int]]:
    """Read episodes in order; also return how many statements were added, updated or not new."""
    kept: dict[tuple[str, str, str], Memory] = {}
    counts = Counter(added=0, updated=0, unchanged=0)
    for said in (one for episode in episodes for one in statements(episode)):
        key = (said.home, said.room, said.thing)
        known = kept.get(key)
        is_new = known is None or not {*said.places} <= {*known.places}
        counts["added" if known is None else "updated" if is_new else "unchanged"] += 1
        if is_new:
            kept[key] = said
    return list(kept.values()), dict(counts)


class Memories:
    """Statements by home, prepared for retrieval.

    Args:
        known: The memories, in any order.
        embedder: Measures similarity, as it does for skills.
        write: Writes a statement.
    """

    def __init__(
        self, known: Sequence[Memory], embedder: Embedder, write: Callable[[Memory], str]
    ) -> None:
        self.embedder = embedder
        lines: dict[str, list[str]] = {}
        for one in known:
            lines.setdefault(one.home, []).append(write(one))
        self.version = f"memories:{digest(lines)[:12]}"
        self._lines: Mapping[str, list[str]] = lines
        self._rows = {home: embedder.encode_skills(some) for home, some in lines.items()}

    def nearest(self, home: str, query: Vectors) -> list[str]:
        """Return the lines of a home, the most similar first; ``query`` has the shape ``[d]``."""
        if home not in self._lines:
            return []
        order = np.argsort(-(self._rows[home] @ query).round(6), kind="stable")
        return [f"- {self._lines[home][at]}" for at in order]


@dataclass(frozen=True)
class MemorySource:
    """Injects the most similar memories, no longer than the skills that a task would get."""

    memories: Memories
    skills: SkillSource
    scope: Callable[[Task], str] = scope_of

    @property
    def waits(self) -> bool:
        """Whether the source waits for a model."""
        return self.skills.waits

    def context(self, task: Task) -> SkillContext:
        """Return the memories injected for ``task``."""
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the memories injected for each task."""
        queries = self.memories.embedder.encode_queries([query_of(task, "") for task in tasks])
        return [
            SkillContext(
                _within(
                    self.memories.nearest(self.scope(task), query), approximate_tokens(skill.text)
                ),
                version=self.memories.version,
            )
            for task, query, skill in zip(tasks, queries, self.skills.contexts(tasks), strict=True)
        ]


def _within(lines: Sequence[str], most: int) -> str:
    """Return the first lines whose text takes at most so many tokens."""
    text = HEADING
    for line in lines:
        if approximate_tokens(f"{text}\n{line}") > most:
            break
        text = f"{text}\n{line}"
    return "" if text == HEADING else text


@dataclass(frozen=True, kw_only=True)
class MemoryInjector(Injector):
    """Shows memories to the policy; the expert reads the whole bank as in every other row."""

    memories: Memories

    def source(self, bank: Bank) -> MemorySource:
        """Return the source of the memories; the bank only sets their length."""
        return MemorySource(self.memories, self.layered(bank))

    def elsewhere(self, bank: Bank, scopes: Mapping[str, str]) -> MemorySource:
        """Return a source of the memories of another home."""
        return replace(self.source(bank), scope=lambda task: scopes.get(scope_of(task), ""))


def with_memories(
    run: RlParts, known: Sequence[Memory], write: Callable[[Memory], str] = lambda one: one.text
) -> RlParts:
    """Return a run whose policy reads memories in place of its bank."""
    was = run.injector
    memories = Memories(known, was.embedder, write)
    injector = MemoryInjector(was.embedder, was.settings, was.budget, memories=memories)
    return replace(run, injector=injector)


async def run_with_memories(
    opened: RlRun, callback: RlCallback, known: Sequence[Memory]
) -> RlReport:
    """Run the recipe, or resume it, with a policy that reads memories."""
    state = opened.state
    if state.finished:
        return RlReport(state, selected(opened.config, state))
    async with rl_parts(opened.config, opened.store, callback) as parts:
        return await rl(with_memories(parts, known), opened.folder)
