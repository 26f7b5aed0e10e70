"""Compute log-probabilities in parts, without the logits of a whole batch.

With a vocabulary of 150,000, logits dominate the memory of a training step. Here they are computed
for some tokens at a time, in the forward pass and again in the backward pass (source: "Cut Your
Losses in Large-Vocabulary Language Models", arXiv:2411.09009, and Liger Kernel, arXiv:2410.10989;
both for cross-entropy alone).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.nn import functional

from skillwright.policy.hf.packed import sent

Entropy = Literal["none", "watched", "trained"]
Choices = Sequence[tuple[int, ...] | None]
Lists = Sequence[tuple[int, ...]]
Said = Sequence[int]
Values = tuple[torch.Tensor, torch.Tensor | None]
"""Log-probabilities, and entropies if requested."""

MOST_LOGITS = 2**24
"""Logits per block; two or three blocks are in memory at once."""

_TIMES_ON_GPU = 8  # larger blocks there, because each block reads the whole layer once

_NO_LOGIT = -1e30  # finite, so that its probability, 0, times it is 0 and not NaN


@dataclass(frozen=True, slots=True)
class Head:
    """A model's last layer and its logit transformations.

    Attributes:
        weight: ``[vocabulary, width]``.
        bias: ``[vocabulary]``, or ``None``.
        scale: Factor of the logits.
        cap: Bound of the logits, by a hyperbolic tangent; 0 for none.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    scale: float = 1.0
    cap: float = 0.0

    @classmethod
    def of(cls, model: Any) -> "Head":
        """Return a model's head.

        Raises:
            TypeError: The last layer is not a plain linear one, such as with an adapter.
        """
        layer = model.get_output_embeddings()
        if type(layer) is not torch.nn.Linear:
            raise TypeError(f"the last layer is a {type(layer).__name__}")
        config = model.config.get_text_config(decoder=True)
        # Names used by Cohere, Falcon-H1, Granite and Gemma.
        scale = getattr(config, "logit_scale", None) or 1.0
        scale *= getattr(config, "lm_head_multiplier", None) or 1.0
        scale /= getattr(config, "logits_scaling", None) or 1.0
        cap = getattr(config, "final_logit_softcapping", None) or 0.0
        return cls(layer.weight, layer.bias, scale, cap)

    def logits(self, hidden: torch.Tensor, columns: torch.Tensor | None = None) -> torch.Tensor:
        """Return logits in at least single precision, ``[tokens, vocabulary or columns]``."""
        weight, bias = self.weight, self.bias
        if columns is not None:
            weight = weight.index_select(0, columns)
            bias = None if bias is None else bias.index_select(0, columns)
        return self.transformed(exact(functional.linear(hidden, weight, bias)))

    def transformed(self, logits: torch.Tensor) -> torch.Tensor:
        """Scale the last layer's output, and bound it by ``cap``."""
        if self.scale != 1.0:
            logits = logits * self.scale
        return torch.tanh(logits / self.cap) * self.cap if self.cap else logits


def exact(logits: torch.Tensor) -> torch.Tensor:
    """Convert to at least single precision."""
    return logits if logits.dtype == torch.float64 else logits.float()


def chosen_logprobs(
    head: Head,
    hidden: torch.Tensor,
    chosen: Sequence[int],
    choices: Choices,
    temperatures: torch.Tensor | None,
    *,
    entropy: Entropy,
) -> Values:
    """Return log-probability (and entropy) of each chosen token among its choices.

    Args:
        head: The last layer.
        hidden: Its input, ``[tokens, width]``.
        chosen: Token ids.
        choices: Choices of each; ``None`` for the whole vocabulary.
        temperatures: ``[tokens]``; ``None`` if all are 1.
        entropy: Whether it is computed, and whether with a gradient.

    Returns:
        ``[tokens]`` each, in nats.
    """

    def few(rows: torch.Tensor, divided: torch.Tensor | None, said: Said, lists: Lists) -> Values:
        # Only the logits of possible tokens.
        columns = sorted({token for allowed in lists for token in allowed})
        where = {token: number for number, token in enumerate(columns)}
        logits = head.logits(rows, torch.tensor(columns, device=rows.device))
        renamed = [tuple(where[token] for token in allowed) for allowed in lists]
        names = [where.get(token, -1) for token in said]
        return _normalized(*_gathered(_divided(logits, divided), renamed, names), entropy)

    def whole(rows: torch.Tensor, divided: torch.Tensor | None, said: Said) -> Values:
        tokens = sent(said, rows.device)
        asked = _Asked(tokens, divided, head.scale, head.cap, entropy)
        values, spread = _ChunkedLogprobs.apply(  # type: ignore[no-untyped-call]  # torch does not type it
            rows, head.weight, head.bias, asked
        )
        return values, None if entropy == "none" else spread

    return _parted(hidden, chosen, choices, temperatures, few, whole)


