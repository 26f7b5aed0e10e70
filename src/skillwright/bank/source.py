"""A bank as what agents are told: retrieved and rendered for each task."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.cache import Encoder, VectorStore
from skillwright.bank.embedding.embedder import Embedder
from skillwright.bank.embedding.lexical import LexicalEmbedder
from skillwright.bank.render import RenderBudget, Rendered, render, words_of_category
from skillwright.bank.retrieve import BankIndex, RetrievalSettings, Retrieved, retrieve
from skillwright.bank.teaching.transcripts import TaskName
from skillwright.core import SkillContext, Task
from skillwright.envs import TextEnv, spec


def category_of(task: Task) -> str:
    """Return the category of a task by the rules of its environment; ``""`` where it is unknown.

    Raises:
        DataError: There is no such environment.
    """
    kind = spec(task.env).load()
    # An environment from elsewhere may have no rules of its own.
    return kind.category(task) if hasattr(kind, "category") else TextEnv.category(task)


def scope_of(task: Task) -> str:
    """Return the one place that a task is set in, by the rules of its environment, or ``""``.

    Raises:
        DataError: There is no such environment.
    """
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
    """All that an answer hangs on beside the bank: equal ones are answered once."""

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
        settings: How much is told.
        budget: How long the text may be.
        categorise: The category of a task.
        scope: The one place that a task is set in.
        query: What the bank is searched with for a task of a category.
        store: Where vectors of skills are kept; ``None`` for nowhere.
    """

    bank: Bank
    embedder: Embedder = field(default_factory=LexicalEmbedder)
    settings: RetrievalSettings = field(default_factory=RetrievalSettings)
    budget: RenderBudget = field(default_factory=RenderBudget)
    categorise: TaskName = category_of
    scope: TaskName = scope_of
    query: Callable[[Task, str], str] = query_of
    store: VectorStore | None = field(default=None, repr=False)
    _index: BankIndex | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = self._index
        if index is None or index.encoder.embedder is not self.embedder:
            index = BankIndex(self.bank, Encoder(self.embedder, self.store))
        elif index.bank is not self.bank:
            index = BankIndex(self.bank, index.encoder, previous=index)
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
        """Return what the agent is told for ``task``.

        Raises:
            ModelError: The embedder asks an endpoint, and that failed.
        """
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return what the agent is told for each task; equal tasks are retrieved once.

        Raises:
            ModelError: The embedder asks an endpoint, and that failed.
        """
        asked = list(map(self._asked, tasks))
        found = self._found(dict.fromkeys(asked))
        told = {one: self._context(render(kept, self.budget)) for one, kept in found.items()}
        return [told[one] for one in asked]

    def _asked(self, task: Task) -> Asked:
        category = self.categorise(task)
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
            skill_ids=tuple(one.skill.id for one in rendered.told),
            scores=tuple(one.score for one in rendered.told),
            version=self.version,
        )
