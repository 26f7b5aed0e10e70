"""The protocol of policies with weights: sample, learn from rows, step, save and load.

A row is one recorded choice with its tokens. Text is not tokenized again, because a tokenizer may
not reproduce the sampled tokens (source: `agent-lightning` #44, `verifiers` #626). Losses are
divided by counts over the whole mini-batch, so that they do not depend on micro-batches.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch

from skillwright.core import (
    Act,
    ConfigError,
    ContractError,
    DataError,
    RunError,
    SkillwrightError,
    TurnContext,
)


class ModelMissing(ConfigError):
    """A base model is not on this machine."""


class ModelUnfit(ConfigError):
    """Weights are damaged, of other shapes, or do not match their tokenizer."""


class NoChatTemplate(ConfigError):
    """A tokenizer has no chat template."""


class ReferenceMissing(ConfigError):
    """A loss needs a reference, and none is frozen, or a different one."""


class GroupTooSmall(ConfigError):
    """A group needs at least two episodes."""


class TargetRefused(DataError):
    """A demonstration has an action that the policy cannot take."""


class CheckpointDamaged(RunError):
    """A checkpoint was changed, or is of another policy."""


class BankVersionGone(RunError):
    """The bank version of a checkpoint does not exist."""


class ForeignRow(ContractError):
    """A row was encoded by another tokenizer, vocabulary or template."""


class RewardInvalid(ContractError):
    """A reward is not a finite number."""


class NotFinite(RunError):
    """A loss, or the gradient of several consecutive steps, is NaN or infinite."""


class OutOfMemory(SkillwrightError):
    """A device is out of memory."""


@contextmanager
def memory_watched(doing: str, settings: tuple[str, str, str]) -> Iterator[None]:
    """Convert torch's out-of-memory errors into one that names the settings to lower."""
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError, MemoryError) as fault:
        if isinstance(fault, RuntimeError) and not _is_about_memory(fault):
            raise
        first, second, third = settings
        text = str(fault).strip()
        reason = text.splitlines()[0] if text else type(fault).__name__
        raise OutOfMemory(
            f"memory is spent while {doing}: {reason} Lower {first}, {second} or {third}."
        ) from fault


def _is_about_memory(fault: RuntimeError) -> bool:
    if isinstance(fault, torch.OutOfMemoryError):
        return True
    # The CPU's allocator raises a plain RuntimeError.
    return "DefaultCPUAllocator" in str(fault) or "out of memory" in str(fault)


@dataclass(frozen=True, slots=True)
class Row:
    """One choice, or one episode of choices, to learn from.

    Attributes:
        context: Input of the choice in the backend's own format; can be pickled.
        token_ids: The chosen tokens; for a command scorer, the command's index.
        old_logprobs: Natural logarithms of the sampling probabilities, one per token; 0 where
            ``loss_mask`` is false, and for targets of SFT.
        loss_mask: True for the policy's tokens, false for the environment's.
        encoding: Digest of tokenizer (or vocabulary) and template; must equal that of the learning
            policy (`PolicyBackend.encoding`).
        temperature: Sampling temperature, above 0; also used in training.
        advantage: One number for all tokens, or one per token.
        group: Id of the task whose episodes are compared.
        episode: Name of the episode.
        turn: Index of the (first) turn, from 0.
        weight: Weight of the row in every mean; 0 for padding.
        sampler_logprobs: Log-probabilities of the engine that sampled, NaN where it gave none;
            empty if the policy sampled, so that they are ``old_logprobs``.
    """

    context: Any
    token_ids: tuple[int, ...]
    old_logprobs: tuple[float, ...]
    loss_mask: tuple[bool, ...]
    encoding: str
    temperature: float = 1.0
    advantage: float | tuple[float, ...] = 0.0
    group: str = ""
    episode: str = ""
    turn: int = 0
    weight: float = 1.0
    sampler_logprobs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        lengths = {len(self.token_ids), len(self.old_logprobs), len(self.loss_mask)}
        lengths.add(len(self.sampled_logprobs))
        if isinstance(self.advantage, tuple):
            lengths.add(len(self.advantage))
        if len(lengths) != 1 or not self.token_ids:
            raise ValueError(
                f"a row needs as many tokens as probabilities, mask entries and advantages, and at "
                f"least one; it has {len(self.token_ids)}, {len(self.old_logprobs)}, "
                f"{len(self.loss_mask)}"
            )

    @property
    def chosen(self) -> int:
        """Number of tokens that the policy chose."""
        return sum(self.loss_mask)

    @property
    def counts(self) -> bool:
        """Whether the row is not padding: it has a weight and a chosen token."""
        return self.weight != 0 and any(self.loss_mask)

    def advantages(self) -> tuple[float, ...]:
        """Return the advantage of every token."""
        if isinstance(self.advantage, tuple):
            return self.advantage
        return (self.advantage,) * len(self.token_ids)

    @property
    def sampled_logprobs(self) -> tuple[float, ...]:
        """The log-probabilities that every token was sampled with, NaN where unknown."""
        return self.sampler_logprobs or self.old_logprobs

    def matters(self) -> bool:
        """Tell whether the row has a gradient: a weight, and a chosen token with an advantage."""
        chosen = zip(self.advantages(), self.loss_mask, strict=True)
        return self.weight != 0 and any(advantage != 0 and kept for advantage, kept in chosen)