def logprobs_of(
    logits: torch.Tensor,
    chosen: Sequence[int],
    choices: Choices,
    temperatures: torch.Tensor | None,
    *,
    entropy: Entropy,
) -> Values:
    """Return the same from given logits, ``[tokens, vocabulary]``."""

    def few(rows: torch.Tensor, divided: torch.Tensor | None, said: Said, lists: Lists) -> Values:
        return _normalized(*_gathered(_divided(rows, divided), lists, said), entropy)

    def whole(rows: torch.Tensor, divided: torch.Tensor | None, said: Said) -> Values:
        tokens = torch.tensor(said, device=rows.device)
        return _normalized(_divided(rows, divided), tokens, entropy)

    return _parted(exact(logits), chosen, choices, temperatures, few, whole)


def _parted(
    inputs: torch.Tensor,
    chosen: Sequence[int],
    choices: Choices,
    temperatures: torch.Tensor | None,
    few: Callable[[torch.Tensor, torch.Tensor | None, Said, Lists], Values],
    whole: Callable[[torch.Tensor, torch.Tensor | None, Said], Values],
) -> Values:
    """Handle restricted and unrestricted tokens separately, and merge the results."""

    def of(numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor | None, list[int]]:
        if len(numbers) == len(chosen):
            return inputs, temperatures, list(chosen)
        index = torch.tensor(numbers, device=inputs.device)
        divided = None if temperatures is None else temperatures.index_select(0, index)
        return inputs.index_select(0, index), divided, [chosen[number] for number in numbers]

    lists = {number: allowed for number, allowed in enumerate(choices) if allowed is not None}
    free = [number for number, allowed in enumerate(choices) if allowed is None]
    if not lists:
        return whole(*of(free))
    held, spread = few(*of(list(lists)), list(lists.values()))
    if not free:
        return held, spread
    others, others_spread = whole(*of(free))
    back = torch.tensor([*lists, *free], device=inputs.device).argsort()
    values = torch.cat([held, others])[back]
    if spread is None or others_spread is None:
        return values, None
    return values, torch.cat([spread, others_spread])[back]


def _divided(logits: torch.Tensor, temperatures: torch.Tensor | None) -> torch.Tensor:
    return logits if temperatures is None else logits / temperatures[:, None].to(logits.dtype)


def _normalized(logits: torch.Tensor, tokens: torch.Tensor, entropy: Entropy) -> Values:
    logprobs = torch.log_softmax(logits, dim=-1)
    values = logprobs.gather(1, tokens[:, None])[:, 0]
    if entropy == "none":
        return values, None
    if entropy == "watched":
        logprobs = logprobs.detach()
    terms = logprobs.exp() * logprobs
    return values, -torch.where(logprobs.exp() > 0, terms, 0.0).sum(dim=-1)


