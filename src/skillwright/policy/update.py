"""The GRPO and SFT losses, and the policy update, for any backend.

Sources of the losses: PPO (arXiv:1707.06347), k3 (Schulman, "Approximating KL divergence"), and
those of `RECIPES`. SkillRL's code averages over micro-batches, so its loss depends on their
boundaries; here the denominator is that of the mini-batch.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch

from skillwright.core import ConfigError, RunError
from skillwright.core.policy_settings import Average, GrpoTerms, Ratio
from skillwright.core.seeds import derive_seed
from skillwright.policy.backend import (
    LossReport,
    PolicyBackend,
    Row,
    StepReport,
    TokenBatch,
    check_reference,
)

KL_CLAMP = 10.0
# Larger ratios are clipped anyway; this avoids infinity times a zero gradient, which is NaN.
_LARGEST_LOG_RATIO = 20.0


@dataclass(frozen=True, slots=True)
class GrpoObjective:
    """Settings of the policy loss.

    Attributes:
        clip_low: Lower clip range: ratios new / old are clipped at ``1 - clip_low``; in [0, 1).
        clip_high: Upper clip range: ratios are clipped at ``1 + clip_high``; at least 0.
        dual_clip: Upper bound of the ratio for negative advantages, above ``1 + clip_high``;
            ``None`` for no bound.
        kl_weight: Weight of the KL divergence from the reference (k3 estimate); 0 needs no
            reference.
        entropy_weight: Weight of the entropy bonus.
        average: What the loss is a mean over, as in `LossRecipe`.
        ratio: A ratio per token, or one per row: the geometric mean over its tokens (GSPO).
        most_tokens: Longest answer in tokens, for the average ``constant``.
        tis_cap: Cap of truncated importance sampling: each token of another sampler is weighted by
            its probability under the policy over that under the sampler, at most this; ``None``
            for no correction.
        watch_entropy: Report the entropy even without a weight.

    Raises:
        ConfigError: A value is out of its range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = 3.0
    kl_weight: float = 0.01
    entropy_weight: float = 0.0
    average: Average = "tokens"
    ratio: Ratio = "tokens"
    most_tokens: int = 1
    tis_cap: float | None = None
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
    """The policy loss of one mini-batch, to be called on its micro-batches.

    Attributes:
        denominator: Tokens or rows of the whole mini-batch.
    """

    objective: GrpoObjective
    denominator: float

    @classmethod
    def over(cls, rows: Sequence[Row], objective: GrpoObjective) -> "GrpoLoss":
        """Return the loss of a mini-batch.

        Raises:
            ValueError: No row has a weight and a chosen token.
        """
        return cls(objective, denominator(rows, objective.average, objective.most_tokens))

    @property
    def needs_reference(self) -> bool:
        """Whether the KL divergence has a weight."""
        return self.objective.kl_weight > 0

    @property
    def needs_entropy(self) -> bool:
        """Whether the entropy has a weight, or is reported."""
        return self.entropy_gradient or self.objective.watch_entropy

    @property
    def entropy_gradient(self) -> bool:
        """Whether the entropy has a weight."""
        return self.objective.entropy_weight > 0

    def __call__(self, batch: TokenBatch) -> tuple[torch.Tensor, LossReport]:
        """Return the micro-batch's share of the loss, and its components."""
        objective, mask = self.objective, batch.mask
        logprobs = torch.where(mask, batch.logprobs, batch.old_logprobs)
        change = logprobs - batch.old_logprobs
        moved = change
        if objective.ratio == "sequences":
            lengths = mask.sum(dim=1, keepdim=True).clamp(min=1)
            moved = (change.sum(dim=1, keepdim=True) / lengths).expand_as(change)
        policy = policy_terms(moved, batch.advantages, objective)
        if objective.tis_cap is not None:
            policy = policy * torch.exp(batch.off_policy).clamp(max=objective.tis_cap)
        terms = policy
        kl = torch.zeros_like(policy)
        if objective.kl_weight > 0:
            if batch.reference is None:
                raise ValueError("the loss has a KL term, and the batch no reference")
            kl = k3(torch.where(mask, batch.reference - logprobs, 0.0))
            terms = terms + objective.kl_weight * kl
        entropy = torch.zeros_like(policy)
        if batch.entropy is not None:
            entropy = torch.where(mask, batch.entropy, 0.0)
            if objective.entropy_weight > 0:
                terms = terms - objective.entropy_weight * entropy
        loss = _numerator(terms, batch, objective.average) / self.denominator
        return loss, self._report(batch, loss, (change, moved), (policy, kl, entropy))

    @torch.no_grad()
    def _report(
        self,
        batch: TokenBatch,
        loss: torch.Tensor,
        changes: tuple[torch.Tensor, torch.Tensor],
        terms: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> LossReport:
        objective, (policy, kl, entropy), (change, moved) = self.objective, terms, changes
        count, ratio = _weighted(batch), torch.exp(moved.clamp(max=_LARGEST_LOG_RATIO))
        capped = batch.off_policy > math.log(objective.tis_cap or math.inf)
        up, down = batch.advantages > 0, batch.advantages < 0
        sums = {
            "loss": loss,
            "tokens": count.sum(),
            "policy_sum": (torch.where(batch.mask, policy, 0.0) * count).sum(),
            "kl_sum": (kl * count).sum(),
            "entropy_sum": (entropy * count).sum(),
            "low": ((down & (ratio < 1 - objective.clip_low)) * count).sum(),
            "high": ((up & (ratio > 1 + objective.clip_high)) * count).sum(),
            "dual": ((down & (ratio > (objective.dual_clip or math.inf))) * count).sum(),
            "drift_sum": (change.abs() * count).sum(),
            "drift_max": change.abs().max(),
            "gap_sum": (batch.off_policy.abs() * count).sum(),
            "capped": (capped * count).sum(),
        }
        # One transfer for all, because each one synchronizes the GPU.
        numbers = torch.stack(list(sums.values())).tolist()
        rows = int((batch.weights != 0).sum())
        return LossReport(rows=rows, **dict(zip(sums, numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class SftLoss:
    """Cross-entropy of the target tokens.

    Attributes:
        denominator: Target tokens of the whole mini-batch.
    """

    denominator: float
    needs_reference: bool = False
    needs_entropy: bool = False
    entropy_gradient: bool = False

    @classmethod
    def over(cls, rows: Sequence[Row]) -> "SftLoss":
        """Return the loss of a mini-batch; ``ValueError`` if it has no chosen token."""
        return cls(denominator(rows, "tokens"))

    def __call__(self, batch: TokenBatch) -> tuple[torch.Tensor, LossReport]:
        """Return the micro-batch's share of the loss, and its components."""
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
    """Return the negated clipped objective of each token."""
    ratio = torch.exp(change.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO))
    held = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high)
    terms = torch.maximum(-advantages * ratio, -advantages * held)
    if objective.dual_clip is None:
        return terms
    bounded = torch.minimum(terms, -advantages * objective.dual_clip)
    return torch.where(advantages < 0, bounded, terms)


def k3(difference: torch.Tensor) -> torch.Tensor:
    """Estimate the KL divergence by ``exp(d) - d - 1``, in [0, 10].

    ``difference`` is ``d = log p_reference - log p``. Values of d above 2.6109 are clamped to 10
    and have no gradient.
    """
    safe = difference.clamp(max=_LARGEST_LOG_RATIO)
    # expm1 is exact near 0; rounding errors below 0 are clamped.
    return (torch.expm1(safe) - safe).clamp(min=0, max=KL_CLAMP)


def denominator(rows: Sequence[Row], average: Average, most_tokens: int = 1) -> float:
    """Return the denominator of a mini-batch's loss.

    Returns:
        Chosen tokens, or rows with a chosen token (``constant``: times ``most_tokens``), weighted
        by row.
    """
    if average == "tokens":
        total = sum(row.weight * row.chosen for row in rows)
    else:
        total = sum(row.weight for row in rows if row.chosen)
        total *= most_tokens if average == "constant" else 1
    if not total > 0:
        raise ValueError("a mini-batch without a token to learn from; skip it")
    return float(total)


def _weighted(batch: TokenBatch) -> torch.Tensor:
    return batch.mask * batch.weights[:, None]


def _numerator(terms: torch.Tensor, batch: TokenBatch, average: Average) -> torch.Tensor:
    """Return the numerator of a masked mean: a sum over tokens, or over sequences' means."""
    # Select instead of multiplying by the mask: masked values may be NaN or infinite.
    kept = torch.where(batch.mask, terms, 0.0)
    if average != "sequences":
        return (kept.sum(dim=1) * batch.weights).sum()
    lengths = batch.mask.sum(dim=1).clamp(min=1)
    return (kept.sum(dim=1) / lengths * batch.weights).sum()


Choices = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TokenContext:
    """Prompt and choices of a row's tokens.

    Attributes:
        allowed: The ids that each token was sampled from, if actions were restricted; ``None`` for
            the whole vocabulary.
    """

    prompt_ids: tuple[int, ...]
    allowed: tuple[Choices, ...]


def joined(rows: Sequence[Row]) -> list[Row]:
    """Merge an episode's turns into as few rows as its prompts allow.

    A turn whose prompt extends the previous one (same tokens, then the environment's) joins its
    row; the environment's tokens are masked and have no advantage. A rebuilt prompt (a truncated
    history, a template that drops old reasoning) starts a new row, so training sees the prompts of
    sampling.
    """
    whole: list[Row] = []
    for row in rows:
        if whole and (between := _between(whole[-1], row)) is not None:
            whole[-1] = _append(whole[-1], row, between)
        else:
            whole.append(row)
    return whole


def by_episode(rows: Iterable[Row]) -> list[Row]:
    """Join the turns of every episode; rows of one episode are contiguous."""
    return [
        row
        for _, turns in groupby(rows, key=lambda row: (row.group, row.episode))
        for row in joined(list(turns))
    ]


def _between(so_far: Row, row: Row) -> tuple[int, ...] | None:
    """Return the environment's tokens between two turns, or ``None`` if they cannot be joined."""
    # A skipped turn in between stays in the prompt, masked.
    alike = (so_far.temperature, so_far.weight, so_far.encoding)
    if (row.temperature, row.weight, row.encoding) != alike:
        return None
    past = (*so_far.context.prompt_ids, *so_far.token_ids)
    prompt: tuple[int, ...] = row.context.prompt_ids
    if prompt[: len(past)] != past:
        return None
    return prompt[len(past) :]


def _append(so_far: Row, row: Row, between: tuple[int, ...]) -> Row:
    gap = len(between)
    return replace(
        so_far,
        context=TokenContext(
            so_far.context.prompt_ids,
            (*so_far.context.allowed, *(None,) * gap, *row.context.allowed),
        ),
        token_ids=(*so_far.token_ids, *between, *row.token_ids),
        old_logprobs=(*so_far.old_logprobs, *(0.0,) * gap, *row.old_logprobs),
        sampler_logprobs=(*so_far.sampled_logprobs, *(0.0,) * gap, *row.sampled_logprobs),
        loss_mask=(*so_far.loss_mask, *(False,) * gap, *row.loss_mask),
        advantage=(*so_far.advantages(), *(0.0,) * gap, *row.advantages()),
    )


class GrpoSettings(GrpoTerms):
    """Settings of a policy update; from its second step on the rows are off-policy."""

    objective: GrpoObjective = GrpoObjective()
    """Settings of the loss."""


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """Results of an update or a cold start, per optimizer step."""

    losses: tuple[LossReport, ...] = ()
    steps: tuple[StepReport, ...] = ()

    @property
    def skipped_steps(self) -> int:
        """Steps that were skipped because their gradient was not finite."""
        return sum(step.skipped for step in self.steps)

    def total(self) -> LossReport:
        """Return the sum of all reports; its means are over all tokens of all epochs."""
        return sum(self.losses, LossReport())


def update(
    backend: PolicyBackend,
    rows: Sequence[Row],
    settings: GrpoSettings,
    *,
    seed: int,
    learning_rate: float | None = None,
) -> UpdateReport:
    """Train a policy on rows with advantages (see `teach`).

    Args:
        backend: The policy.
        rows: Rows of turns; those of one episode are contiguous and in order.
        settings: Loss, epochs and batches.
        seed: Seed of the row order.
        learning_rate: Overrides the settings' rate, for a schedule.

    Returns:
        An empty report if there are no rows, or only padding.

    Raises:
        ReferenceMissing: The loss has a KL term and the backend no reference.
        RunError: Importance sampling is to be truncated, and the sampler gave no log-probabilities.
    """
    if settings.objective.kl_weight > 0:
        check_reference(backend)
    useful = [row for row in rows if row.counts]
    if settings.objective.tis_cap is not None:
        _refuse_unknown_sampler(useful)
    whole = by_episode(useful) if settings.rows == "trajectories" else useful
    rate = settings.learning_rate if learning_rate is None else learning_rate
    losses, steps = [], []
    for epoch in range(settings.epochs):
        for batch in dealt(whole, settings.minibatch_rows, derive_seed("update", seed, epoch)):
            loss = GrpoLoss.over(batch, settings.objective)
            losses.append(backend.forward_backward(batch, loss))
            steps.append(backend.optim_step(rate))
    return UpdateReport(tuple(losses), tuple(steps))


def _refuse_unknown_sampler(rows: Sequence[Row]) -> None:
    theirs = [row for row in rows if row.sampler_logprobs]
    if theirs and all(math.isnan(one) for row in theirs for one in row.sampler_logprobs):
        raise RunError(
            "the sampler returned no log-probabilities, and truncated importance sampling compares "
            "them with the policy's. Set grpo.tis_cap: 0 to train without it, or policy.sampler: "
            "own, or install a version of the sampler that returns them"
        )


def dealt(rows: Sequence[Row], size: int | None, seed: int) -> Iterator[list[Row]]:
    """Split shuffled rows into batches of about ``size``, whose sizes differ by at most one.

    A small last batch would get a full optimizer step. Within a batch, rows keep their order.
    """
    if not rows:
        return
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    batches = 1 if size is None else max(1, round(len(rows) / size))
    for number in range(batches):
        yield [rows[index] for index in sorted(order[number::batches])]