@dataclass(frozen=True, slots=True)
class Sampled:
    """An action and its row."""

    act: Act
    row: Row


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Input of a loss; tensors have shape ``[rows, tokens]``, padded at the end.

    Attributes:
        logprobs: Log-probabilities under the current weights, with gradient.
        old_logprobs: Log-probabilities when sampled.
        mask: True for chosen tokens.
        advantages: Advantages of the tokens.
        weights: Weights of the rows, shape ``[rows]``.
        reference: Log-probabilities under the frozen reference, or ``None``.
        off_policy: Log-probabilities when sampled minus those of the sampler; 0 where the policy
            samples itself, or the sampler gave none.
        entropy: Entropy of each token's distribution, in nats, or ``None``.
    """

    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor
    weights: torch.Tensor
    off_policy: torch.Tensor
    reference: torch.Tensor | None = None
    entropy: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        logprobs: torch.Tensor,
        reference: torch.Tensor | None = None,
        entropy: torch.Tensor | None = None,
    ) -> "TokenBatch":
        """Combine the rows' recorded values with those of a forward pass.

        Args:
            rows: In the order of the tensors' first axis.
            logprobs: Shape ``[rows, tokens]``; padding and masked values are ignored.
            reference: Log-probabilities under the reference, in the same shape.
            entropy: Entropies, in the same shape.
        """
        # Filled on the CPU and moved once, because each assignment on a GPU is a transfer.
        old = torch.zeros(logprobs.shape, dtype=logprobs.dtype)
        advantages, sampler = torch.zeros_like(old), torch.zeros_like(old)
        mask = torch.zeros(logprobs.shape, dtype=torch.bool)
        for index, row in enumerate(rows):
            size = len(row.token_ids)
            old[index, :size] = torch.tensor(row.old_logprobs, dtype=old.dtype)
            sampler[index, :size] = torch.tensor(row.sampled_logprobs, dtype=old.dtype)
            advantages[index, :size] = torch.tensor(row.advantages(), dtype=old.dtype)
            mask[index, :size] = torch.tensor(row.loss_mask)
        weights = torch.tensor([row.weight for row in rows], dtype=old.dtype)
        off_policy = torch.where(mask, old - sampler, 0.0).nan_to_num(nan=0.0)
        old, advantages, mask, weights, off_policy = (
            one.to(logprobs.device) for one in (old, advantages, mask, weights, off_policy)
        )
        return cls(logprobs, old, mask, advantages, weights, off_policy, reference, entropy)


@dataclass(frozen=True, slots=True)
class LossReport:
    """Components of a loss; the reports of micro-batches add up to that of the mini-batch.

    Attributes:
        loss: Contribution to the differentiated loss.
        rows: Rows with a weight.
        tokens: Chosen tokens, weighted by row.
        policy_sum: Sum over tokens of the negated clipped objective; for `SftLoss`, of the
            cross-entropy in nats.
        kl_sum: Sum over tokens of the KL divergence from the reference (k3 estimates), in nats.
        entropy_sum: Sum over tokens of the entropy, in nats.
        low: Tokens clipped at the lower bound (small ratio, negative advantage).
        high: Tokens clipped at the upper bound (large ratio, positive advantage).
        dual: Tokens clipped at the dual clip.
        drift_sum: Sum over tokens of |log p - old log p|, which is numerical noise before the first
            step, and afterwards the change of the weights.
        drift_max: The largest |log p - old log p|.
        gap_sum: Sum over tokens of |old log p - the sampler's log p|.
        capped: Tokens whose importance weight was truncated.
    """

    loss: float = 0.0
    rows: int = 0
    tokens: float = 0.0
    policy_sum: float = 0.0
    kl_sum: float = 0.0
    entropy_sum: float = 0.0
    low: float = 0.0
    high: float = 0.0
    dual: float = 0.0
    drift_sum: float = 0.0
    drift_max: float = 0.0
    gap_sum: float = 0.0
    capped: float = 0.0

    def __add__(self, other: "LossReport") -> "LossReport":
        names = [each.name for each in fields(self) if each.name != "drift_max"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums, drift_max=max(self.drift_max, other.drift_max))

    @property
    def kl(self) -> float:
        """Mean divergence from the reference per token, in nats."""
        return self._mean(self.kl_sum)

    @property
    def entropy(self) -> float:
        """Mean entropy per token, in nats."""
        return self._mean(self.entropy_sum)

    @property
    def clip_fraction(self) -> float:
        """Share of clipped tokens, in [0, 1]; these have no gradient."""
        return self._mean(self.low + self.high + self.dual)

    @property
    def drift(self) -> float:
        """Mean |log p - old log p| per token, in nats."""
        return self._mean(self.drift_sum)

    @property
    def sampler_gap(self) -> float:
        """Mean |old log p - the sampler's log p| per token, in nats."""
        return self._mean(self.gap_sum)

    @property
    def capped_share(self) -> float:
        """Share of tokens whose importance weight was truncated, in [0, 1]."""
        return self._mean(self.capped)

    @property
    def surprise(self) -> float:
        """Mean cross-entropy per target token, in nats; for `SftLoss` only."""
        return self._mean(self.policy_sum)

    def _mean(self, total: float) -> float:
        return total / self.tokens if self.tokens else 0.0


