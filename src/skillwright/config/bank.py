"""What a configuration may say of a skill bank: how it is told, distilled and evolved."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from skillwright.bank import (
    DistilSettings,
    EvolveSettings,
    GrowthCaps,
    RenderBudget,
    RetrievalSettings,
)
from skillwright.config.section import Section
from skillwright.models.frozen import Share


class BankSection(Section):
    """How much of a bank agents are told, in training and in evaluation alike."""

    embedder: Annotated[str, Field(min_length=1)] = "lexical"
    """Says what is similar: ``lexical``, a sentence-transformers model, or ``URL#model``."""
    k_task: NonNegativeInt = 6
    """Most task-specific skills."""
    delta: Annotated[float, Field(ge=-1, le=1)] | None = None
    """The similarity that a task-specific skill must exceed; unset, the embedder's own."""
    k_lessons: NonNegativeInt = 5
    """Most lessons."""
    max_tokens: PositiveInt = 2_000
    """Length of what is told, at four characters a token."""
    max_general_tokens: NonNegativeInt = 1_200
    """Of it for general skills."""

    @property
    def retrieval(self) -> RetrievalSettings:
        """How much is retrieved."""
        return RetrievalSettings(self.k_task, self.delta, self.k_lessons)

    @property
    def budget(self) -> RenderBudget:
        """How long the text may be."""
        return RenderBudget(self.max_tokens, min(self.max_general_tokens, self.max_tokens))


class DistilSection(Section):
    """A bank written by a teacher from base trajectories."""

    tasks: PositiveInt | None = None
    """The first so many train tasks that are not of the evolution split; unset, all."""
    episodes: PositiveInt = 1
    """Base episodes per task."""
    batch_size: PositiveInt = 4
    """Episodes per request about one category."""
    general_episodes: PositiveInt = 12
    """Episodes of the request for general skills."""
    place_episodes: PositiveInt = 48
    """Episodes per request about one place."""
    general: PositiveInt = 12
    """General skills that are asked for."""
    per_category: PositiveInt = 6
    """Principles that are asked for, per category."""
    lessons: PositiveInt = 12
    """Lessons that are asked for, over all categories."""
    per_place: PositiveInt = 24
    """Facts that are asked for, per place."""

    def settings(self, success_threshold: float, step: int | None = None) -> DistilSettings:
        """Return what a distillation is told.

        Args:
            success_threshold: The reward from which an episode counts as won.
            step: The training step, for the provenance.
        """
        return DistilSettings(
            batch_size=self.batch_size,
            general_episodes=self.general_episodes,
            place_episodes=self.place_episodes,
            general=self.general,
            per_category=self.per_category,
            lessons=self.lessons,
            per_place=self.per_place,
            success_threshold=success_threshold,
            step=step,
        )


class EvolveSection(Section):
    """How a bank goes on learning, from what is still lost on tasks of its own."""

    nth: Annotated[int, Field(ge=2)] = 5
    """Every so-manieth train task, of each family and place, is of the evolution split."""
    episodes: PositiveInt = 1
    """Episodes per task of that split."""
    trigger_accuracy: Share = 0.4
    """Categories below this share of wins are looked at."""
    max_failures: PositiveInt = 10
    """Failures that the teacher is shown."""
    per_checkpoint: NonNegativeInt = 6
    """Most additions of an update."""
    per_category: NonNegativeInt = 3
    """Most additions of an update to a category."""
    weakest_extra: NonNegativeInt = 1
    """Additions on top that only the weakest category may use."""
    max_active: NonNegativeInt = 100
    """Most active skills, per place."""

    @property
    def caps(self) -> GrowthCaps:
        """How far the bank may grow."""
        return GrowthCaps(
            self.per_checkpoint, self.per_category, self.weakest_extra, self.max_active
        )

    def settings(self, success_threshold: float, step: int) -> EvolveSettings:
        """Return what an update is told.

        Args:
            success_threshold: The reward from which an episode counts as won.
            step: The epoch or round, for the provenance.
        """
        return EvolveSettings(
            trigger_accuracy=self.trigger_accuracy,
            max_failures=self.max_failures,
            caps=self.caps,
            success_threshold=success_threshold,
            step=step,
        )
