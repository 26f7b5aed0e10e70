"""Process rows as one sequence in which shared prefixes are computed once.

Layers process tokens independently; only attention depends on the row. So all rows are concatenated
without padding, with shared prefixes once (the prompt of a group, common skills, earlier turns of
an episode), and attention is computed piece by piece. There is no cache, so activations can be
recomputed instead of stored.

Source: shared prefixes as in RadixAttention (arXiv:2312.07104), for training.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import AttentionInterface

PACKED = "skillwright_packed"
"""The library's name for `attend`."""

_WORTH_SHARING = 16  # tokens; a shorter beginning costs more calls than it saves
_SIBLINGS = 64  # tokens of pieces that are read side by side, though they do not see each other
_PADDED = 1.25  # times the work, for fewer calls
_MOST_MASK = 2**24  # pairs of tokens; a larger mask stays bits


def sent(values: Any, device: torch.device) -> torch.Tensor:
    """Copy numbers to a device as a tensor, without waiting for the device."""
    made = torch.as_tensor(values)
    if device.type != "cuda":
        return made.to(device)
    return made.pin_memory().to(device, non_blocking=True)


def shared_tokens(before: tuple[int, ...], row: tuple[int, ...], prompt: int) -> int:
    """Return how many tokens of a row are shared with the row before it.

    Args:
        before: Tokens of the row before.
        row: Tokens.
        prompt: Length of the row's prompt.
    """
    same, most = 0, min(len(before), len(row))
    while same < most:  # slices of tuples compare faster than any loop
        middle = (same + most + 1) // 2
        if before[same:middle] == row[same:middle]:
            same = middle
        else:
            most = middle - 1
    if prompt <= same < prompt + _WORTH_SHARING and same < len(row):
        # All answers continue from the end of the prompt, so that they are batched.
        return prompt if prompt >= _WORTH_SHARING else 0
    return same if same >= _WORTH_SHARING else 0


@dataclass(slots=True)
class _Piece:
    """Contiguous tokens of the layout, and the positions of their prefix."""

    first: int
    size: int
    before: np.ndarray


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the attention kernel.

    Attributes:
        queries: Positions in the layout, ``[batch, queries]``, arbitrarily padded.
        valid: Which queries are not padding.
        keys: Positions, ``[batch, keys]``, arbitrarily padded.
        open: Mask of each query, ``[batch, 1, queries, keys]``; ``None`` for causal.
    """

    queries: np.ndarray
    valid: np.ndarray
    keys: np.ndarray
    open: torch.Tensor | None


class Layout:
    """Positions of each row's tokens, and their attention.

    Attributes:
        ids: ``[1, tokens]``.
        positions: Of each token in its row, ``[1, tokens]``.
        places: Per row, in the given order: the position of each of its tokens.
    """

    def __init__(
        self, rows: Sequence[tuple[int, ...]], prompts: Sequence[int], device: torch.device
    ) -> None:
        """Lay out rows.

        Args:
            rows: Tokens of each; rows with a common prefix are contiguous.
            prompts: Length of each row's prompt.
            device: Device of the tensors.
        """
        ids: list[int] = []
        positions: list[int] = []
        pieces: list[_Piece] = []
        self.places: list[np.ndarray] = []
        for number, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
            same = shared_tokens(rows[number - 1], row, prompt) if number else 0
            before = self.places[-1][:same] if same else np.empty(0, dtype=np.int64)
            size = len(row) - same
            if size and same and same == len(rows[number - 1]) and before[-1] == len(ids) - 1:
                pieces[-1].size += size  # it continues the row before
            elif size:
                pieces.append(_Piece(len(ids), size, before))
            self.places.append(np.concatenate([before, np.arange(len(ids), len(ids) + size)]))
            ids += row[same:]
            positions += range(same, len(row))
        self.ids = sent([ids], device)
        self.positions = sent([positions], device)
        calls = _calls(pieces)
        self._shapes = [(call.queries.shape, call.keys.shape) for call in calls]
        self._sizes = [call.queries.size for call in calls], [call.keys.size for call in calls]
        self._open = [None if call.open is None else sent(call.open, device) for call in calls]
        self._masks: dict[torch.dtype, list[torch.Tensor | None]] = {}
        queries, valid, keys = (
            np.concatenate([getattr(call, name).reshape(-1) for call in calls])
            for name in ("queries", "valid", "keys")
        )
        back = np.empty(len(ids), dtype=np.int64)
        back[queries[valid]] = np.flatnonzero(valid)
        self._queries, self._keys, self._back = (
            None if _is_plain(index, found) else sent(index, device)
            for index, found in ((queries, len(ids)), (keys, len(ids)), (back, len(queries)))
        )

    def attention(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        """Return the attention output of every token, ``[1, tokens, heads, width]``."""
        asks, sees = self._sizes
        queries = torch.split(_picked(query, self._queries), asks)
        keys = torch.split(_picked(key, self._keys), sees)
        values = torch.split(_picked(value, self._keys), sees)
        done = []
        for number, (asked, held) in enumerate(self._shapes):
            out = _attended(
                _batched(queries[number], asked),
                _batched(keys[number], held),
                _batched(values[number], held),
                self._mask(number, query.dtype),
                scale,
            )
            done.append(out.transpose(1, 2).flatten(0, 1))
        out = done[0] if len(done) == 1 else torch.cat(done)
        return (out if self._back is None else out.index_select(0, self._back))[None]

    def _mask(self, number: int, dtype: torch.dtype) -> torch.Tensor | None:
        """Return an additive mask, cached because kernels would convert bits every time."""
        seen = self._open[number]
        if seen is None or seen.numel() > _MOST_MASK:
            return seen
        made = self._masks.setdefault(dtype, [None] * len(self._open))
        if made[number] is None:
            numbers = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
            made[number] = numbers.masked_fill_(~seen, float("-inf"))
        return made[number]


def _picked(states: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    """Return ``[tokens, heads, width]`` in the order of the calls."""
    by_token = states[0].transpose(0, 1)
    return by_token if index is None else by_token.index_select(0, index)


def _batched(states: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return ``[batch, heads, tokens, width]``."""
    return states.view(*shape, *states.shape[1:]).transpose(1, 2)


