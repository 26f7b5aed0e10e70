"""What a policy with weights can do: choose, learn from rows, step, and be kept.

A row is one choice as it was made. Text is never turned into tokens a second time: a tokenizer
need not give back what was sampled (source: `agent-lightning` #44, `verifiers` #626). Losses are
divided by counts over the whole mini-batch, so that their sum does not depend on micro-batches.
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

# The errors of policies. A prompt over the window is a `ContextOverflow`, as at an endpoint.


class ModelMissing(ConfigError):
    """A base model is not on this machine."""


class ModelUnfit(ConfigError):
    """Weights are damaged, of other shapes, or do not belong to their tokenizer."""


class NoChatTemplate(ConfigError):
    """A tokenizer does not say how a conversation is written."""


class ReferenceMissing(ConfigError):
    """A loss measures the distance from a reference, and none is frozen, or another one."""


class GroupTooSmall(ConfigError):
    """A group of one has nothing to be compared with."""


class TargetRefused(DataError):
    """A demonstration holds an action that the policy cannot take there."""


class CheckpointDamaged(RunError):
    """A checkpoint is not what was written, or of another policy."""


class BankVersionGone(RunError):
    """The bank version that a checkpoint refers to is not there."""


class ForeignRow(ContractError):
    """A row's tokens were made by another tokenizer, vocabulary or template."""


class RewardInvalid(ContractError):
    """A reward is not a finite number."""


class NotFinite(RunError):
    """A loss, or the gradient of several steps in a row, is NaN or infinite."""


class OutOfMemory(SkillwrightError):
    """A device's memory is spent."""


@contextmanager
def memory_watched(doing: str, settings: tuple[str, str, str]) -> Iterator[None]:
    """Turn both ways in which torch runs out of memory into one error that says what to lower."""
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
        context: What the choice was conditioned on, in the backend's own form. Nobody else reads
            it. It can be pickled.
        token_ids: What was chosen. For a command scorer: one number, the position in the list.
        old_logprobs: Natural logarithms of the probabilities that they were sampled with, one per
            token; 0 where ``loss_mask`` is false, and where nothing was sampled (targets of SFT).
        loss_mask: True for the tokens that the policy chose, false for the environment's.
        encoding: Digest of tokenizer (or vocabulary) and template: the policy that reads the row
            must have the same (`PolicyBackend.encoding`).
        temperature: What logits were divided by when this was sampled; training divides by the
            same. Above 0.
        advantage: One number for all tokens, or one per token.
        group: The task whose episodes are compared.
        episode: The episode's name; all its rows carry it.
        turn: Index of the (first) turn, from 0.
        weight: How many rows this one counts as in every mean; 0 for padding.
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

    def __post_init__(self) -> None:
        lengths = {len(self.token_ids), len(self.old_logprobs), len(self.loss_mask)}
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
        """How many tokens the policy chose."""
        return sum(self.loss_mask)

    @property
    def counts(self) -> bool:
        """Whether it has a weight, and a token that the policy chose; else it is padding."""
        return self.weight != 0 and any(self.loss_mask)

    def advantages(self) -> tuple[float, ...]:
        """Return the advantage of every token."""
        if isinstance(self.advantage, tuple):
            return self.advantage
        return (self.advantage,) * len(self.token_ids)

    def matters(self) -> bool:
        """Tell whether any chosen token has an advantage, and the row a weight."""
        chosen = zip(self.advantages(), self.loss_mask, strict=True)
        return self.weight != 0 and any(advantage != 0 and kept for advantage, kept in chosen)


@dataclass(frozen=True, slots=True)
class Sampled:
    """An action, and the row that teaches it."""

    act: Act
    row: Row


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """What a loss is computed from; every tensor is ``[rows, tokens]``, padded at the end.

    Attributes:
        logprobs: Natural logarithms under the present weights; they carry the gradient.
        old_logprobs: As sampled.
        mask: True where a token counts.
        advantages: Per token.
        weights: Per row, ``[rows]``.
        reference: Logarithms under the frozen reference; ``None`` where the loss asks for none.
        entropy: Of the distribution that each token was drawn from, in nats, ``None`` where
            the loss asks for none.
    """

    logprobs: torch.Tensor
    old_logprobs: torch.Tensor
    mask: torch.Tensor
    advantages: torch.Tensor
    weights: torch.Tensor
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
        """Pair the rows' recorded values with those of a forward pass.

        Args:
            rows: In the order of the tensors' first axis.
            logprobs: ``[rows, tokens]``, ``tokens`` at least that of the longest row. What stands
                in the padding and under a false mask is never read.
            reference: The same, under the reference.
            entropy: The same shape.
        """
        # Filled on the CPU and moved once: to a GPU, every assignment would be a transfer.
        old = torch.zeros(logprobs.shape, dtype=logprobs.dtype)
        advantages = torch.zeros_like(old)
        mask = torch.zeros(logprobs.shape, dtype=torch.bool)
        for index, row in enumerate(rows):
            size = len(row.token_ids)
            old[index, :size] = torch.tensor(row.old_logprobs, dtype=old.dtype)
            advantages[index, :size] = torch.tensor(row.advantages(), dtype=old.dtype)
            mask[index, :size] = torch.tensor(row.loss_mask)
        weights = torch.tensor([row.weight for row in rows], dtype=old.dtype)
        old, advantages, mask, weights = (
            one.to(logprobs.device) for one in (old, advantages, mask, weights)
        )
        return cls(logprobs, old, mask, advantages, weights, reference, entropy)


