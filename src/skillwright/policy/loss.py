"""The two losses, on tensors of log-probabilities: what any policy with weights is trained by.

Source: PPO (arXiv:1707.06347), dual clip (arXiv:1912.09729), GRPO (arXiv:2402.03300), k3
(Schulman, "Approximating KL divergence"). SkillRL's code averages over micro-batches, so that
its loss depends on the cuts; here the denominator is the mini-batch's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from skillwright.core import ConfigError
from skillwright.policy.backend import LossReport, Row, TokenBatch

Average = Literal["tokens", "sequences"]

KL_CLAMP = 10.0
# exp() of more than this is far beyond every bound, and an infinity times a zero gradient is NaN.
_LARGEST_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True)
class GrpoObjective:
    """The settings of the policy loss.

    Attributes:
        clip_low: The ratio new / old counts down to ``1 - clip_low``, in [0, 1).
        clip_high: And up to ``1 + clip_high``, at least 0.
        dual_clip: For a negative advantage the ratio counts up to this, above ``1 + clip_high``;
            ``None`` for no bound.
        kl_weight: Weight of the k3 estimate of the divergence from the reference; 0 asks for no
            reference.
        entropy_weight: Weight of the entropy, which is a bonus.
        average: ``tokens``: each token of the mini-batch counts the same. ``sequences``: each row
            does, whatever its length.
        watch_entropy: Report the entropy even where it has no weight.

    Raises:
        ConfigError: A bound is out of its range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = 3.0
    kl_weight: float = 0.01
    entropy_weight: float = 0.0
    average: Average = "tokens"
    watch_entropy: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.clip_low < 1 or not self.clip_high >= 0:
            raise ConfigError(
                f"clip_low is {self.clip_low} and clip_high {self.clip_high}; set them in [0, 1) "
                "and at least 0, like 0.2"
            )
        if self.dual_clip is not None and not self.dual_clip > 1 + self.clip_high:
            raise ConfigError(
                f"dual_clip is {self.dual_clip}, not above 1 + clip_high = {1 + self.clip_high}; "
                "raise it (3 is usual), or leave it out"
            )
        if not self.kl_weight >= 0 or not self.entropy_weight >= 0:
            raise ConfigError("kl_weight and entropy_weight are at least 0")


