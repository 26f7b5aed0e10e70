"""The JSON that a teacher is asked for. A reply in another form is asked for once more."""

from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from skillwright.core import Counterfactual, SkillKind

MOST_WORDS = 5
MOST_CHARACTERS = {"principle": 400, "other": 300}


def _short_name(name: str) -> str:
    words = len(name.split())
    if words > MOST_WORDS:
        raise ValueError(f"a name has 1 to {MOST_WORDS} words, not {words}")
    if "\n" in name or ":" in name:
        raise ValueError("a name stands on one line and has no colon")
    return name


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=60),
    AfterValidator(_short_name),
]
Principle = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_CHARACTERS["principle"]),
    AfterValidator(_on_one_line),
]
Words = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_CHARACTERS["other"]),
    AfterValidator(_on_one_line),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class Cited(_Strict):
    """A trajectory, and the turns of it that show something."""

    id: str
    turns: list[int] = []


class SkillReply(_Strict):
    """A principle: what to do, and when."""

    name: Name
    principle: Principle
    applicability: Words
    evidence: Annotated[list[Cited], Field(min_length=1)]


class LessonReply(SkillReply):
    """What a failure teaches; the principle prevents it."""

    failure_point: Words
    flawed_reasoning: Words
    corrective_action: Words

    @property
    def counterfactual(self) -> Counterfactual:
        """The three parts beside the principle."""
        return Counterfactual(self.failure_point, self.flawed_reasoning, self.corrective_action)


class SkillsReply(_Strict):
    """Principles; a reply without any is no answer."""

    skills: Annotated[list[SkillReply], Field(min_length=1)]


class LessonsReply(_Strict):
    """Lessons; a reply without any is no answer."""

    lessons: Annotated[list[LessonReply], Field(min_length=1)]


class PlaceReply(_Strict):
    """What holds in one place; there may be nothing that the trajectories show often enough."""

    skills: list[SkillReply]


class AddReply(SkillReply):
    """A new skill; the three parts of a lesson stand in lessons, and only there."""

    op: Literal["add"]
    kind: Literal["general", "task_specific", "lesson"]
    category: str = ""
    place: str = ""
    failure_point: Words | None = None
    flawed_reasoning: Words | None = None
    corrective_action: Words | None = None

    @model_validator(mode="after")
    def _parts_fit_the_kind(self) -> "AddReply":
        if self.skill_kind is SkillKind.LESSON and self.counterfactual is None:
            raise ValueError("a lesson needs failure_point, flawed_reasoning and corrective_action")
        if self.skill_kind is SkillKind.TASK_SPECIFIC and not (self.category or self.place):
            raise ValueError("a task_specific skill needs a category, or the place it holds in")
        return self

    @property
    def skill_kind(self) -> SkillKind:
        """What it is about."""
        return SkillKind(self.kind)

    @property
    def counterfactual(self) -> Counterfactual | None:
        """The three parts of a lesson; ``None`` for other kinds, and where one is missing."""
        parts = (self.failure_point, self.flawed_reasoning, self.corrective_action)
        if self.skill_kind is not SkillKind.LESSON or None in parts:
            return None
        return Counterfactual(*(part or "" for part in parts))


class RefineReply(_Strict):
    """Better words for a skill; what is left out stays as it is."""

    op: Literal["refine"]
    id: str
    name: Name | None = None
    principle: Principle | None = None
    applicability: Words | None = None
    failure_point: Words | None = None
    flawed_reasoning: Words | None = None
    corrective_action: Words | None = None
    reason: Words
    evidence: Annotated[list[Cited], Field(min_length=1)]


class RetireReply(_Strict):
    """A skill that does harm, or no good."""

    op: Literal["retire"]
    id: str
    reason: Words


ChangeReply = Annotated[AddReply | RefineReply | RetireReply, Field(discriminator="op")]


class EvolveReply(_Strict):
    """Changes of a bank. None is an answer, too; then the reasoning says why."""

    reasoning: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    changes: list[ChangeReply]