class Loss(Protocol):
    """A loss on log-probabilities: `GrpoLoss` or `SftLoss`.

    The value is the micro-batch's share of the mini-batch's loss.
    """

    @property
    def needs_reference(self) -> bool:
        """Whether `TokenBatch.reference` is required."""

    @property
    def needs_entropy(self) -> bool:
        """Whether `TokenBatch.entropy` is required."""

    @property
    def entropy_gradient(self) -> bool:
        """Whether `TokenBatch.entropy` needs a gradient."""

    def __call__(self, batch: TokenBatch) -> tuple[torch.Tensor, LossReport]:
        """Return the scalar loss to differentiate, and its components."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Result of an optimizer step.

    Attributes:
        grad_norm: Euclidean norm of the gradient before clipping; may be NaN or infinite.
        clipped: Whether the gradient was clipped.
        skipped: Whether the step was skipped because the norm was not finite.
        learning_rate: Learning rate of the step.
    """

    grad_norm: float
    clipped: bool = False
    skipped: bool = False
    learning_rate: float = 0.0


MOST_SKIPS = 3
"""Consecutive skipped steps that stop a run."""


class StepGuard:
    """Stops a run after several consecutive steps with a non-finite gradient.

    A single such step is skipped and counted.
    """

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._skipped = 0

    def learned(self, rows: Sequence[Row]) -> None:
        """Record rows whose gradient is pending, to name them in an error."""
        self._rows += rows

    def stepped(self, report: StepReport) -> None:
        """Record a step.

        Raises:
            NotFinite: `MOST_SKIPS` consecutive steps were skipped.
        """
        rows, self._rows = self._rows, []
        self._skipped = self._skipped + 1 if report.skipped else 0
        if self._skipped >= MOST_SKIPS:
            raise NotFinite(
                f"the gradient was not finite in {self._skipped} steps in a row, last over "
                f"{batch_name(rows)}. {_WEIGHTS_ARE_WHOLE}"
            )


def refuse_not_finite(rows: Sequence[Row], loss: float) -> None:
    """Refuse a loss that is NaN or infinite.

    Skipping the step would not help, because the same weights would overflow again.

    Raises:
        NotFinite: The message names the rows.
    """
    if not math.isfinite(loss):
        raise NotFinite(f"the loss is {loss:g} over {batch_name(rows)}. {_WEIGHTS_ARE_WHOLE}")


_WEIGHTS_ARE_WHOLE = (
    "Its gradient is dropped, and the latest checkpoint holds the weights before it. Resume the "
    "run in case a device had failed; if this happens again, start a new run with a lower "
    "learning_rate, policy.precision float32, or without these tasks"
)
_NAMED_ROWS = 3


def batch_name(rows: Sequence[Row]) -> str:
    """Describe a batch: its size, and task, episode and turn of a few rows."""
    names = dict.fromkeys(
        f"task {row.group or '?'}, episode {row.episode or '?'}, turn {row.turn}" for row in rows
    )
    few = "; ".join(list(names)[:_NAMED_ROWS])
    more = f"; and {len(names) - _NAMED_ROWS} more" if len(names) > _NAMED_ROWS else ""
    return f"a batch of {len(rows)} rows ({few}{more})"


def clipped_step(
    optimizer: torch.optim.Optimizer,
    weights: Iterable[torch.Tensor],
    max_grad_norm: float,
    learning_rate: float,
) -> StepReport:
    """Clip the gradient, step, and drop it. A non-finite norm skips the step."""
    norm = _clip(list(weights), max_grad_norm)
    skipped = not math.isfinite(norm)
    if not skipped:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.step()
    optimizer.zero_grad()
    return StepReport(norm, norm > max_grad_norm, skipped, learning_rate)