@dataclass(frozen=True, slots=True)
class GrpoLoss:
    """The policy loss of one mini-batch; call it on any parts of it.

    Attributes:
        objective: The settings.
        denominator: What a sum over the whole mini-batch is divided by: its tokens or its rows.
    """

    objective: GrpoObjective
    denominator: float

    @classmethod
    def over(cls, rows: Sequence[Row], objective: GrpoObjective) -> "GrpoLoss":
        """Return the loss of a mini-batch.

        Raises:
            ValueError: No row has a weight and a token to learn from.
        """
        return cls(objective, denominator(rows, objective.average))

    @property
    def needs_reference(self) -> bool:
        """Whether the divergence has a weight."""
        return self.objective.kl_weight > 0

    @property
    def needs_entropy(self) -> bool:
        """Whether the entropy has a weight, or is watched."""
        return self.entropy_gradient or self.objective.watch_entropy

    @property
    def entropy_gradient(self) -> bool:
        """Whether the entropy has a weight."""
        return self.objective.entropy_weight > 0

    def __call__(self, batch: TokenBatch) -> tuple[torch.Tensor, LossReport]:
        """Return this part's share of the loss, and what it was made of."""
        told, mask = self.objective, batch.mask
        logprobs = torch.where(mask, batch.logprobs, batch.old_logprobs)
        change = logprobs - batch.old_logprobs
        policy = policy_terms(change, batch.advantages, told)
        terms = policy
        kl = torch.zeros_like(policy)
        if told.kl_weight > 0:
            if batch.reference is None:
                raise ValueError("the loss has a KL term, and the batch no reference")
            kl = k3(torch.where(mask, batch.reference - logprobs, 0.0))
            terms = terms + told.kl_weight * kl
        entropy = torch.zeros_like(policy)
        if batch.entropy is not None:
            entropy = torch.where(mask, batch.entropy, 0.0)
            if told.entropy_weight > 0:
                terms = terms - told.entropy_weight * entropy
        loss = _averaged(terms, batch, told.average) / self.denominator
        return loss, self._report(batch, loss, change, (policy, kl, entropy))

    @torch.no_grad()
    def _report(
        self,
        batch: TokenBatch,
        loss: torch.Tensor,
        change: torch.Tensor,
        terms: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> LossReport:
        told, (policy, kl, entropy) = self.objective, terms
        count, ratio = _weighted(batch), torch.exp(change.clamp(max=_LARGEST_LOG_RATIO))
        up, down = batch.advantages > 0, batch.advantages < 0
        sums = {
            "loss": loss,
            "tokens": count.sum(),
            "policy_sum": (torch.where(batch.mask, policy, 0.0) * count).sum(),
            "kl_sum": (kl * count).sum(),
            "entropy_sum": (entropy * count).sum(),
            "low": ((down & (ratio < 1 - told.clip_low)) * count).sum(),
            "high": ((up & (ratio > 1 + told.clip_high)) * count).sum(),
            "dual": ((down & (ratio > (told.dual_clip or math.inf))) * count).sum(),
            "drift_sum": (change.abs() * count).sum(),
            "drift_max": change.abs().max(),
        }
        # One transfer to the host for all: on a GPU each of them waits for everything.
        numbers = torch.stack(list(sums.values())).tolist()
        rows = int((batch.weights != 0).sum())
        return LossReport(rows=rows, **dict(zip(sums, numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class SftLoss:
    """Cross-entropy of the target tokens, divided by their number in the whole mini-batch.

    Attributes:
        denominator: That number.
    """

    denominator: float
    needs_reference: bool = False
    needs_entropy: bool = False
    entropy_gradient: bool = False

    @classmethod
    def over(cls, rows: Sequence[Row]) -> "SftLoss":
        """Return the loss of a mini-batch; ``ValueError`` where it holds nothing to learn from."""
        return cls(denominator(rows, "tokens"))

    def __call__(self, batch: TokenBatch) -> tuple[torch.Tensor, LossReport]:
        """Return this part's share of the loss, and what it was made of."""
        surprise = -torch.where(batch.mask, batch.logprobs, 0.0)
        count = _weighted(batch)
        total = (surprise * count).sum()
        loss = total / self.denominator
        numbers = torch.stack([loss, total, count.sum()]).detach().tolist()
        rows = int((batch.weights != 0).sum())
        return loss, LossReport(
            loss=numbers[0], rows=rows, tokens=numbers[2], policy_sum=numbers[1]
        )


def policy_terms(
    change: torch.Tensor, advantages: torch.Tensor, objective: GrpoObjective
) -> torch.Tensor:
    """Return the clipped objective of each token, negated."""
    ratio = torch.exp(change.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))
    held = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high)
    terms = torch.maximum(-advantages * ratio, -advantages * held)
    if objective.dual_clip is None:
        return terms
    bounded = torch.minimum(terms, -advantages * objective.dual_clip)
    return torch.where(advantages < 0, bounded, terms)


def k3(difference: torch.Tensor) -> torch.Tensor:
    """Return ``exp(d) - d - 1``, at most 10, of ``d = log p_reference - log p``; at least 0.

    The bound is reached at d = 2.6109; there is no gradient beyond.
    """
    safe = difference.clamp(max=_LARGEST_LOG_RATIO)
    # expm1 keeps the digits that exp loses near 0; what rounding leaves below 0 is 0.
    return (torch.expm1(safe) - safe).clamp(min=0, max=KL_CLAMP)


def denominator(rows: Sequence[Row], average: Average) -> float:
    """Return what the sum over a mini-batch is divided by.

    Returns:
        Chosen tokens, or rows that hold any, each counted with its row's weight.
    """
    if average == "tokens":
        total = sum(row.weight * row.chosen for row in rows)
    else:
        total = sum(row.weight for row in rows if row.chosen)
    if not total > 0:
        raise ValueError("a mini-batch without a token to learn from; skip it")
    return float(total)


def _weighted(batch: TokenBatch) -> torch.Tensor:
    return batch.mask * batch.weights[:, None]


def _averaged(terms: torch.Tensor, batch: TokenBatch, average: Average) -> torch.Tensor:
    """Sum over tokens, or over the means of sequences; still undivided by the mini-batch."""
    # Selected, not multiplied: what stands under the mask may be anything.
    kept = torch.where(batch.mask, terms, 0.0)
    if average == "tokens":
        return (kept.sum(dim=1) * batch.weights).sum()
    lengths = batch.mask.sum(dim=1).clamp(min=1)
    return (kept.sum(dim=1) / lengths * batch.weights).sum()
