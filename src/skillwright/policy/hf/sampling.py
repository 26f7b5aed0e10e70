"""Generate answers token by token for many conversations at once.

One uniform number per token, from the conversation's own seed, picks the token, so a sample does
not depend on the batch, except for the last bits of the logits.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer

from skillwright.core import ContractError
from skillwright.policy.hf.shared import SharedPrompts
from skillwright.policy.hf.tokens import Node

_ROOM = 64
_WORTH_SETTING_UP = 16  # tokens


class RoomyLayer(DynamicLayer):  # type: ignore[no-untyped-call]  # its __init_subclass__
    """A cache layer that grows in place: the library's layer is copied for every token."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append keys and values and return all of them."""
        used = 0 if self.keys is None or not self.is_initialized else self.keys.shape[-2]
        size = used + key_states.shape[-2]
        room = getattr(self, "_room", None)
        if room is None or room[0].shape[-2] < size:
            room = self._more_room(key_states, value_states, used, size)
        room[0][:, :, used:size] = key_states
        room[1][:, :, used:size] = value_states
        self.keys, self.values = room[0][:, :, :size], room[1][:, :, :size]
        return self.keys, self.values

    @classmethod
    def of(cls, keys: torch.Tensor, values: torch.Tensor) -> "RoomyLayer":
        """Return a layer with these keys and values."""
        layer = cls()
        layer.lazy_initialization(keys, values)
        layer.keys, layer.values = keys, values
        return layer

    def taken(self, index: torch.Tensor) -> "RoomyLayer":
        """Return a layer of the indexed conversations, which may repeat."""
        if self.keys is None or self.values is None:
            raise RuntimeError("a layer is read before it is shared out")
        return RoomyLayer.of(self.keys[index], self.values[index])

    def _more_room(
        self, key_states: torch.Tensor, value_states: torch.Tensor, used: int, size: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rooms = []
        for new, old in ((key_states, self.keys), (value_states, self.values)):
            shape = (*new.shape[:2], size + size // 4 + _ROOM, new.shape[-1])
            # Zeros, because a masked column is still multiplied by its zero probability.
            space = torch.zeros(shape, dtype=new.dtype, device=new.device)
            if old is not None and used:
                space[:, :, :used] = old
            rooms.append(space)
        self._room = (rooms[0], rooms[1])
        return self._room


class Lane:
    """Conversations that are processed side by side.

    Each has its own tokens; they share the columns of the cache, and a mask marks the columns of
    each conversation. Positions count a conversation's own tokens, so gaps do not matter.

    Attributes:
        cache: The library's cache.
        tokens: Cached tokens per conversation.
        mask: ``[conversations, columns]``, true where a column holds a token.
        shared: Prompts that several conversations continue; cache and mask then hold the rest.
    """

    def __init__(self, cache: Any, tokens: list[list[int]], mask: torch.Tensor) -> None:
        self.cache = cache
        self.tokens = tokens
        self.mask = mask
        self.shared: SharedPrompts | None = None

    @classmethod
    def empty(cls, cache: Any, size: int, device: torch.device) -> "Lane":
        """Return a lane of empty conversations."""
        mask = torch.zeros(size, 0, dtype=torch.bool, device=device)
        return cls(cache, [[] for _ in range(size)], mask)

    def reopened(self, prompts: Sequence[Sequence[int]]) -> "Lane":
        """Return a lane for these prompts that reuses what is cached.

        Each takes the longest prefix of any conversation of this lane, without the prompt's last
        token, which must be processed for the first answer.
        """
        self._gather()
        sources, kept = self._beginnings(prompts)
        width = max(kept)
        columns = torch.zeros(len(prompts), width, dtype=torch.long)
        held = self.mask.cpu().numpy()
        places = {source: np.flatnonzero(held[source]) for source in set(sources)}
        for index, (source, size) in enumerate(zip(sources, kept, strict=True)):
            columns[index, :size] = torch.from_numpy(places[source][:size])
        device = self.mask.device
        rows, at = torch.tensor(sources, device=device)[:, None], columns.to(device)
        layers: list[RoomyLayer] = []
        for layer in self.cache.layers if width else ():
            # Indexed on both sides of the heads, so that those come last and are moved back.
            keys = layer.keys[rows, :, at].transpose(1, 2).contiguous()
            values = layer.values[rows, :, at].transpose(1, 2).contiguous()
            layers.append(RoomyLayer.of(keys, values))
        # An empty lane keeps the cache type of its model.
        cache = new_cache(layers) if any(self.tokens) else self.cache
        sizes = torch.tensor(kept, device=device)[:, None]
        mask = torch.arange(width, device=device)[None, :] < sizes
        pairs = zip(prompts, kept, strict=True)
        return Lane(cache, [list(prompt[:size]) for prompt, size in pairs], mask)

    def spread(self, where: Sequence[int], *, share: bool) -> None:
        """Split conversations into several that continue from them.

        Args:
            where: Index of the source of each new conversation.
            share: Store a common prompt once instead of per conversation.
        """
        if list(where) == list(range(len(self.tokens))):
            return
        self.tokens, tokens = [list(self.tokens[source]) for source in where], self.tokens
        if share and len(where) > len(tokens):
            layers = [(layer.keys, layer.values) for layer in self.cache.layers]
            self.shared = SharedPrompts.of(layers, self.mask, where)
            self.cache, self.mask = new_cache(), self.mask.new_zeros(len(where), 0)
            return
        index = torch.tensor(where, device=self.mask.device)
        for number, layer in enumerate(self.cache.layers):
            if isinstance(layer, RoomyLayer):
                self.cache.layers[number] = layer.taken(index)
            else:
                layer.reorder_cache(index)
        self.mask = self.mask[index]

    def _gather(self) -> None:
        """Copy shared prompts into every conversation."""
        shared, self.shared = self.shared, None
        if shared is None:
            return
        layers = []
        for number, (keys, values) in enumerate(shared.layers):
            pair = keys[shared.sources], values[shared.sources]
            if self.mask.shape[1]:
                own = self.cache.layers[number]
                pair = torch.cat([pair[0], own.keys], 2), torch.cat([pair[1], own.values], 2)
            layers.append(RoomyLayer.of(*pair))
        self.cache = new_cache(layers)
        self.mask = torch.cat([shared.mask[shared.sources], self.mask], dim=1)

    def extend(self, new: Sequence[Sequence[int]], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Append new tokens and return the model's inputs.

        Returns:
            Token ids, and their positions in their conversations, ``[conversations, longest]``:
            aligned at the end, so the last column is every conversation's latest token.
        """
        longest = max(map(len, new))
        # Filled by numpy: a tensor per conversation and token would be slower than tiny models.
        ids = np.full((len(new), longest), pad, dtype=np.int64)
        positions = np.zeros((len(new), longest), dtype=np.int64)
        fresh = np.zeros((len(new), longest), dtype=bool)
        for index, tokens in enumerate(new):
            if size := len(tokens):
                begin = len(self.tokens[index])
                ids[index, -size:] = tokens
                positions[index, -size:] = np.arange(begin, begin + size)
                fresh[index, -size:] = True
                self.tokens[index].extend(tokens)
        device = self.mask.device
        self.mask = torch.cat([self.mask, torch.from_numpy(fresh).to(device)], dim=1)
        return torch.from_numpy(ids).to(device), torch.from_numpy(positions).to(device)

    def _beginnings(self, prompts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return for each prompt the conversation to reuse, and how many of its tokens."""
        width = max(map(len, self.tokens))
        known = np.full((len(self.tokens), width), -1, dtype=np.int64)
        for index, tokens in enumerate(self.tokens):
            known[index, : len(tokens)] = tokens
        sources, kept = [], []
        for prompt in prompts:
            # All but the last token, which is needed for the answer.
            size = min(width, len(prompt) - 1)
            same = known[:, :size] == np.asarray(prompt[:size], dtype=np.int64)
            lengths = np.where(same.all(axis=1), size, same.argmin(axis=1)) if size else [0]
            best = int(np.argmax(lengths))
            sources.append(best)
            kept.append(int(lengths[best]))
        return sources, kept


def new_cache(layers: Sequence[RoomyLayer] = ()) -> Any:
    """Return a growing cache, optionally with these layers."""
    if layers:
        return Cache(layers=list(layers))
    return Cache(layer_class_to_replicate=RoomyLayer)


def windowed_cache(config: Any) -> Any:
    """Return an empty cache for a model with windowed or recurrent layers."""
    return DynamicCache(config=config)


def attends_to_all(config: Any) -> bool:
    """Return whether every layer attends to all previous tokens (no window, no recurrence).

    Only then may columns be skipped, and a conversation be cut back to a prefix.
    """
    inner = config.get_text_config(decoder=True)
    kinds = getattr(inner, "layer_types", None)
    if kinds is not None:
        return set(kinds) == {"full_attention"}
    return getattr(inner, "sliding_window", None) is None


Read = Callable[[Lane, torch.Tensor, torch.Tensor], torch.Tensor]
"""Reads new tokens at their positions and returns the logits behind the last, [rows, vocabulary]"""


class Passes(Protocol):
    """A faster way to process single tokens; see `skillwright.policy.hf.steady`."""

    room: int
    """Number of remaining reads."""

    def read(self, fresh: Sequence[Sequence[int]], pad: int) -> torch.Tensor:
        """Process a token, or none, of each conversation; return the logits."""

    def close(self) -> None:
        """Return the cache to the lane."""


Begin = Callable[[Lane], Passes | None]
"""Returns that way for a lane, or ``None`` where there is none."""


_NOT_A_NUMBER = (
    "a probability that the model gives is not a number, so its weights or its precision are "
    "broken: go back to the last checkpoint, or set policy.precision to float32"
)


@dataclass(slots=True)
class Answer:
    """An unfinished answer.

    Attributes:
        rng: Yields one number per chosen token.
        node: Position in the tree of admissible answers; ``None`` without a tree.
        token_ids: Tokens so far.
        logprobs: Log-probability of each token among the allowed ones.
        allowed: Choices of each token.
        fresh: Tokens that the model has not processed.
        cached: Cached tokens of the prompt.
    """

    rng: random.Random
    node: Node | None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    allowed: list[tuple[int, ...] | None] = field(default_factory=list)
    done: bool = False
    fresh: list[int] = field(default_factory=list)
    cached: int = 0

    @property
    def open(self) -> bool:
        """Whether the next token can be chosen."""
        return not (self.done or self.fresh)

    def take(self, token: int, logprob: float, stop_ids: frozenset[int]) -> None:
        """Append a token, and all tokens without a choice after it."""
        self._say(token, logprob)
        while self.node is not None and len(self.node.children) == 1:
            self._say(next(iter(self.node.children)), 0.0)
        # In a tree, an answer ends at a leaf, which is its stop token.
        self.done = token in stop_ids if self.node is None else not self.node.children

    def _say(self, token: int, logprob: float) -> None:
        self.token_ids.append(token)
        self.logprobs.append(logprob)
        self.fresh.append(token)
        self.allowed.append(None if self.node is None else self.node.allowed)
        if self.node is not None:
            self.node = self.node.children[token]


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding settings.

    Attributes:
        temperature: At least 0; 0 takes the most likely token, and records probabilities of
            temperature 1.
        stop_ids: Tokens that end an answer outside a tree.
        longest: Most tokens of an answer outside a tree.
        pad: Id of the padding token.
        in_step: Process one token of every answer at a time: a sliding window counts columns, so
            conversations must not have gaps.
        share: Store a prompt once for all its answers, if the model's attention allows it.
    """

    temperature: float
    stop_ids: frozenset[int]
    longest: int
    pad: int
    in_step: bool = False
    share: bool = False


EngineAnswer = tuple[tuple[int, ...], tuple[float, ...]]
"""Token ids, and their log-probabilities at the temperature of sampling, NaN where unknown."""


class SamplingEngine(Protocol):
    """An engine that samples for the policy, from the entry points ``skillwright.samplers``."""

    def answers(
        self,
        digest: str,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        temperature: float,
    ) -> list[EngineAnswer]:
        """Return an answer to each prompt, in order, of at least one token.

        Args:
            digest: Digest of the policy's current weights, which the engine must use.
            prompts: Token ids.
            seeds: One per prompt.
            temperature: At least 0; 0 takes the most likely token.
        """


def answer_all(
    lane: Lane,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Answer],
    read: Read,
    decoding: Decoding,
    begin: Begin | None = None,
) -> Lane:
    """Finish every answer; equal prompts are processed once.

    Args:
        lane: Cached conversations.
        prompts: The prompt of each answer.
        answers: The answers to finish.
        read: The model.
        decoding: Decoding settings.
        begin: Starts faster passes for unrestricted answers, or ``None``.

    Returns:
        The lane with all conversations, for the next turn.
    """
    unique = list(dict.fromkeys(map(tuple, prompts)))
    where = {prompt: index for index, prompt in enumerate(unique)}
    lane = lane.reopened(unique)
    for answer, prompt in zip(answers, prompts, strict=True):
        answer.cached = len(lane.tokens[where[tuple(prompt)]])
    rest = [prompt[len(read_) :] for prompt, read_ in zip(unique, lane.tokens, strict=True)]
    logits = read(lane, *lane.extend(rest, decoding.pad))
    sources = [where[tuple(prompt)] for prompt in prompts]
    lane.spread(sources, share=decoding.share)
    logits = logits[torch.tensor(sources, device=logits.device)]
    passes: Passes | None = None
    # Setup takes as long as some tokens, and commands are short.
    if any(answer.node is not None for answer in answers) or decoding.longest < _WORTH_SETTING_UP:
        begin = None
    while True:
        choose(logits, answers, decoding)
        is_done = _all_done(answers, decoding)
        if passes is not None and (is_done or not passes.room):
            passes.close()
            passes = None
        if is_done:
            return lane
        if begin is not None and passes is None:
            passes = begin(lane)
        size = 1 if decoding.in_step else None
        fresh = [[] if answer.done else answer.fresh[:size] for answer in answers]
        if passes is None:
            logits = read(lane, *lane.extend(fresh, decoding.pad))
        else:
            logits = passes.read(fresh, decoding.pad)
        for answer, taken in zip(answers, fresh, strict=True):
            answer.fresh = answer.fresh[len(taken) :]


def _all_done(answers: Sequence[Answer], decoding: Decoding) -> bool:
    """Cut answers at the limit, and return whether all are done."""
    for answer in answers:
        if answer.node is None and len(answer.token_ids) >= decoding.longest:
            answer.done = True
    return all(answer.done for answer in answers)


def choose(logits: torch.Tensor, answers: Sequence[Answer], decoding: Decoding) -> None:
    """Choose the next token of every open answer."""
    temperature = decoding.temperature
    scaled = logits.float() if logits.dtype == torch.bfloat16 else logits
    if temperature > 0:
        scaled = scaled / temperature
    scaled = _held(scaled, answers)
    logprobs = torch.log_softmax(scaled, dim=-1)
    if temperature > 0:
        draws = [answer.rng.random() if answer.open else 0.0 for answer in answers]
        chosen = _drawn(logprobs, draws)
    else:
        chosen = logprobs.argmax(dim=-1)
    picked = logprobs.gather(1, chosen[:, None])[:, 0]
    # One transfer for both; ids are exact in double precision.
    tokens, values = torch.stack([chosen.double(), picked.double()]).tolist()
    for answer, number, logprob in zip(answers, tokens, values, strict=True):
        if answer.open:
            if not math.isfinite(logprob):
                raise ContractError(_NOT_A_NUMBER)
            answer.take(int(number), logprob, decoding.stop_ids)


def _held(scaled: torch.Tensor, answers: Sequence[Answer]) -> torch.Tensor:
    """Mask all tokens but the allowed ones."""
    rows: list[int] = []
    columns: list[int] = []
    free = torch.ones(len(answers), dtype=torch.bool)
    for index, answer in enumerate(answers):
        if answer.node is not None and answer.open:
            allowed = answer.node.allowed
            rows += [index] * len(allowed)
            columns += allowed
            free[index] = False
    if not rows:
        return scaled
    open_ = free[:, None].expand(scaled.shape).clone()
    open_[torch.tensor(rows), torch.tensor(columns)] = True
    return scaled.masked_fill(~open_.to(scaled.device), float("-inf"))


def _drawn(logprobs: torch.Tensor, draws: Sequence[float]) -> torch.Tensor:
    """Return the position of each number among the cumulative probabilities."""
    # Double precision: single precision would shift the boundaries in a large vocabulary.
    reached = logprobs.double().exp().cumsum(dim=-1)
    numbers = torch.tensor(draws, dtype=torch.float64, device=logprobs.device)[:, None]
    found = torch.searchsorted(reached, numbers * reached[:, -1:], right=True)[:, 0]
    return found.clamp(max=logprobs.shape[1] - 1)
