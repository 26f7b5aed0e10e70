"""One entry of a skill bank: a triple of name, principle and applicability, and where it is from.

Source: SkillRL (arXiv 2602.08234), requirements R2-R4.
"""

from dataclasses import astuple, dataclass, field
from enum import StrEnum

from skillwright.core.jsonio import digest


class SkillKind(StrEnum):
    """What a skill is about."""

    GENERAL = "general"
    """It helps in every task; it has no category."""
    TASK_SPECIFIC = "task_specific"
    """A decision principle for one category of tasks."""
    LESSON = "lesson"
    """What a failure taught; it has a `Counterfactual`."""


class SkillStatus(StrEnum):
    """Whether a skill may be retrieved."""

    ACTIVE = "active"
    """It may be retrieved."""
    RETIRED = "retired"
    """It was taken out; its id is never used again."""
    PENDING = "pending"
    """It came from outside and has not passed lint and gate."""


class SkillOrigin(StrEnum):
    """How a skill came into its bank."""

    SEED = "seed"
    DISTILLED = "distilled"
    EVOLVED = "evolved"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What went wrong, and what would have gone right; the preventive rule is the principle.

    Attributes:
        failure_point: The moment at which the episode was lost.
    """

    failure_point: str
    flawed_reasoning: str
    corrective_action: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """The evidence behind a version of a skill.

    Attributes:
        turns: The turns that caused it: (episode key, turn from 0).
        prompt_digest: SHA-256 of the prompt that the teacher was given; "" without one.
        step: The training step or epoch at which it was written, where there was one.
    """

    origin: SkillOrigin = SkillOrigin.SEED
    episodes: tuple[str, ...] = ()
    turns: tuple[tuple[str, int], ...] = ()
    prompt_digest: str = ""
    model: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class BankSkill:
    """A skill of a bank, at one version.

    Attributes:
        id: Unique over the whole bank and never used again, whatever becomes of the skill.
        name: One to five words.
        principle: What to do, in one or two sentences; of a lesson, the preventive rule.
        category: The category of tasks that it is for; "" for every one.
        scope: The one place that it holds in (``household 3``); "" holds everywhere.
        counterfactual: What the failure was; for lessons, and only for them.
        version: From 1; a refinement adds 1.

    Raises:
        ValueError: A lesson has no counterfactual or another kind has one, or a general skill has
            a category.
    """

    id: str
    name: str
    principle: str
    applicability: str
    kind: SkillKind
    category: str = ""
    scope: str = ""
    counterfactual: Counterfactual | None = None
    version: int = 1
    status: SkillStatus = SkillStatus.ACTIVE
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if (self.kind == SkillKind.LESSON) != (self.counterfactual is not None):
            raise ValueError(f"skill {self.id!r}: a lesson, and nothing else, has a counterfactual")
        if self.kind == SkillKind.GENERAL and self.category:
            raise ValueError(
                f"skill {self.id!r}: a general skill has no category, and this has "
                f"{self.category!r}; make it task-specific"
            )

    @property
    def text(self) -> str:
        """What is embedded and searched: name, principle and applicability."""
        return f"{self.name}. {self.principle} {self.applicability}".strip()

    @property
    def content_digest(self) -> str:
        """What it says, and to whom: equal for equal content, whatever its id and history."""
        return digest(
            {
                "name": self.name,
                "principle": self.principle,
                "applicability": self.applicability,
                "kind": self.kind,
                "category": self.category,
                "scope": self.scope,
                "counterfactual": self.counterfactual and astuple(self.counterfactual),
            }
        )