def _gathered(
    logits: torch.Tensor, lists: Lists, chosen: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gather each token's choices, and the index of the chosen one."""
    width = max(map(len, lists))
    index = torch.zeros(len(lists), width, dtype=torch.long)
    closed = torch.ones(len(lists), width, dtype=torch.bool)
    for line, allowed in enumerate(lists):
        index[line, : len(allowed)] = torch.tensor(allowed)
        closed[line, : len(allowed)] = False
    at = [allowed.index(token) for token, allowed in zip(chosen, lists, strict=True)]
    few = logits.gather(1, index.to(logits.device))
    # Not minus infinity, whose product with a probability of 0 is NaN.
    few = few.masked_fill(closed.to(logits.device), torch.finfo(few.dtype).min)
    return few, torch.tensor(at, device=logits.device)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The last layer's arguments that have no gradient."""

    tokens: torch.Tensor
    temperatures: torch.Tensor | None
    scale: float
    cap: float
    entropy: Entropy

    def part(self, at: slice, logits: torch.Tensor) -> torch.Tensor:
        """Turn the layer's output into scaled logits, in place."""
        logits = exact(logits)
        if self.scale != 1.0:
            logits.mul_(self.scale)
        if self.cap:
            logits.div_(self.cap).tanh_().mul_(self.cap)
        return logits if self.temperatures is None else logits.div_(self._divisors(at, logits))

    def back(self, at: slice, scaled: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Turn a gradient of `part`'s result into one of its input, in place."""
        if self.temperatures is not None:
            gradient.div_(self._divisors(at, gradient))
        if self.cap:
            if self.temperatures is not None:
                scaled.mul_(self._divisors(at, scaled))
            gradient.mul_(scaled.div_(self.cap).square_().neg_().add_(1))
        return gradient.mul_(self.scale) if self.scale != 1.0 else gradient

    def _divisors(self, at: slice, like: torch.Tensor) -> torch.Tensor:
        assert self.temperatures is not None
        return self.temperatures[at, None].to(like.dtype)


class _ChunkedLogprobs(torch.autograd.Function):
    """Log-probability and entropy of tokens, with the logits of some at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        asked: _Asked,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        kind = hidden.device.type
        ctx.low = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        ctx.asked = asked
        values, totals, spreads = [], [], []
        with torch.autocast(kind, enabled=False):
            inputs, layer, shift = _lowered(ctx.low, hidden, weight, bias)
            for at in _slices(hidden, weight):
                x = asked.part(at, functional.linear(inputs[at], layer, shift))
                top = x.amax(dim=1, keepdim=True)
                x.sub_(top)
                own = x.gather(1, asked.tokens[at, None])[:, 0]
                if asked.entropy == "none":
                    total = x.exp_().sum(dim=1)
                else:
                    chances = x.clamp_(min=_NO_LOGIT).exp()
                    total = chances.sum(dim=1)
                    spreads.append(total.log() - torch.linalg.vecdot(chances, x) / total)
                values.append(own - total.log())
                totals.append(total.log() + top[:, 0])
        value, spread = torch.cat(values), torch.cat(spreads) if spreads else hidden.new_empty(0)
        if asked.entropy != "trained":
            ctx.mark_non_differentiable(spread)
        ctx.save_for_backward(hidden, weight, bias, torch.cat(totals), spread)
        return value, spread

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        hidden, weight, bias, totals, spread = ctx.saved_tensors
        asked, (of_value, of_spread) = ctx.asked, gradients
        wants_hidden, wants_weight, wants_bias, _ = ctx.needs_input_grad
        to_hidden = torch.empty_like(hidden) if wants_hidden else None
        to_weight = torch.zeros_like(weight) if wants_weight else None
        to_bias = torch.zeros_like(bias) if wants_bias else None
        inputs, layer, shift = _lowered(ctx.low, hidden, weight, bias)
        for at in _slices(hidden, weight):
            x = asked.part(at, functional.linear(inputs[at], layer, shift))
            kept = x.clone() if asked.cap else x
            x.sub_(totals[at, None])
            if asked.entropy == "trained":
                slope = x.clamp_(min=_NO_LOGIT) + spread[at, None]
                slope.mul_(of_spread[at, None]).add_(of_value[at, None])
                x.exp_().mul_(slope.neg_())
            else:
                x.exp_().mul_(-of_value[at, None])
            x.scatter_add_(1, asked.tokens[at, None], of_value[at, None].to(x.dtype))
            step = asked.back(at, kept, x).to(inputs.dtype)
            if to_hidden is not None:
                to_hidden[at] = step @ layer
            if to_weight is not None:
                _add_product(to_weight, step.t(), inputs[at])
            if to_bias is not None:
                to_bias += step.sum(dim=0)
        return to_hidden, to_weight, to_bias, None


def _slices(hidden: torch.Tensor, weight: torch.Tensor) -> Iterator[slice]:
    most = MOST_LOGITS * (_TIMES_ON_GPU if hidden.is_cuda else 1)
    size = max(1, most // len(weight))
    for first in range(0, len(hidden), size):
        yield slice(first, first + size)


def _lowered(low: torch.dtype | None, *given: torch.Tensor | None) -> list[Any]:
    """Return the layer's inputs in the precision of autocast."""
    return [one if one is None or low is None else one.to(low) for one in given]


def _add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
