"""Settings of a policy and its training, which a configuration embeds.

They are not declared in `skillwright.policy`, because that package loads torch.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core.settings import Settings

Precision = Literal["auto", "float32", "bfloat16", "float64"]
OptimizerKind = Literal["adamw", "adamw8bit"]
RowForm = Literal["steps", "trajectories"]


class Schedule(Settings):
    """How a learning rate rises and falls: a linear rise, then a fall."""

    shape: Literal["cosine", "linear", "constant"] = "cosine"
    """How it falls after the rise."""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the steps in which it rises."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the highest rate that the last step ends at."""

    def rate(self, highest: float, step: int, steps: int) -> float:
        """Return the learning rate of a step.

        Args:
            highest: What the rise ends at, above 0.
            step: From 0; beyond ``steps`` the rate stays at the floor.
            steps: How many there are in all, at least 1.

        Returns:
            A rate in [0, ``highest``], and above 0 before step ``steps``.
        """
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            # Not from zero: a first step of nothing is a step lost.
            return highest * (step + 1) / rising
        if self.shape == "constant":
            return highest
        gone = min(1.0, (step - rising) / max(1, steps - rising))
        left = 1 - gone if self.shape == "linear" else (1 + math.cos(math.pi * gone)) / 2
        return highest * (self.floor + (1 - self.floor) * left)


class SftSettings(Settings):
    """How demonstrations are learned from."""

    steps: PositiveInt = 300
    """Optimizer steps."""
    batch_rows: PositiveInt = 128
    """Turns per step, about."""
    whole_episodes: bool = False
    """Deal turns out by episodes: a scorer reads the skill once for all turns of one."""
    learning_rate: PositiveFloat = 2e-5
    """The highest of the schedule; 4e-3 suits a scorer."""
    schedule: Schedule = Schedule()
    """How the rate rises and falls over the steps."""
    join_turns: bool = False
    """One row per episode where prompts continue where the last ended (``hf`` only)."""


class GrpoTerms(Settings):
    """How the rows of an iteration are learned from."""

    learning_rate: PositiveFloat = 1e-6
    """The highest of the schedule; 5e-4 suits a scorer."""
    rows: RowForm = "steps"
    """One row per turn, or per episode where prompts continue (``hf`` only)."""
    epochs: PositiveInt = 1
    """Passes over the rows of an iteration."""
    minibatch_rows: PositiveInt | None = 128
    """Rows per optimizer step, about; unset, all."""


class Lora(Settings):
    """Train an adapter instead of all weights (source: LoRA, arXiv:2106.09685)."""

    rank: PositiveInt = 16
    """Of the adapter's matrices."""
    alpha: PositiveInt = 32
    """Its output is scaled by ``alpha / rank``."""


class LanguageModelTerms(Settings):
    """How a language model is run and trained."""

    lora: Lora | None = None
    """Unset, all weights are trained."""
    precision: Precision = "auto"
    """``auto`` is bfloat16 on a GPU and float32 elsewhere."""
    optimizer: OptimizerKind = "adamw"
    """``adamw8bit`` keeps moments in 2 bytes per weight instead of 8."""
    device: SkipJsonSchema[str] = "auto"
    """``auto`` takes a GPU where there is one; set by code that exports weights."""
    max_new_tokens: PositiveInt = 512
    """Bound on an answer, in tokens."""
    context_tokens: PositiveInt | None = None
    """Bound on prompt and answer together; unset, the model's."""
    micro_tokens: PositiveInt = 16_384
    """Tokens of a forward and backward pass; a beginning that several rows share counts once."""
    restrict: bool = True
    """Hold answers to the commands on offer, where the environment lists them."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""
    template: Mapping[str, Any] = {}
    """Handed to the chat template by name (``enable_thinking: false``)."""
