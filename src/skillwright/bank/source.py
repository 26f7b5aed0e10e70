"""A bank as a source of skills: retrieved and rendered for each task."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, Self

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.embedders import Embedder, Encoder, LexicalEmbedder, VectorStore
from skillwright.bank.formats.imports import SEED_BANKS
from skillwright.bank.render import RenderBudget, Rendered, render, words_of_category
from skillwright.bank.retrieve import BankIndex, RetrievalSettings, Retrieved, retrieve
from skillwright.bank.teaching.teacher import TaskName
from skillwright.core import BankSkill, SkillContext, SkillSource, Task
from skillwright.datasets import ValTasks
from skillwright.envs import TextEnv, spec
from skillwright.evaluation import Draws, SkillDuel
from skillwright.rollout import Engine


def category_of(task: Task) -> str:
    """Return the category of a task by the rules of its environment; ``""`` where it is unknown.

    Conversations of `skillwright serve` may be in no environment.

    Raises:
        DataError: There is no such environment.
    """
    if not task.env:
        return task.task_type
    kind = spec(task.env).load()
    # An environment from elsewhere may have no rules of its own.
    return kind.category(task) if hasattr(kind, "category") else TextEnv.category(task)


def scope_of(task: Task) -> str:
    """Return the one place that a task is set in, by the rules of its environment, or ``""``.

    Raises:
        DataError: There is no such environment.
    """
    if not task.env:
        return ""
    kind = spec(task.env).load()
    return kind.scope(task) if hasattr(kind, "scope") else TextEnv.scope(task)


def query_of(task: Task, category: str) -> str:
    """Return what a bank is searched with for a task.

    Goals are short, and say less than their category does: with the category's words before the
    description, more skills of the category pass the same threshold, and no more others do.
    """
    about = task.description.strip() or task.id
    return f"{words_of_category(category)}: {about}" if category else about


class Asked(NamedTuple):
    """The cache key of an answer, apart from the bank."""

    query: str
    category: str
    scope: str


@dataclass(frozen=True)
class BankSource:
    """Tells each task the skills of a bank that are about it: a `SkillSource`.

    It is fixed to one version of the bank; `at` gives the source of another one.

    Attributes:
        bank: The bank.
        embedder: Says what is similar; what it encoded is remembered.
        settings: How much is injected.
        budget: How long the text may be.
        categorize: The category of a task.
        scope: The one place that a task is set in.
        query: What the bank is searched with for a task of a category.
        store: Where vectors of skills are kept; ``None`` for nowhere.
    """

    bank: Bank
    embedder: Embedder = field(default_factory=LexicalEmbedder)
    settings: RetrievalSettings = field(default_factory=RetrievalSettings)
    budget: RenderBudget = field(default_factory=RenderBudget)
    categorize: TaskName = category_of
    scope: TaskName = scope_of
    query: Callable[[Task, str], str] = query_of
    store: VectorStore | None = field(default=None, repr=False)
    _index: BankIndex | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = self._index
        if index is None or index.encoder.embedder is not self.embedder:
            index = BankIndex(self.bank, Encoder(self.embedder, self.store))
        elif index.bank is not self.bank:
            index = BankIndex(self.bank, index.encoder)
        object.__setattr__(self, "_index", index)

    @property
    def index(self) -> BankIndex:
        """The bank, ready for retrieval."""
        if self._index is None:
            raise RuntimeError("a source has an index from the start")
        return self._index

    @property
    def version(self) -> str:
        """``{version of the bank}:{start of its digest}``."""
        return f"{self.bank.version}:{self.bank.digest[:12]}"

    @property
    def waits(self) -> bool:
        """Whether a model or an endpoint is asked; the lexical embedder answers at once."""
        return not isinstance(self.embedder, LexicalEmbedder)

    def at(self, bank: Bank) -> Self:
        """Return the source of another version of the bank; only what is new in it is encoded."""
        return replace(self, bank=bank)

    def retrieve(self, tasks: Sequence[Task]) -> list[Retrieved]:
        """Choose the skills of each task; distinct descriptions are encoded once, together.

        Raises:
            ModelError: The embedder asks an endpoint, and that failed.
        """
        asked = list(map(self._asked, tasks))
        found = self._found(dict.fromkeys(asked))
        return [found[one] for one in asked]

    def context(self, task: Task) -> SkillContext:
        """Return what is injected for ``task``.

        Raises:
            ModelError: The embedder asks an endpoint, and that failed.
        """
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return what is injected for each task; equal tasks are retrieved once.

        Raises:
            ModelError: The embedder asks an endpoint, and that failed.
        """
        asked = list(map(self._asked, tasks))
        found = self._found(dict.fromkeys(asked))
        made = {one: self._context(render(kept, self.budget)) for one, kept in found.items()}
        return [made[one] for one in asked]

    def _asked(self, task: Task) -> Asked:
        category = self.categorize(task)
        return Asked(self.query(task, category), category, self.scope(task))

    def _found(self, asked: Iterable[Asked]) -> dict[Asked, Retrieved]:
        wanted = list(asked)
        vectors = self.index.encoder.queries(one.query for one in wanted)
        return {
            one: retrieve(
                self.index,
                vectors[one.query],
                category=one.category,
                scope=one.scope,
                settings=self.settings,
            )
            for one in wanted
        }

    def _context(self, rendered: Rendered) -> SkillContext:
        return SkillContext(
            text=rendered.text,
            skill_ids=tuple(one.skill.id for one in rendered.injected),
            scores=tuple(one.score for one in rendered.injected),
            version=self.version,
        )