def _is_plain(index: np.ndarray, size: int) -> bool:
    """Return whether the index is the identity."""
    return len(index) == size and bool((index == np.arange(size)).all())


def _attended(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1]
    exact = query.dtype in (torch.float32, torch.float64)
    if groups > 1 and query.device.type == "cuda" and (exact or mask is not None):
        # There, only the kernel without masks and single precision supports groups of heads.
        key, value = (one.repeat_interleave(groups, dim=1) for one in (key, value))
        groups = 1
    return functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=mask is None, scale=scale, enable_gqa=groups > 1
    )


def _calls(pieces: Sequence[_Piece]) -> list[_Call]:
    """Return the attention calls of all pieces and their prefixes."""
    made = [_whole(batch) for batch in _batches([[one] for one in pieces if not len(one.before)])]
    blocks: list[list[_Piece]] = []
    behind = sorted((one for one in pieces if len(one.before)), key=_anchor)
    for _, group in groupby(behind, key=_anchor):
        blocks += _side_by_side(list(group))
    return made + [_branches(batch) for batch in _batches(blocks)]


def _anchor(piece: _Piece) -> tuple[int, int]:
    # A position has one prefix, so its last token identifies it.
    return len(piece.before), int(piece.before[-1])


def _side_by_side(siblings: list[_Piece]) -> Iterator[list[_Piece]]:
    """Group pieces with the same prefix into blocks that share its keys."""
    most = max(_SIBLINGS, len(siblings[0].before) // 2)
    block: list[_Piece] = []
    for piece in sorted(siblings, key=lambda piece: piece.size):
        if block and sum(one.size for one in block) + piece.size > most:
            yield block
            block = []
        block.append(piece)
    yield block


def _sizes(block: Sequence[_Piece]) -> tuple[int, int]:
    queries = sum(piece.size for piece in block)
    return queries, len(block[0].before) + queries


def _batches(blocks: Sequence[list[_Piece]]) -> Iterator[list[list[_Piece]]]:
    """Batch blocks of similar size, so that padding adds little work."""
    batch: list[list[_Piece]] = []
    work = wide = long = 0
    for block in sorted(blocks, key=lambda block: (_sizes(block)[1], _sizes(block)[0])):
        queries, keys = _sizes(block)
        padded = max(wide, queries) * max(long, keys) * (len(batch) + 1)
        if batch and padded > _PADDED * (work + queries * keys):
            yield batch
            batch, work, wide, long = [], 0, 0, 0
        batch.append(block)
        work, wide, long = work + queries * keys, max(wide, queries), max(long, keys)
    if batch:
        yield batch


def _whole(batch: Sequence[list[_Piece]]) -> _Call:
    """Attend within pieces without a prefix; padding comes last and is not attended to."""
    index = np.zeros((len(batch), max(piece.size for (piece,) in batch)), dtype=np.int64)
    valid = np.zeros(index.shape, dtype=bool)
    for line, (piece,) in enumerate(batch):
        index[line, : piece.size] = np.arange(piece.first, piece.first + piece.size)
        valid[line, : piece.size] = True
    return _Call(index, valid, index, None)


def _branches(batch: Sequence[list[_Piece]]) -> _Call:
    """Attend from pieces to their prefix and to themselves."""
    wide = max(_sizes(block)[0] for block in batch)
    long = max(_sizes(block)[1] for block in batch)
    queries = np.zeros((len(batch), wide), dtype=np.int64)
    keys = np.zeros((len(batch), long), dtype=np.int64)
    asks = np.full(queries.shape, -1)
    # Piece of each key in its block: -1 for the prefix, -2 for padding.
    asked = np.full(keys.shape, -2)
    for line, block in enumerate(batch):
        before, (size, total) = block[0].before, _sizes(block)
        own = np.concatenate([np.arange(one.first, one.first + one.size) for one in block])
        of = np.repeat(np.arange(len(block)), [one.size for one in block])
        queries[line, :size], asks[line, :size] = own, of
        keys[line, : len(before)], asked[line, : len(before)] = before, -1
        keys[line, len(before) : total], asked[line, len(before) : total] = own, of
    theirs = asked[:, None, :] == asks[:, :, None]
    earlier = keys[:, None, :] <= queries[:, :, None]
    # Padding sees the prefix, because a softmax over nothing is NaN.
    seen = (asked[:, None, :] == -1) | (theirs & earlier & (asks[:, :, None] >= 0))
    return _Call(queries, asks >= 0, keys, torch.from_numpy(seen[:, None]))


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    layout: Layout,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Compute the library's attention over a layout.

    Raises:
        ValueError: The model needs an unsupported kind of attention.
    """
    strange = [
        name for name in ("softcap", "s_aux", "position_bias") if others.get(name) is not None
    ]
    if strange or attention_mask is not None:
        raise ValueError(f"{type(module).__name__} attends with {strange or 'a mask of its own'}")
    return layout.attention(query, key, value, scaling), None


AttentionInterface.register(PACKED, attend)
