"""Use a bank as a source of skills: retrieved and rendered for each task."""

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
    """Return the category of a task by the rules of its environment; ``""`` if unknown.

    Conversations of `skillwright serve` may have no environment.

    Raises:
        DataError: There is no such environment.
    """
    if not task.env:
        return task.task_type
    kind = spec(task.env).load()
    # Environments of other packages may lack these methods.
    return kind.category(task) if hasattr(kind, "category") else TextEnv.category(task)


def scope_of(task: Task) -> str:
    """Return the place that a task is set in, by the rules of its environment, or ``""``.

    Raises:
        DataError: There is no such environment.
    """
    if not task.env:
        return ""
    kind = spec(task.env).load()
    return kind.scope(task) if hasattr(kind, "scope") else TextEnv.scope(task)


def query_of(task: Task, category: str) -> str:
    """Return the query of a task.

    Goals are short and less specific than their category: with the category's words in front, more
    skills of the category pass the same threshold, and no more others do.
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
    """A `SkillSource` that retrieves skills from one version of a bank; `at` switches versions.

    Attributes:
        embedder: Measures similarity; its vectors are cached.
        settings: Limits of retrieval.
        budget: Limits of the text.
        categorize: Returns the category of a task.
        scope: Returns the place that a task is set in.
        query: Returns the query of a task and its category.
        store: Store of skills' vectors, or ``None``.
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
        """The bank prepared for retrieval."""
        if self._index is None:
            raise RuntimeError("a source has an index from the start")
        return self._index

    @property
    def version(self) -> str:
        """``{version of the bank}:{start of its digest}``."""
        return f"{self.bank.version}:{self.bank.digest[:12]}"

    @property
    def waits(self) -> bool:
        """Whether a model or an endpoint is called; the lexical embedder is immediate."""
        return not isinstance(self.embedder, LexicalEmbedder)

    def at(self, bank: Bank) -> Self:
        """Return a source of another version of the bank; only new skills are encoded."""
        return replace(self, bank=bank)

    def retrieve(self, tasks: Sequence[Task]) -> list[Retrieved]:
        """Choose the skills of each task; distinct descriptions are encoded once, together.

        Raises:
            ModelError: The embedder's endpoint failed.
        """
        asked = list(map(self._asked, tasks))
        found = self._found(dict.fromkeys(asked))
        return [found[one] for one in asked]

    def context(self, task: Task) -> SkillContext:
        """Return the skill context of a task.

        Raises:
            ModelError: The embedder's endpoint failed.
        """
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skill context of each task; equal tasks are retrieved once.

        Raises:
            ModelError: The embedder's endpoint failed.
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


MakeSource = Callable[[Bank], SkillSource]
"""Creates a source of skills from a bank; the same for both sides."""


def candidate_sources(
    bank: Bank, changed: Bank, make_source: MakeSource
) -> tuple[SkillSource, SkillSource]:
    """Return the sources of the incumbent bank and of the candidate."""
    return make_source(bank), make_source(changed)


def bank_duel(
    engine: Engine, val: ValTasks, sources: tuple[SkillSource, SkillSource], draws: Draws
) -> SkillDuel:
    """Pair both sides by task for a gate; tasks with the same skills on both sides are played once.

    Args:
        engine: Plays the episodes.
        val: The validation tasks.
        sources: The incumbent and the candidate.
        draws: Start of the draw counter.
    """
    incumbent, candidate = sources
    return SkillDuel(engine, val.tasks, incumbent, candidate, draws)


NEIGHBORS: Final = 3
"""Skills of a category that are compared with a goal."""
LEAST: Final = 0.1
"""Mean similarity that they must exceed."""


@dataclass(frozen=True, slots=True)
class Named:
    """A category, and how it was found.

    Attributes:
        category: ``""`` if none is near.
        by: ``rules`` of an environment, ``similarity`` to the skills of a bank, or ``""``.
    """

    category: str = ""
    by: Literal["rules", "similarity", ""] = ""


def classify(goal: str, bank: Bank, env: str = "", words: Encoder | None = None) -> Named:
    """Return the category of a goal in words, without a task of an environment.

    An environment's rules decide first. A goal in free words ("heat the apple") gets the category
    of the most similar skills.

    Args:
        goal: The goal in words.
        bank: Its skills decide if no rule does.
        env: The environment with the rules; ``""`` tries those with a seed bank, and qa, with
            categories of the bank only.
        words: A lexical encoder that already has the bank's skills.

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
    # Lexical, whatever the bank's embedder: a goal's words name its category, and an embedder of
    # meanings gives "heat" and "cool" nearly the same vector.
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
