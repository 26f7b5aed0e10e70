"""Compute a model's log-probabilities of given tokens: the forward pass of training."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skillwright.policy.backend import Row
from skillwright.policy.hf.head import Entropy, Head, chosen_logprobs, logprobs_of
from skillwright.policy.hf.packed import PACKED, Layout, sent, shared_tokens
from skillwright.policy.update import TokenContext


@dataclass(frozen=True, slots=True)
class ForwardMode:
    """How a model's rows are processed; see `forward_mode`.

    Attributes:
        packed: Concatenate rows and compute shared prefixes once; else pad rows into a batch.
        chunked: Compute the last layer for some tokens at a time; else the model computes all
            logits.
    """

    packed: bool
    chunked: bool

    def attention(self, model: Any) -> AbstractContextManager[None]:
        """Return the context of forward and backward passes."""
        return attention_by(model, PACKED) if self.packed else nullcontext()


@contextmanager
def attention_by(model: Any, name: str) -> Iterator[None]:
    """Switch a model to another attention function, by the library's name for it.

    With checkpointing, the backward pass needs it too.
    """
    config = _decoder(model).config
    usual = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = usual


def forward_mode(model: Any, device: torch.device, *, attends_to_all: bool) -> ForwardMode:
    """Return the best mode that reproduces the model's own probabilities.

    Some models transform their logits, or attend, in unsupported ways.
    """
    plain = ForwardMode(packed=False, chunked=False)
    rows = _probes(model)
    with torch.no_grad():
        wanted, _ = Batch(rows, device, plain).logprobs(model)
        for packed in (True, False) if attends_to_all else (False,):
            mode = ForwardMode(packed, chunked=True)
            try:
                found, _ = Batch(rows, device, mode).logprobs(model)
            except (AttributeError, KeyError, NotImplementedError, TypeError, ValueError):
                continue
            # Modes round differently; an unsupported model differs by more.
            most = 0.05 if _is_low(model) else 1e-3
            if bool((found - wanted).abs().max() <= most * wanted.abs().max()):
                return mode
    return plain


def micro_batches(rows: Sequence[Row], most_tokens: int, mode: ForwardMode) -> Iterator[list[Row]]:
    """Split rows into parts below a mode's token limit.

    When packed, a prefix that several rows of a part share counts once; else padding counts. A row
    beyond the limit is a part of its own. Losses are sums, so neither splits nor order matter.
    """
    part: list[Row] = []
    size = longest = 0
    before: tuple[int, ...] = ()
    for row in sorted(rows, key=_read if mode.packed else _order):
        read = _read(row)
        longest = max(longest, len(read))
        if mode.packed:
            same = shared_tokens(before, read, len(row.context.prompt_ids)) if part else 0
            size += len(read) - same
        else:
            size = longest * (len(part) + 1)
        if part and size > most_tokens:
            yield part
            part, size, longest = [], len(read), len(read)
        part.append(row)
        before = read
    if part:
        yield part


class Batch:
    """Rows that are processed together, by one model or several."""

    def __init__(self, rows: Sequence[Row], device: torch.device, mode: ForwardMode) -> None:
        """Prepare the positions and choices of the rows' tokens.

        Args:
            rows: Rows with a common prefix are contiguous, as in `micro_batches`.
            device: The model's device.
            mode: How they are processed.
        """
        self._mode = mode
        self._device = device
        self._shape = (len(rows), max(len(row.token_ids) for row in rows))
        spots = [
            (i, at) for i, row in enumerate(rows) for at, kept in enumerate(row.loss_mask) if kept
        ]
        self._spots = sent(np.array(spots, dtype=np.int64).reshape(-1, 2), device)
        self._chosen = [rows[index].token_ids[at] for index, at in spots]
        self._choices = [rows[index].context.allowed[at] for index, at in spots]
        self._temperatures = None
        if any(row.temperature != 1.0 for row in rows):
            sampled_at = [rows[index].temperature for index, _ in spots]
            self._temperatures = sent(np.array(sampled_at, dtype=np.float64), device)
        if not spots:
            return  # nothing is read
        # The output at a token predicts the next one.
        before = [(index, len(rows[index].context.prompt_ids) + at - 1) for index, at in spots]
        read = [_read(row) for row in rows]
        if mode.packed:
            prompts = [len(row.context.prompt_ids) for row in rows]
            self._layout = Layout(read, prompts, device)
            self._at = sent([int(self._layout.places[i][n]) for i, n in before], device)
        else:
            ids = torch.zeros(len(rows), max(map(len, read)), dtype=torch.long)
            for index, tokens in enumerate(read):
                ids[index, : len(tokens)] = torch.tensor(tokens, dtype=torch.long)
            self._ids = sent(ids, device)
            self._at = sent(np.array(before, dtype=np.int64).reshape(-1, 2), device)

    def logprobs(
        self, model: Any, *, entropy: Entropy = "none"
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return log-probabilities of the chosen tokens, as computed in sampling.

        Logits are computed only before chosen tokens. A restricted token is normalized over its
        choices.

        Args:
            model: A causal language model.
            entropy: Whether it is computed, and whether with a gradient.

        Returns:
            ``[rows, tokens]`` each, 0 where a token was not chosen; entropies in nats, or ``None``.
        """
        if not self._chosen:
            return torch.zeros(self._shape, device=self._device), None
        asked = (self._chosen, self._choices, self._temperatures)
        if self._mode.chunked:
            head = Head.of(_base(model))
            values, spread = chosen_logprobs(head, self._hidden(model), *asked, entropy=entropy)
        else:
            values, spread = logprobs_of(self._logits(model), *asked, entropy=entropy)
        place = (self._spots[:, 0], self._spots[:, 1])
        blank = torch.zeros(self._shape, dtype=values.dtype, device=self._device)
        logprobs = blank.index_put(place, values)
        return logprobs, None if spread is None else blank.index_put(place, spread)

    def _hidden(self, model: Any) -> torch.Tensor:
        """Return the last layer's input before each chosen token, ``[tokens, width]``."""
        decoder = _decoder(model)
        if not self._mode.packed:
            # Padding is at the end, where a causal model ignores it.
            seen = decoder(input_ids=self._ids, use_cache=False).last_hidden_state
            padded: torch.Tensor = seen[self._at[:, 0], self._at[:, 1]]
            return padded
        layout = self._layout
        with attention_by(model, PACKED):
            seen = decoder(
                input_ids=layout.ids, position_ids=layout.positions, use_cache=False, layout=layout
            ).last_hidden_state
        packed: torch.Tensor = seen[0].index_select(0, self._at)
        return packed

    def _logits(self, model: Any) -> torch.Tensor:
        """Return the model's own logits before each chosen token, ``[tokens, vocabulary]``."""
        columns, where = torch.unique(self._at[:, 1], return_inverse=True)
        seen = model(input_ids=self._ids, logits_to_keep=columns, use_cache=False).logits
        logits: torch.Tensor = seen[self._at[:, 0], where]
        return logits


