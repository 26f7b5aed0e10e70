"""The sources of the skills that a policy is given, in training, validation and test."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from skillwright.bank import (
    NOTHING,
    Bank,
    BankSource,
    Embedder,
    Encoder,
    RenderBudget,
    RetrievalSettings,
    SkillIndex,
    Vectors,
    approximate_tokens,
    category_of,
    query_of,
    scope_of,
    skill_line,
)
from skillwright.core import BankSkill, EpisodeResult, SkillContext, SkillSource, Task
from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed

_EVERYTHING = -2.0  # below every cosine
_LONGEST_OBSERVATION = 200


class _ForTasks:
    """A source that is asked for several tasks at once."""

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills injected for each task."""
        raise NotImplementedError

    def context(self, task: Task) -> SkillContext:
        """Return the skills injected for ``task``."""
        return self.contexts([task])[0]


class Remembered(_ForTasks):
    """A source that is asked once per task, so all rollouts of a group get the same skills."""

    def __init__(self, source: SkillSource) -> None:
        self._source = source
        self._known: dict[str, SkillContext] = {}

    @property
    def waits(self) -> bool:
        """Whether the source waits for a model."""
        return self._source.waits

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills injected for each task."""
        new = {task.id: task for task in tasks if task.id not in self._known}
        if new:
            found = self._source.contexts(list(new.values()))
            self._known |= dict(zip(new, found, strict=True))
        return [self._known[task.id] for task in tasks]


@dataclass(frozen=True)
class UnlayeredSource(_ForTasks):
    """Injects the most similar skills of a bank, of any kind and category: an ablation."""

    bank: Bank
    encoder: Encoder
    k: int
    budget: RenderBudget
    waits: bool = False
    scope: Callable[[Task], str] = scope_of
    _index: SkillIndex = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        skills = list(self.bank.active)
        object.__setattr__(self, "_index", SkillIndex(skills, self.encoder.skills(skills)))

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills injected for each task."""
        asked = [query_of(task, "") for task in tasks]
        vectors = self.encoder.queries(dict.fromkeys(asked))
        return [
            self._context(task, query, vectors) for task, query in zip(tasks, asked, strict=True)
        ]

    def _context(self, task: Task, query: str, vectors: Mapping[str, Vectors]) -> SkillContext:
        found = self._index.search(
            vectors[query], category="", scope=self.scope(task), k=self.k, above=_EVERYTHING
        )
        while found and self.budget.count(_list_of(found)) > self.budget.max_tokens:
            found = found[:-1]
        return SkillContext(
            text=_list_of(found),
            skill_ids=tuple(skill.id for _, skill in found),
            scores=tuple(score for score, _ in found),
            version=f"any_kind:{self.bank.version}:{self.bank.digest[:12]}",
        )


def _list_of(found: Sequence[tuple[float, BankSkill]]) -> str:
    lines = [skill_line(skill) for _, skill in found]
    return "\n".join(["### Skills", *lines]) if lines else NOTHING


