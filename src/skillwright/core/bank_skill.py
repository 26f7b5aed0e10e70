"""One skill of a bank: name, principle, applicability, and provenance.

Source: SkillRL (arXiv 2602.08234), requirements R2-R4.
"""

from dataclasses import astuple, dataclass, field
from enum import StrEnum

from skillwright.core.jsonio import digest


class SkillKind(StrEnum):
    """Kind of a skill."""

    GENERAL = "general"
    """A principle for all tasks; it has no category."""
    TASK_SPECIFIC = "task_specific"
    """A principle for one category of tasks."""
    LESSON = "lesson"
    """A lesson from a failure; it has a `Counterfactual`."""


class SkillStatus(StrEnum):
    """Whether a skill may be retrieved."""

    ACTIVE = "active"
    """Retrieved."""
    RETIRED = "retired"
    """Removed from retrieval; its id is never used again."""
    PENDING = "pending"
    """Imported; not retrieved before lint and gate."""


class SkillOrigin(StrEnum):
    """How a skill came into its bank."""

    SEED = "seed"
    DISTILLED = "distilled"
    EVOLVED = "evolved"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A failure and its correction; the lesson's principle is the preventive rule.

    Attributes:
        failure_point: The moment at which the episode failed.
    """

    failure_point: str
    flawed_reasoning: str
    corrective_action: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """The evidence behind a version of a skill.

    Attributes:
        turns: The turns it is based on: (episode key, turn from 0).
        prompt_digest: SHA-256 of the teacher's prompt; "" without one.
        step: The training step or epoch at which it was written.
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
        id: Unique in the bank and never used again.
        name: One to five words.
        principle: What to do, in one or two sentences; for a lesson, the preventive rule.
        category: Category of tasks; "" for all.
        scope: Place to which the skill is limited (``household 3``); "" for everywhere.
        counterfactual: The failure, for lessons only.
        version: From 1; a refinement adds 1.
        details: Code, tables and further text that belong to it, as Markdown; of imports only.

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
    details: str = ""

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
        """The text that is embedded and searched: name, principle and applicability."""
        return f"{self.name}. {self.principle} {self.applicability}".strip()

    @property
    def content_digest(self) -> str:
        """Digest of the content, without id, version and provenance."""
        return digest(
            {
                "name": self.name,
                "principle": self.principle,
                "applicability": self.applicability,
                "kind": self.kind,
                "category": self.category,
                "scope": self.scope,
                "counterfactual": self.counterfactual and astuple(self.counterfactual),
                **({"details": self.details} if self.details else {}),
            }
        )
