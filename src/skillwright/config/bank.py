"""What a configuration may say of a skill bank: how it is injected, distilled and evolved."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from skillwright.bank import (
    DistillSettings,
    EvolveSettings,
    GrowthCaps,
    RenderBudget,
    RetrievalSettings,
)
from skillwright.config.yaml_files import Section
from skillwright.models.validation import Share

_RETRIEVAL, _RENDER = RetrievalSettings(), RenderBudget()
_DISTILL, _EVOLVE, _CAPS = DistillSettings(), EvolveSettings(), GrowthCaps()


class BankSection(Section):
    """How much of a bank is injected, in training and in evaluation alike."""

    embedder: Annotated[str, Field(min_length=1)] = "lexical"
    """Says what is similar: ``lexical``, a sentence-transformers model, or ``URL#model``."""
    k_task: NonNegativeInt = _RETRIEVAL.k_task
    """Most task-specific skills."""
    delta: Annotated[float, Field(ge=-1, le=1)] | None = _RETRIEVAL.delta
    """The similarity that a task-specific skill must exceed; unset, the embedder's own."""
    k_lessons: NonNegativeInt = _RETRIEVAL.k_lessons
    """Most lessons."""
    max_tokens: PositiveInt = _RENDER.max_tokens
    """Length of the injected text, at four characters a token."""

    @property
    def retrieval(self) -> RetrievalSettings:
        """How much is retrieved."""
        return RetrievalSettings(self.k_task, self.delta, self.k_lessons)

    @property
    def budget(self) -> RenderBudget:
        """How long the text may be."""
        return RenderBudget(self.max_tokens, min(_RENDER.max_general_tokens, self.max_tokens))


class DistillSection(Section):
    """A bank written by a teacher from base trajectories."""

    tasks: PositiveInt | None = None
    """The first so many train tasks that are not of the evolution split; unset, all."""
    episodes: PositiveInt = 1
    """Base episodes per task."""
    place_episodes: PositiveInt = _DISTILL.place_episodes
    """Episodes per request about one place."""
    general: PositiveInt = _DISTILL.general
    """General skills that are asked for."""
    lessons: PositiveInt = _DISTILL.lessons
    """Lessons that are asked for, over all categories."""
    per_place: PositiveInt = _DISTILL.per_place
    """Facts that are asked for, per place."""

    def settings(self, success_threshold: float, step: int | None = None) -> DistillSettings:
        """Return what a distillation is given.

        Args:
            success_threshold: The reward from which an episode counts as solved.
            step: The training step, for the provenance.
        """
        return DistillSettings(
            place_episodes=self.place_episodes,
            general=self.general,
            lessons=self.lessons,
            per_place=self.per_place,
            success_threshold=success_threshold,
            step=step,
        )


class EvolveSection(Section):
    """How a bank is updated from what still fails, on tasks of its own."""

    nth: Annotated[int, Field(ge=2)] = 5
    """Every n-th train task, of each task type and place, is of the evolution split."""
    episodes: PositiveInt = 1
    """Episodes per task of that split."""
    trigger_accuracy: Share = _EVOLVE.trigger_accuracy
    """Categories below this success rate are looked at."""
    max_failures: PositiveInt = _EVOLVE.max_failures
    """Failures that the teacher is shown, or as many as a prompt has room for."""
    per_checkpoint: NonNegativeInt = _CAPS.per_checkpoint
    """Most additions of an update; 3 of a category at most, and 1 more to the weakest."""

    @property
    def caps(self) -> GrowthCaps:
        """How far the bank may grow."""
        return GrowthCaps(self.per_checkpoint)

    def settings(self, success_threshold: float, step: int) -> EvolveSettings:
        """Return what an update is given.

        Args:
            success_threshold: The reward from which an episode counts as solved.
            step: The epoch or round, for the provenance.
        """
        return EvolveSettings(
            trigger_accuracy=self.trigger_accuracy,
            max_failures=self.max_failures,
            caps=self.caps,
            success_threshold=success_threshold,
            step=step,
        )
