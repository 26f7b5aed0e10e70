"""The schema of a skill bank's injection, distillation and evolution."""

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
    """Retrieval and injection of a bank, in training and in evaluation."""

    embedder: Annotated[str, Field(min_length=1)] = "lexical"
    """Embedder: ``lexical``, a sentence-transformers model, or ``URL#model``."""
    max_tokens: PositiveInt = _RENDER.max_tokens
    """Maximum injected tokens, at four characters each."""

    @property
    def budget(self) -> RenderBudget:
        """Limits on the injected text."""
        return RenderBudget(self.max_tokens, min(_RENDER.max_general_tokens, self.max_tokens))


class DistillSection(DistillAmounts):
    """Distillation of a bank by a teacher from base trajectories."""

    tasks: PositiveInt | None = None
    """Number of training tasks outside the evolution split; unset, all."""
    episodes: PositiveInt = 1
    """Base episodes per task."""

    def settings(self, success_threshold: float, step: int | None = None) -> DistillSettings:
        """Return the settings of a distillation.

        Args:
            success_threshold: Minimum reward of a success.
            step: The training step, for the provenance.
        """
        return DistillSettings.of(self, success_threshold=success_threshold, step=step)


class EvolveSection(EvolveTrigger):
    """Updates of the bank from failures on the evolution split."""

    nth: Annotated[int, Field(ge=2)] = 5
    """Every n-th training task of a type and place belongs to the evolution split."""
    episodes: PositiveInt = 1
    """Episodes per task of that split."""
    per_checkpoint: NonNegativeInt = _CAPS.per_checkpoint
    """Maximum additions per update, 3 per category plus 1 for the weakest."""

    def settings(self, success_threshold: float, step: int) -> EvolveSettings:
        """Return the settings of a bank update.

        Args:
            success_threshold: Minimum reward of a success.
            step: The epoch or round, for the provenance.
        """
        caps = GrowthCaps(self.per_checkpoint)
        return EvolveSettings.of(self, caps=caps, success_threshold=success_threshold, step=step)
