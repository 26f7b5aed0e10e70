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
    """A learning rate schedule: linear warmup, then decay."""

    shape: Literal["cosine", "linear", "constant"] = "cosine"
    """Decay after the warmup."""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of warmup steps."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Final rate as a share of the peak."""

    def rate(self, highest: float, step: int, steps: int) -> float:
        """Return the learning rate of a step.

        Args:
            highest: Peak learning rate, above 0.
            step: Number of the step, from 0; beyond ``steps`` the rate stays at the floor.
            steps: Total steps, at least 1.

        Returns:
            A rate in [0, ``highest``], and above 0 before step ``steps``.
        """
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            # Start above zero, so that the first step has an effect.
            return highest * (step + 1) / rising
        if self.shape == "constant":
            return highest
        gone = min(1.0, (step - rising) / max(1, steps - rising))
        left = 1 - gone if self.shape == "linear" else (1 + math.cos(math.pi * gone)) / 2
        return highest * (self.floor + (1 - self.floor) * left)


class SftSettings(Settings):
    """Settings of supervised training."""

    steps: PositiveInt = 300
    """Optimizer steps."""
    batch_rows: PositiveInt = 128
    """Approximate turns per step."""
    whole_episodes: bool = False
    """Keep the turns of an episode in one batch."""
    learning_rate: PositiveFloat = 2e-5
    """Peak learning rate; use about 4e-3 for a scorer."""
    schedule: Schedule = Schedule()
    """Learning rate schedule over the steps."""
    join_turns: bool = False
    """One row per episode where prompts continue (``hf`` only)."""


class GrpoTerms(Settings):
    """Settings of the policy updates of an iteration."""

    learning_rate: PositiveFloat = 1e-6
    """Peak learning rate; use about 5e-4 for a scorer."""
    rows: RowForm = "steps"
    """One row per turn, or per episode where prompts continue (``hf`` only)."""
    epochs: PositiveInt = 1
    """Passes over an iteration's rows."""
    minibatch_rows: PositiveInt | None = 128
    """Approximate rows per optimizer step; unset, all."""


class Lora(Settings):
    """Train an adapter instead of all weights (source: LoRA, arXiv:2106.09685)."""

    rank: PositiveInt = 16
    """LoRA rank."""
    alpha: PositiveInt = 32
    """LoRA alpha; outputs are scaled by ``alpha / rank``."""


class LanguageModelTerms(Settings):
    """Settings of a language model's sampling and training."""

    lora: Lora | None = None
    """LoRA; unset, train all weights."""
    precision: Precision = "auto"
    """``auto`` is bfloat16 on a GPU, float32 elsewhere."""
    optimizer: OptimizerKind = "adamw"
    """``adamw8bit`` keeps moments in 2 bytes per weight instead of 8."""
    device: SkipJsonSchema[str] = "auto"
    """``auto`` uses a GPU if there is one; set by code that exports weights."""
    max_new_tokens: PositiveInt = 512
    """Maximum answer tokens."""
    context_tokens: PositiveInt | None = None
    """Maximum tokens of prompt and answer; unset, the model's."""
    micro_tokens: PositiveInt = 16_384
    """Tokens per forward and backward pass; shared prefixes count once."""
    restrict: bool = True
    """Constrain answers to the admissible commands, where the environment lists them."""
    gradient_checkpointing: bool = False
    """Recompute activations instead of storing them."""
    template: Mapping[str, Any] = {}
    """Arguments of the chat template, such as ``enable_thinking: false``."""