def _clip(weights: Sequence[torch.Tensor], most: float) -> float:
    if not any(one.dtype == torch.bfloat16 for one in weights):
        return float(torch.nn.utils.clip_grad_norm_(weights, most))
    # A norm in bfloat16 has three digits, and the error would scale the whole gradient.
    norms = [
        torch.linalg.vector_norm(one.grad, dtype=torch.float32)
        for one in weights
        if one.grad is not None
    ]
    if not norms:
        return 0.0
    norm = torch.linalg.vector_norm(torch.stack(norms))
    torch.nn.utils.clip_grads_with_norm_(weights, most, norm)
    return float(norm)


class PolicyBackend(Protocol):
    """A policy with weights: one model, its optimizer and its reference. Not thread-safe."""

    @property
    def identity(self) -> str:
        """Architecture and digest of the weights, or of the steps that produced them.

        It changes with every `optim_step` that is not skipped, and with `load`. Equal steps from
        equal weights give equal identities, also in resumed runs.
        """

    @property
    def encoding(self) -> str:
        """Digest of tokenizer or vocabulary, and template."""

    @property
    def reference(self) -> str:
        """Digest of the weights of the KL reference; ``""`` before `freeze_reference`."""

    def sample(self, contexts: Sequence[TurnContext], *, temperature: float) -> list[Sampled]:
        """Choose one action per context, in order.

        Each choice is seeded by `TurnContext.seed` and does not depend on the batch. Temperature 0
        takes the most likely action; the row then has the probabilities of temperature 1.

        Raises:
            ContextOverflow: A prompt leaves no room for an answer.
            OutOfMemory: The device is out of memory.
        """

    def forget(self) -> None:
        """Drop sampling caches, so that the next batch depends on the weights only.

        Results with cached prefixes differ by rounding errors, so a resumed run would differ.
        """

    def target(self, context: TurnContext, text: str) -> Row:
        """Return the row of SFT for the answer ``text``, in the form that `sample` returns.

        Raises:
            TargetRefused: The policy cannot give this answer (not an admissible command).
        """

    def forward_backward(self, rows: Sequence[Row], loss: Loss) -> LossReport:
        """Accumulate the gradient of the loss over these rows.

        Raises:
            ForeignRow: A row is of another `encoding`.
            ReferenceMissing: The loss needs a reference, and none is frozen.
            NotFinite: The loss is NaN or infinite; gradients are dropped.
            OutOfMemory: The device is out of memory; gradients are dropped.
        """

    def optim_step(self, learning_rate: float) -> StepReport:
        """Clip the gradient, step, and drop it. A non-finite norm skips the step.

        Raises:
            NotFinite: `MOST_SKIPS` consecutive steps were skipped.
        """

    def freeze_reference(self) -> str:
        """Make the current weights the KL reference and return their digest."""

    def begin_from(self, state: Mapping[str, Any]) -> None:
        """Load only the weights of a state; optimizer and reference are reset.

        Raises:
            CheckpointDamaged: The state is invalid, or of another architecture or encoding; the
                policy is unchanged.
        """

    def state(self) -> Mapping[str, Any]:
        """Return weights, optimizer, reference and random states for a `Checkpoint`.

        Tensors are not copied: write them (`save_checkpoint`) before the next step.
        """

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state; the next step is bit-equal on a CPU.

        Tensors that are mapped from a file are copied one at a time.

        Raises:
            CheckpointDamaged: The state is invalid, or of another architecture or encoding; the
                policy is unchanged.
        """


def check_reference(backend: PolicyBackend, digest: str | None = None) -> None:
    """Refuse a missing reference, or one with another digest than ``digest``.

    Raises:
        ReferenceMissing: No reference is frozen, or a different one.
    """
    frozen = backend.reference
    if not frozen:
        raise ReferenceMissing(
            "the loss has a KL term and no reference is frozen: call freeze_reference() after the "
            "cold start, or set kl_weight to 0"
        )
    if digest is not None and frozen != digest:
        raise ReferenceMissing(
            f"the frozen reference is {frozen[:12]!r} and the cold start ended with "
            f"{digest[:12]!r}; load the weights that the cold start ended with"
        )


def check_encoding(rows: Sequence[Row], encoding: str) -> None:
    """Refuse rows of another encoding."""
    for row in rows:
        if row.encoding != encoding:
            raise ForeignRow(
                f"a row of episode {row.episode!r}, turn {row.turn}, was encoded by "
                f"{row.encoding[:12]!r} and this policy reads {encoding[:12]!r}. Tokens are never "
                "made from text a second time: sample the episode again with this policy."
            )
