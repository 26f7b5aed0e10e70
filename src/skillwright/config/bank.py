"""What a configuration may say of a skill bank: how it is injected, distilled and evolved."""

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from skillwright.bank import (
    DistillAmounts,
    DistillSettings,
    EvolveSettings,
    EvolveTrigger,
    GrowthCaps,
    RenderBudget,
    RetrievalSettings,
)

_RENDER, _CAPS = RenderBudget(), GrowthCaps()


class BankSection(RetrievalSettings):
    """How much of a bank is injected, in training and in evaluation alike."""

    embedder: Annotated[str, Field(min_length=1)] = "lexical"
    """Embedder: ``lexical``, a sentence-transformers model, or ``URL#model``."""
    max_tokens: PositiveInt = _RENDER.max_tokens
    """Maximum injected tokens, at four characters each."""

    @property
    def budget(self) -> RenderBudget:
        """How long the text may be."""
        return RenderBudget(self.max_tokens, min(_RENDER.max_general_tokens, self.max_tokens))


class DistillSection(DistillAmounts):
    """A bank written by a teacher from base trajectories."""

    tasks: PositiveInt | None = None
    """Number of training tasks outside the evolution split; unset, all."""
    episodes: PositiveInt = 1
    """Base episodes per task."""

    def settings(self, success_threshold: float, step: int | None = None) -> DistillSettings:
        """Return what a distillation is given.

        Args:
            success_threshold: The reward from which an episode counts as solved.
            step: The training step, for the provenance.
        """
        return DistillSettings.of(self, success_threshold=success_threshold, step=step)


class EvolveSection(EvolveTrigger):
    """How a bank is updated from what still fails, on tasks of its own."""

    nth: Annotated[int, Field(ge=2)] = 5
    """Every n-th training task of a type and place belongs to the evolution split."""
    episodes: PositiveInt = 1
    """Episodes per task of that split."""
    per_checkpoint: NonNegativeInt = _CAPS.per_checkpoint
    """Maximum additions per update, 3 per category plus 1 for the weakest."""

    def settings(self, success_threshold: float, step: int) -> EvolveSettings:
        """Return what an update is given.

        Args:
            success_threshold: The reward from which an episode counts as solved.
            step: The epoch or round, for the provenance.
        """
        caps = GrowthCaps(self.per_checkpoint)
        return EvolveSettings.of(self, caps=caps, success_threshold=success_threshold, step=step)