@dataclass(frozen=True, slots=True)
class LossReport:
    """What a loss was made of. Reports of parts add up to the report of the whole.

    Attributes:
        loss: Contribution to the loss that was differentiated.
        rows: Rows of non-zero weight.
        tokens: Chosen tokens, each counted with its row's weight; the sums below run over them.
        policy_sum: The clipped objective, negated, before any division; of `SftLoss`, the
            cross-entropy in nats.
        kl_sum: k3 estimates of the divergence from the reference, in nats.
        entropy_sum: In nats.
        low: Tokens that the lower bound holds back (ratio too small, advantage negative).
        high: Tokens that the upper bound holds back (ratio too large, advantage positive).
        dual: Tokens that the dual clip holds back.
        drift_sum: Differences |log p - old log p|. Before the first step they are numerical noise;
            later they say how far the weights have moved.
        drift_max: The largest of them.
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
        """Share of tokens without gradient, in [0, 1]."""
        return self._mean(self.low + self.high + self.dual)

    @property
    def drift(self) -> float:
        """Mean |log p - old log p| per token, in nats."""
        return self._mean(self.drift_sum)

    @property
    def surprise(self) -> float:
        """Mean cross-entropy per target token, in nats; of `SftLoss` only."""
        return self._mean(self.policy_sum)

    def _mean(self, total: float) -> float:
        return total / self.tokens if self.tokens else 0.0


class Loss(Protocol):
    """Turns log-probabilities into one number to minimize; `GrpoLoss` and `SftLoss` are the two.

    The number is this batch's share of the loss of the whole mini-batch: shares add up.
    """

    @property
    def needs_reference(self) -> bool:
        """Whether `TokenBatch.reference` has to be there."""
        ...

    @property
    def needs_entropy(self) -> bool:
        """Whether `TokenBatch.entropy` has to be there."""
        ...

    @property
    def entropy_gradient(self) -> bool:
        """Whether the entropy is differentiated; a backend may save memory where it is not."""
        ...

    def __call__(self, batch: TokenBatch) -> tuple[torch.Tensor, LossReport]:
        """Return the scalar to differentiate, and what it was made of."""
        ...


@dataclass(frozen=True, slots=True)
class StepReport:
    """What an optimizer step did.

    Attributes:
        grad_norm: Euclidean norm of the whole gradient before clipping; NaN or infinite where it
            was.
        clipped: Whether it was scaled down to the limit.
        skipped: Whether the step was left out because the norm was not finite. The gradient is
            dropped either way.
        learning_rate: The step's.
    """

    grad_norm: float
    clipped: bool = False
    skipped: bool = False
    learning_rate: float = 0.0


MOST_SKIPS = 3
"""Steps in a row whose gradient may be NaN or infinite before a run stops."""


class StepGuard:
    """Stops a run whose steps are skipped again and again.

    One gradient may overflow where its loss does not, and the next is whole again: such a step is
    skipped and counted. Where several in a row do, nothing is learned any more, and nobody would
    notice.
    """

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._skipped = 0

    def learned(self, rows: Sequence[Row]) -> None:
        """Take note of rows whose gradient waits for the next step."""
        self._rows += rows

    def stepped(self, report: StepReport) -> None:
        """Take note of a step.

        Raises:
            NotFinite: It is the last of `MOST_SKIPS` in a row that were skipped.
        """
        rows, self._rows = self._rows, []
        self._skipped = self._skipped + 1 if report.skipped else 0
        if self._skipped >= MOST_SKIPS:
            raise NotFinite(
                f"the gradient was not finite in {self._skipped} steps in a row, last over "
                f"{batch_name(rows)}. {_WEIGHTS_ARE_WHOLE}"
            )


def refuse_not_finite(rows: Sequence[Row], loss: float) -> None:
    """Stop where a loss is NaN or infinite, before its gradient reaches the weights.

    A forward pass that overflows once does so again with the same weights: to skip the step would
    be to continue with a policy that cannot learn, or, sampled, with one that is broken.

    Raises:
        NotFinite: It is; the message names the rows.
    """
    if not math.isfinite(loss):
        raise NotFinite(f"the loss is {loss:g} over {batch_name(rows)}. {_WEIGHTS_ARE_WHOLE}")


_WEIGHTS_ARE_WHOLE = (
    "Its gradient is dropped, and checkpoints hold weights of before. Resuming begins at the last "
    "of them, which helps where a device had failed; where this comes back, begin anew with a "
    "lower learning_rate, or policy.precision float32, or without these tasks"
)
_NAMED_ROWS = 3


def batch_name(rows: Sequence[Row]) -> str:
    """Say which rows a batch has, for people: how many, and task, episode and turn of a few."""
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
    """Clip the gradient, step, and drop it. A norm that is not finite skips the step."""
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
    # A norm in bfloat16 would have three digits, and so would every gradient that it scales.
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
    """A policy with weights. One instance holds one model, its optimizer and its reference.

    Not safe for use from several threads.
    """

    @property
    def identity(self) -> str:
        """Architecture and digest of the weights, or of the steps that led to them.

        Changes with every `optim_step` that moved them, and with `load`. The same steps from the
        same weights give the same one, also where a run was stopped and resumed between.
        """
        ...

    @property
    def encoding(self) -> str:
        """Digest of tokenizer or vocabulary, and template: what a row's numbers mean."""
        ...

    @property
    def reference(self) -> str:
        """Digest of the weights of the KL reference; ``""`` before `freeze_reference`."""
        ...

    def sample(self, contexts: Sequence[TurnContext], *, temperature: float) -> list[Sampled]:
        """Choose one action per context, in order.

        `TurnContext.seed` alone seeds a choice: the rest of the batch does not matter.
        Temperature 0 takes the likeliest; the row then carries the probabilities of temperature 1.

        Raises:
            ContextOverflow: A prompt leaves no room for an answer.
            OutOfMemory: The device's memory is spent.
        """
        ...

    def forget(self) -> None:
        """Drop caches of sampling, so that the next batch depends on the weights alone.

        A language model keeps what it has read, and reading in other portions rounds otherwise; a
        run that continues after a stop has read nothing yet. Nothing to do where nothing is kept.
        """
        ...

    def target(self, context: TurnContext, text: str) -> Row:
        """Return the row that teaches to answer ``text``, as `sample` would have written it.

        Raises:
            TargetRefused: The policy cannot say that here (not among the admissible commands).
        """
        ...

    def forward_backward(self, rows: Sequence[Row], loss: Loss) -> LossReport:
        """Add the gradient of the loss over these rows to what is there.

        Raises:
            ForeignRow: A row is of another `encoding`.
            ReferenceMissing: The loss asks for a reference, and none is frozen.
            NotFinite: The loss is NaN or infinite; gradients are dropped.
            OutOfMemory: The device's memory is spent; gradients are dropped.
        """
        ...

    def optim_step(self, learning_rate: float) -> StepReport:
        """Clip the gradient, step, and drop it. A norm that is not finite skips the step.

        Raises:
            NotFinite: `MOST_SKIPS` steps in a row were skipped.
        """
        ...

    def freeze_reference(self) -> str:
        """Make the present weights the KL reference and return their digest."""
        ...

    def begin_from(self, state: Mapping[str, Any]) -> None:
        """Take over the weights of a state alone, to begin anew with them.

        Optimizer and reference are dropped, and may have been of another kind or precision.

        Raises:
            CheckpointDamaged: The state is of another architecture or encoding, or no state; the
                policy is then as it was.
        """
        ...

    def state(self) -> Mapping[str, Any]:
        """Return weights, optimizer, reference and random states, as `Checkpoint` writes them.

        Tensors are those that learn, not copies: write them (`save_checkpoint`) before the next
        step. There is room for the weights once.
        """
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Go back to a state; the next step is then bit-equal on a CPU.

        Its tensors may be mapped from a file: they are copied, one at a time.

        Raises:
            CheckpointDamaged: The state is of another architecture or encoding, or no state; the
                policy is then as it was.
        """
        ...


def check_reference(backend: PolicyBackend, digest: str | None = None) -> None:
    """Refuse to measure a divergence from nothing, or from other weights than agreed.

    Raises:
        ReferenceMissing: No reference is frozen, or another one.
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
    """Refuse rows whose numbers mean something else here."""
    for row in rows:
        if row.encoding != encoding:
            raise ForeignRow(
                f"a row of episode {row.episode!r}, turn {row.turn}, was encoded by "
                f"{row.encoding[:12]!r} and this policy reads {encoding[:12]!r}. Tokens are never "
                "made from text a second time: sample the episode again with this policy."
            )
