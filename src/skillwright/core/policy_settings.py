"""Settings of a policy and its training, which a configuration embeds.

They are not declared in `skillwright.policy`, because that package loads torch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.core.settings import Settings

Precision = Literal["auto", "float32", "bfloat16", "float64"]
OptimizerKind = Literal["adamw", "adamw8bit"]
RowForm = Literal["steps", "trajectories"]
Average = Literal["tokens", "sequences", "constant"]
Ratio = Literal["tokens", "sequences"]
RecipeName = Literal["skillrl", "grpo", "dr_grpo", "dapo", "gspo", "gigpo"]


@dataclass(frozen=True, slots=True)
class LossRecipe:
    """The settings of a published policy loss. A sequence is a row: a turn, or an episode.

    Attributes:
        average: What the loss is a mean over: all tokens of a mini-batch; its rows, each the mean
            of its tokens; or ``constant``, the sum over tokens by rows times the longest answer.
        clip_low: Lower clip range: ratios new / old are clipped at ``1 - clip_low``; in [0, 1).
        clip_high: Upper clip range: ratios are clipped at ``1 + clip_high``; at least 0.
        dual_clip: Upper bound of the ratio for negative advantages; ``None`` for no bound.
        kl_weight: Weight of the KL divergence from the reference.
        ratio: A ratio per token, or the geometric mean over the tokens of a row.
        scale_by_std: Divide advantages by the standard deviation of the group.
        dynamic_sampling: Maximum extra rounds of rollouts that replace groups with equal rewards.
        step_weight: Weight of GiGPO's advantage among turns with equal observations.
    """

    average: Average = "tokens"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    kl_weight: float = 0.0
    ratio: Ratio = "tokens"
    scale_by_std: bool = True
    dynamic_sampling: int = 0
    step_weight: float = 0.0


RECIPES: Final[Mapping[RecipeName, LossRecipe]] = {
    # SkillRL, arXiv:2602.08234; its code clips doubly (arXiv:1912.09729).
    "skillrl": LossRecipe(dual_clip=3.0, kl_weight=0.01),
    # DeepSeekMath, arXiv:2402.03300.
    "grpo": LossRecipe("sequences", kl_weight=0.04),
    # Understanding R1-Zero-Like Training, arXiv:2503.20783.
    "dr_grpo": LossRecipe("constant", scale_by_std=False),
    # arXiv:2503.14476; its code gives up after ten rounds.
    "dapo": LossRecipe(clip_high=0.28, dynamic_sampling=9),
    # arXiv:2507.18071, section 5.1.
    "gspo": LossRecipe("sequences", clip_low=3e-4, clip_high=4e-4, ratio="sequences"),
    # arXiv:2505.10978.
    "gigpo": LossRecipe(dual_clip=3.0, kl_weight=0.01, step_weight=1.0),
}

TIS_CAP: Final = 2.0
"""Usual cap of truncated importance sampling (Yao et al., "Your efficient RL framework secretly
brings you off-policy RL training", 2025)."""


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
    rows: Literal["steps", "episodes", "trajectories"] = "steps"
    """A row per turn; with ``episodes``, an episode's turns in one batch; or a row per episode
    where prompts continue (``hf`` only)."""
    learning_rate: PositiveFloat = 2e-5
    """Peak learning rate; use about 4e-3 for a scorer."""
    schedule: Schedule = Schedule()
    """Learning rate schedule over the steps."""


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
    targets: list[str] = Field(default=[])
    """Names of the adapted layers, such as ``q_proj``; empty, all linear ones but the head."""


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