@dataclass(frozen=True)
class TrajectorySource:
    """Injects raw trajectories of the same category and scope, solved ones first: an ablation."""

    texts: Mapping[tuple[str, str], tuple[str, ...]]
    max_tokens: int
    version: str
    waits: ClassVar[bool] = False

    @classmethod
    def of(
        cls, episodes: Iterable[EpisodeResult], threshold: float, max_tokens: int
    ) -> "TrajectorySource":
        """Format the scored episodes as text."""
        scored = [one for one in episodes if one.reward is not None]
        scored.sort(key=lambda one: not one.is_success(threshold))
        texts: dict[tuple[str, str], list[str]] = {}
        for one in scored:
            task = one.spec.task
            written = _raw(one, one.is_success(threshold))
            texts.setdefault((category_of(task), scope_of(task)), []).append(written)
        kept = {key: tuple(found) for key, found in texts.items()}
        return cls(kept, max_tokens, digest(sorted([*key, *found] for key, found in kept.items())))

    def context(self, task: Task) -> SkillContext:
        """Return the skills injected for ``task``."""
        shown, used = ["### Earlier episodes"], approximate_tokens("### Earlier episodes")
        for text in self.texts.get((category_of(task), scope_of(task)), ()):
            size = approximate_tokens(text)
            if used + size <= self.max_tokens:
                shown.append(text)
                used += size
        text = "\n".join(shown) if len(shown) > 1 else "No earlier episode is about this task."
        return SkillContext(text, version=f"trajectories:{self.version[:12]}")

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills injected for each task."""
        return [self.context(task) for task in tasks]


def _raw(result: EpisodeResult, is_solved: bool) -> str:
    task = result.spec.task
    outcome = "won" if is_solved else "lost"  # prompt text
    lines = [f"Task: {task.description or task.id}. It was {outcome}."]
    for turn in result.trajectory.turns:
        seen = " ".join(turn.observation.split())[:_LONGEST_OBSERVATION]
        lines.append(f"> {' '.join(turn.act.written.split())}\n{seen}")
    return "\n".join(lines)


@dataclass(frozen=True)
class SometimesNothing(_ForTasks):
    """Injects nothing for a share of the tasks, for demonstrations without skills."""

    source: SkillSource
    share: float
    seed: int

    @property
    def waits(self) -> bool:
        """Whether the source waits for a model."""
        return self.source.waits

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills injected for each task."""
        whole = self.source.contexts(tasks)
        nothing = SkillContext("", version="nothing")
        return [
            nothing if self._is_drawn(task) else one for task, one in zip(tasks, whole, strict=True)
        ]

    def _is_drawn(self, task: Task) -> bool:
        return random.Random(derive_seed("nothing", self.seed, task.id)).random() < self.share


def other_scopes(scopes: Iterable[str]) -> dict[str, str]:
    """Map each scope to the next one by name; empty if there are fewer than two."""
    names = sorted(set(scopes) - {""})
    if len(names) < 2:
        return {}
    return dict(zip(names, [*names[1:], names[0]], strict=True))


Part = Literal["skills", "principles", "facts"]
"""The skills that are injected: all, those without a scope, or those of the task's scope."""


@dataclass(frozen=True)
class Injector:
    """Makes the source of a bank's skills, by the configuration."""

    embedder: Embedder
    settings: RetrievalSettings
    budget: RenderBudget
    hierarchy: bool = True
    raw: SkillSource | None = None
    part: Part = "skills"
    _latest: list[BankSource] = field(default_factory=list, repr=False, compare=False)

    def source(self, bank: Bank) -> SkillSource:
        """Return the source of a version of the bank."""
        return self.raw if self.raw is not None else self._of(bank)

    def whole(self, bank: Bank) -> SkillSource:
        """Return the source of all skills of a bank, by kind and category."""
        return BankSource(bank, self.embedder, self.settings, self.budget)

    def layered(self, bank: Bank) -> BankSource:
        """Return the source by kind and category; only new skills are encoded."""
        if not self._latest:
            self._latest.append(BankSource(bank, self.embedder, self.settings, self.budget))
        elif self._latest[0].bank is not bank:
            self._latest[0] = self._latest[0].at(bank)
        return self._latest[0]

    def elsewhere(self, bank: Bank, scopes: Mapping[str, str]) -> SkillSource:
        """Return a source that injects the skills of another scope."""

        def moved(task: Task) -> str:
            return scopes.get(scope_of(task), "")

        return replace(self._of(bank), scope=moved)

    def _of(self, bank: Bank) -> BankSource | UnlayeredSource:
        if self.part != "skills":
            scoped = self.part == "facts"
            kept = tuple(one for one in bank.skills if bool(one.scope) == scoped)
            bank = replace(bank, skills=kept)
        layered = self.layered(bank)
        return layered if self.hierarchy else self._unlayered(bank, layered)

    def _unlayered(self, bank: Bank, layered: BankSource) -> UnlayeredSource:
        most = self.settings.k_task + self.settings.k_lessons
        return UnlayeredSource(bank, layered.index.encoder, most, self.budget, layered.waits)
