"""What a configuration may say of a skill bank: how it is injected, distilled and evolved."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt
from pydantic.json_schema import SkipJsonSchema

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
    """Retrieval from the bank."""

    embedder: Annotated[str, Field(min_length=1)] = "lexical"
    """Embedder: ``lexical``, a sentence-transformers model, or ``URL#model``."""
    k_task: NonNegativeInt = _RETRIEVAL.k_task
    """Maximum task-specific skills."""
    delta: Annotated[float, Field(ge=-1, le=1)] | None = _RETRIEVAL.delta
    """Similarity that a task-specific skill must exceed; unset, the embedder's default."""
    k_lessons: NonNegativeInt = _RETRIEVAL.k_lessons
    """Maximum lessons."""
    max_tokens: PositiveInt = _RENDER.max_tokens
    """Maximum injected tokens, at four characters each."""
    max_general_tokens: SkipJsonSchema[NonNegativeInt] = _RENDER.max_general_tokens
    """Of it for general skills."""

    @property
    def retrieval(self) -> RetrievalSettings:
        """How much is retrieved."""
        return RetrievalSettings(self.k_task, self.delta, self.k_lessons)

    @property
    def budget(self) -> RenderBudget:
        """How long the text may be."""
        return RenderBudget(self.max_tokens, min(self.max_general_tokens, self.max_tokens))


class DistillSection(Section):
    """Distillation of a bank from base trajectories."""

    tasks: PositiveInt | None = None
    """Number of training tasks outside the evolution split; unset, all."""
    episodes: PositiveInt = 1
    """Base episodes per task."""
    place_episodes: PositiveInt = _DISTILL.place_episodes
    """Episodes per request about one place."""
    general: PositiveInt = _DISTILL.general
    """General skills to request."""
    per_category: SkipJsonSchema[PositiveInt] = _DISTILL.per_category
    """Principles that are asked for, per category."""
    lessons: PositiveInt = _DISTILL.lessons
    """Lessons to request, over all categories."""
    per_place: PositiveInt = _DISTILL.per_place
    """Facts to request per place."""

    def settings(self, success_threshold: float, step: int | None = None) -> DistillSettings:
        """Return what a distillation is given.

        Args:
            success_threshold: The reward from which an episode counts as solved.
            step: The training step, for the provenance.
        """
        return DistillSettings(
            place_episodes=self.place_episodes,
            general=self.general,
            per_category=self.per_category,
            lessons=self.lessons,
            per_place=self.per_place,
            success_threshold=success_threshold,
            step=step,
        )


class EvolveSection(Section):
    """Bank evolution on tasks of its own."""

    nth: Annotated[int, Field(ge=2)] = 5
    """Every n-th training task of a type and place belongs to the evolution split."""
    episodes: PositiveInt = 1
    """Episodes per task of that split."""
    trigger_accuracy: Share = _EVOLVE.trigger_accuracy
    """Success rate below which a category is updated."""
    max_failures: PositiveInt = _EVOLVE.max_failures
    """Maximum failures shown to the teacher."""
    per_checkpoint: NonNegativeInt = _CAPS.per_checkpoint
    """Maximum additions per update, 3 per category plus 1 for the weakest."""
    weakest_extra: SkipJsonSchema[NonNegativeInt] = _CAPS.weakest_extra
    """Additions on top that only the weakest category may use."""

    @property
    def caps(self) -> GrowthCaps:
        """How far the bank may grow."""
        return GrowthCaps(self.per_checkpoint, weakest_extra=self.weakest_extra)

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
