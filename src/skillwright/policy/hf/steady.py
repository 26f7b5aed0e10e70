"""Single-token passes over a lane, recorded as a CUDA graph and replayed.

A GPU computes one token of each answer faster than Python launches the hundreds of kernels of a
forward pass. So keys and values are placed at fixed addresses, with room for new tokens, and one
pass is recorded; afterwards each token is one call.

Queries of heads that share keys are batched as tokens, so that keys and values are read once
(source: grouped-query attention, arXiv:2305.13245).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicLayer

from skillwright.policy.hf.sampling import Lane, RoomyLayer, new_cache

STEADY = "skillwright_steady"
"""Under which the library knows `attend_steady`."""

AHEAD = 256
"""Columns that are made at once; more would be read for nothing while they are empty."""

_ALIGNED = 64  # columns; the kernel would copy a mask of any other width

Forward = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Reads a token of each conversation, from its cache, ids and positions ``[rows, 1]``, and a mask
``[rows, 1, 1, columns]``, 0 where a column is seen; returns logits ``[rows, vocabulary]``."""


@dataclass(slots=True)
class Recording:
    """Whether passes may be recorded: on a GPU, until a model synchronizes within a pass."""

    is_possible: bool


class Steady:
    """Passes over a lane until its room is used up; `close` restores the lane.

    Attributes:
        room: Remaining passes.
    """

    def __init__(self, lane: Lane, forward: Forward, recording: Recording) -> None:
        """Move a lane's keys and values.

        Args:
            lane: A non-empty lane without shared prompts; unusable until `close`.
            forward: The model.
            recording: If possible, the second pass is recorded.
        """
        self._lane, self._forward, self._recording = lane, forward, recording
        rows, used = lane.mask.shape
        size = -(-(used + AHEAD) // _ALIGNED) * _ALIGNED
        self.room = size - used
        device = lane.mask.device
        self._at = torch.tensor([used], device=device)
        held = lane.cache.layers
        for number, layer in enumerate(held):  # one after another, so that few are held twice
            held[number] = _FixedLayer(layer, used, size, self._at)
        self._layers: list[_FixedLayer] = held
        lane.cache = Cache(layers=held)
        kind = self._layers[0].dtype
        self._mask = torch.full((rows, 1, 1, size), float("-inf"), dtype=kind, device=device)
        self._mask[:, 0, 0, :used].masked_fill_(lane.mask, 0.0)
        self._given = torch.zeros(3, rows, dtype=torch.long, device=device)
        self._seen: list[np.ndarray] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits = torch.empty(0)

    def read(self, fresh: Sequence[Sequence[int]], pad: int) -> torch.Tensor:
        """Process a token, or none, of each conversation.

        Returns:
            Logits after it, ``[rows, vocabulary]``; the next pass may overwrite them.
        """
        given = np.zeros((3, len(fresh)), dtype=np.int64)
        given[0] = pad
        for index, tokens in enumerate(fresh):
            for token in tokens:
                given[:, index] = token, len(self._lane.tokens[index]), 1
                self._lane.tokens[index].append(token)
        self._given.copy_(torch.from_numpy(given))
        self._seen.append(given[2] > 0)
        self.room -= 1
        # The first pass initializes what must not be initialized during recording.
        if self._graph is None and self._recording.is_possible and len(self._seen) > 1:
            self._graph = self._recorded()
        if self._graph is None:
            return self._pass()
        self._graph.replay()
        return self._logits

    def close(self) -> None:
        """Return keys and values to the lane."""
        lane, self._graph = self._lane, None
        if self._seen:
            seen = torch.from_numpy(np.stack(self._seen, axis=1))
            lane.mask = torch.cat([lane.mask, seen.to(lane.mask.device)], dim=1)
        width = lane.mask.shape[1]
        lane.cache = new_cache([layer.roomy(width) for layer in self._layers])

    def _recorded(self) -> torch.cuda.CUDAGraph | None:
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._logits = self._pass()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # some models read a number from the GPU in the midst of a pass
            self._recording.is_possible = False
            return None
        return graph

    def _pass(self) -> torch.Tensor:
        ids, positions, fresh = self._given
        closed = torch.zeros_like(fresh, dtype=self._mask.dtype).masked_fill_(
            fresh == 0, float("-inf")
        )
        self._mask.index_copy_(3, self._at, closed.view(-1, 1, 1, 1))
        logits = self._forward(self._lane.cache, ids[:, None], positions[:, None], self._mask)
        self._at.add_(1)
        return logits


class _FixedLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # its __init_subclass__
    """A cache layer of fixed width; a tensor holds the next column to write."""

    def __init__(self, layer: Any, used: int, size: int, at: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.lazy_initialization(layer.keys, layer.values)
        self.keys, self.values = (
            functional.pad(one[:, :, :used], (0, 0, 0, size - used))
            for one in (layer.keys, layer.values)
        )
        self._at = at

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a column and return all columns."""
        assert self.keys is not None
        assert self.values is not None
        self.keys.index_copy_(2, self._at, key_states)
        self.values.index_copy_(2, self._at, value_states)
        return self.keys, self.values

    def roomy(self, width: int) -> RoomyLayer:
        """Return the first columns as a layer that grows."""
        assert self.keys is not None
        assert self.values is not None
        return RoomyLayer.of(self.keys[:, :, :width], self.values[:, :, :width])


def attend_steady(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    seen: torch.Tensor,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention of one token as the library asks for it; ``seen`` is `Forward`'s mask."""
    rows, heads, _one, width = query.shape
    groups = heads // key.shape[1]
    asked = query.reshape(rows, -1, groups, width)
    mask = seen.expand(rows, key.shape[1], groups, -1)
    mixed = functional.scaled_dot_product_attention(asked, key, value, mask, scale=scaling)
    return mixed.reshape(rows, 1, heads, width), None


AttentionInterface.register(STEADY, attend_steady)
