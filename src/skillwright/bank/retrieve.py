"""Which skills a task is told.

General skills always, the most useful first; of the task's category those that are similar enough;
and what failures like the ones that threaten it have taught.

Source: SkillRL (arXiv 2602.08234), requirements R6-R8. Its released code had no threshold, cut the
general skills to K, and told the first five lessons of the file, whatever the task.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillwright.bank.bank import Bank, SkillStats
from skillwright.bank.embedding.cache import Encoder
from skillwright.bank.embedding.embedder import Vectors
from skillwright.bank.index import DECIMALS, Found, SkillIndex
from skillwright.core import BankSkill, ConfigError, SkillKind

NEUTRAL_EPISODES = 10
"""A skill's rate of wins counts as if it had so many episodes more, won at the bank's rate."""

_EVERYTHING = -2.0  # below every cosine


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """How much is told.

    Attributes:
        k_task: Most task-specific skills.
        delta: The similarity that a task-specific skill must exceed; ``None`` for the embedder's
            own, because scales differ between embedders.
        k_lessons: Most lessons.

    Raises:
        ConfigError: A number is negative, or ``delta`` is no cosine.
    """

    k_task: int = 6
    delta: float | None = None
    k_lessons: int = 5

    def __post_init__(self) -> None:
        for name in ("k_task", "k_lessons"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 or more")
        if self.delta is not None and not -1 <= self.delta <= 1:
            raise ConfigError(f"delta is {self.delta}; a cosine lies between -1 and 1")


@dataclass(frozen=True, slots=True)
class Scored:
    """A skill that was retrieved.

    Attributes:
        skill: The skill.
        score: Its similarity to the task, rounded; of a general skill, its utility.
    """

    skill: BankSkill
    score: float


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a task is told, and why; each part is sorted, the best first.

    Attributes:
        general: All general skills, by utility.
        task_specific: Those of the category, by similarity.
        lessons: The category's own first, then others, each by similarity.
        category: The task's category, ``""`` where it is unknown.
        scope: The one place that the task is set in, or ``""``.
        delta: The similarity that was to be exceeded.
        bank_version: The version of the bank.
        embedder: Whose similarities these are.
    """

    general: tuple[Scored, ...] = ()
    task_specific: tuple[Scored, ...] = ()
    lessons: tuple[Scored, ...] = ()
    category: str = ""
    scope: str = ""
    delta: float = 0.0
    bank_version: int = 0
    embedder: str = ""

    @property
    def all(self) -> tuple[Scored, ...]:
        """All of them, in the order of the parts."""
        return self.general + self.task_specific + self.lessons


@dataclass(frozen=True)
class BankIndex:
    """A bank made ready for retrieval.

    Attributes:
        bank: The bank.
        encoder: Encodes its skills and the queries.
        previous: The index before the last changes, to build on.
    """

    bank: Bank
    encoder: Encoder
    previous: "BankIndex | None" = field(default=None, repr=False)
    general: tuple[Scored, ...] = field(init=False, repr=False)
    task_specific: SkillIndex = field(init=False, repr=False)
    lessons: SkillIndex = field(init=False, repr=False)

    def __post_init__(self) -> None:
        utility = utilities(self.bank)
        kinds: dict[SkillKind, list[BankSkill]] = {kind: [] for kind in SkillKind}
        for skill in self.bank.active:
            kinds[skill.kind].append(skill)
        general = [Scored(skill, utility[skill.id]) for skill in kinds[SkillKind.GENERAL]]
        general.sort(key=lambda one: (-one.score, one.skill.id))
        before = self.previous
        task = self._index(
            kinds[SkillKind.TASK_SPECIFIC], None if before is None else before.task_specific
        )
        lessons = self._index(kinds[SkillKind.LESSON], None if before is None else before.lessons)
        for name, value in (
            ("general", tuple(general)),
            ("task_specific", task),
            ("lessons", lessons),
            ("previous", None),  # or every version that ever was would stay in memory
        ):
            object.__setattr__(self, name, value)

    def _index(self, skills: list[BankSkill], previous: SkillIndex | None) -> SkillIndex:
        return SkillIndex(skills, self.encoder.skills(skills), previous=previous)


def retrieve(
    index: BankIndex,
    query: Vectors,
    *,
    category: str = "",
    scope: str = "",
    settings: RetrievalSettings = RetrievalSettings(),
) -> Retrieved:
    """Choose what a task is told.

    All general skills that hold in its scope. At most ``k_task`` skills of its category (of every
    category where it is unknown) whose similarity is strictly above delta. At most ``k_lessons``
    lessons: those of its category, then those of others that are above delta. Skills without a
    category count as every category's own. Ties are broken by id, so that the answer hangs on
    nothing else.

    Args:
        index: The bank.
        query: The unit vector of the task's description, shape ``[d]``.
        category: Of the task; ``""`` where it is unknown.
        scope: The one place that it is set in; skills of other places are never told.
        settings: How much.
    """
    embedder = index.encoder.embedder
    delta = embedder.delta if settings.delta is None else settings.delta
    task = index.task_specific.search(
        query, category=category, scope=scope, k=settings.k_task, above=delta
    )
    return Retrieved(
        general=tuple(one for one in index.general if one.skill.scope in ("", scope)),
        task_specific=_scored(task),
        lessons=_scored(_lessons(index.lessons, query, category, scope, settings.k_lessons, delta)),
        category=category,
        scope=scope,
        delta=delta,
        bank_version=index.bank.version,
        embedder=embedder.identity,
    )


def utilities(bank: Bank) -> Mapping[str, float]:
    """Tell how much better episodes end with each active skill than they do on the whole.

    Returns:
        By id: the skill's rate of wins less that of all active skills together, both over the
        episodes that were told them, and the former smoothed by `NEUTRAL_EPISODES`. In [-1, 1],
        rounded; 0 for a skill that was in no episode.
    """
    counts = {one.id: bank.stats[one.id] for one in bank.active if one.id in bank.stats}
    episodes = sum(one.episodes for one in counts.values())
    rate = sum(one.wins for one in counts.values()) / episodes if episodes else 0.0
    known = {key: round(_smoothed(one, rate) - rate, DECIMALS) for key, one in counts.items()}
    return {skill.id: known.get(skill.id, 0.0) for skill in bank.active}


def _smoothed(counts: SkillStats, rate: float) -> float:
    return (counts.wins + NEUTRAL_EPISODES * rate) / (counts.episodes + NEUTRAL_EPISODES)


def _lessons(
    lessons: SkillIndex, query: Vectors, category: str, scope: str, k: int, delta: float
) -> Found:
    if not category:
        return lessons.search(query, category="", scope=scope, k=k, above=delta)
    own = lessons.search(query, category=category, scope=scope, k=k, above=_EVERYTHING)
    if len(own) == k:
        return own
    near = lessons.search(query, category="", scope=scope, k=k + len(own), above=delta)
    told = {skill.id for _, skill in own}
    return (own + [one for one in near if one[1].id not in told])[:k]


def _scored(found: Found) -> tuple[Scored, ...]:
    return tuple(Scored(skill, score) for score, skill in found)