def _base(model: Any) -> Any:
    """Return the model without adapter wrappers; the adapter stays in its layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _decoder(model: Any) -> Any:
    return _base(model).get_decoder()


def _is_low(model: Any) -> bool:
    device = next(model.parameters()).device.type
    return torch.is_autocast_enabled(device) or model.dtype in (torch.bfloat16, torch.float16)


def _read(row: Row) -> tuple[int, ...]:
    """Return the tokens to process: up to the last chosen one, exclusive."""
    last = max((at for at, chosen in enumerate(row.loss_mask) if chosen), default=-1)
    return (*row.context.prompt_ids, *row.token_ids[:last]) if last >= 0 else ()


def _order(row: Row) -> tuple[int, tuple[int, ...]]:
    read = _read(row)
    return len(read), read


def _probes(model: Any) -> list[Row]:
    """Return three test rows, two of which share a prompt."""
    most = _base(model).get_input_embeddings().num_embeddings
    rows = []
    for begin, answer in ((1, (5, 3, 8, 1, 2)), (1, (7, 2)), (2, (4, 6, 9))):
        prompt = tuple((begin + 7 * at) % most for at in range(24))
        size = len(answer)
        said = tuple(token % most for token in answer)
        context = TokenContext(prompt, (None,) * size)
        rows.append(Row(context, said, (0.0,) * size, (True,) * size, "", 0.9))
    return rows