# A bank against the bank that it wants to replace: the same agent, tasks and seeds.


MakeSource = Callable[[Bank], SkillSource]
"""Makes a source of skills out of a bank; for both sides alike."""


def candidate_sources(
    bank: Bank, changed: Bank, make_source: MakeSource
) -> tuple[SkillSource, SkillSource]:
    """Return the sources of the incumbent bank, and of the candidate."""
    return make_source(bank), make_source(changed)


def bank_duel(
    engine: Engine,
    val: ValTasks,
    sources: tuple[SkillSource, SkillSource],
    draws: Draws,
) -> SkillDuel:
    """Pair both sides by task for a gate.

    Only tasks that decide may be drawn. A task with the same skills on both sides is played once.

    Args:
        engine: Plays the episodes.
        val: The tasks that decide.
        sources: The incumbent and the candidate.
        draws: Where the count of draws begins.
    """
    incumbent, candidate = sources
    return SkillDuel(engine, val.tasks, incumbent, candidate, draws)


# The category of a goal given in words, without a task of an environment.
#
# An environment names the category of its own tasks by rules, and never guesses. Whoever types a
# goal
# writes as people do ("heat the apple"); then the skills that it is most like decide.


NEIGHBORS: Final = 3
"""Skills of a category that are asked how like a goal they are."""
LEAST: Final = 0.1
"""The mean similarity that they must exceed; what is less names no category."""


@dataclass(frozen=True, slots=True)
class Named:
    """A category, and how it was found.

    Attributes:
        category: ``""`` where none is near.
        by: ``rules`` of an environment, ``similarity`` to the skills of a bank, or ``""``.
    """

    category: str = ""
    by: Literal["rules", "similarity", ""] = ""


def classify(goal: str, bank: Bank, env: str = "", words: Encoder | None = None) -> Named:
    """Name the category of a goal.

    Args:
        goal: In words.
        bank: Its skills decide where no rule does.
        env: The environment whose rules hold; ``""`` tries those of all that have a seed bank,
            and of qa, where only categories of the bank count.
        words: A lexical encoder that knows the bank's skills already.

    Raises:
        DataError: There is no such environment.
    """
    skills = [skill for skill in bank.active if skill.category]
    known = {skill.category for skill in skills}
    for name in (env,) if env else (*SEED_BANKS, "qa"):
        category = category_of(Task("query", name, description=goal))
        if category and (env or category in known):
            return Named(category, "rules")
    return _nearest(goal, skills, words or Encoder(LexicalEmbedder()))


def _nearest(goal: str, skills: list[BankSkill], words: Encoder) -> Named:
    if not skills:
        return Named()
    # Whatever says which skills are injected: the words of a goal name its category, and
    # an embedder of meanings takes "heat" and "cool" for nearly the same.
    scores = words.skills(skills) @ words.queries([goal])[goal]
    by_category: defaultdict[str, list[float]] = defaultdict(list)
    for skill, score in zip(skills, scores.tolist(), strict=True):
        by_category[skill.category].append(score)
    means = {
        category: sum(sorted(found, reverse=True)[:NEIGHBORS]) / NEIGHBORS
        for category, found in sorted(by_category.items())
    }
    best = max(means, key=means.__getitem__)
    return Named(best, "similarity") if means[best] > LEAST else Named()
