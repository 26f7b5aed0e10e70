"""Answers, token by token, for many conversations at once.

One uniform number per token, from the conversation's own seed, picks the token: a sample does
not depend on who else is sampled, but for the last bits of the logits.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from skillwright.core import ContractError
from skillwright.policy.hf.cache import Lane
from skillwright.policy.hf.tokens import Node

Read = Callable[[Lane, torch.Tensor, torch.Tensor], torch.Tensor]
"""Reads new tokens at their positions and returns the logits behind the last, [rows, vocabulary]"""


_NOT_A_NUMBER = (
    "a probability that the model gives is not a number, so its weights or its precision are "
    "broken: go back to the last checkpoint, or set policy.precision to float32"
)


@dataclass(slots=True)
class Answer:
    """An answer on its way.

    Attributes:
        luck: Draws one number per chosen token.
        node: Where the answer stands in the tree of admissible ones; ``None`` for no tree.
        token_ids: What is said so far.
        logprobs: Of every token, among those that were allowed.
        allowed: What every token was chosen from.
        done: Whether it has ended.
        fresh: Tokens that the model has not read.
        cached: Tokens of the prompt that had been read before.
    """

    luck: random.Random
    node: Node | None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    allowed: list[tuple[int, ...] | None] = field(default_factory=list)
    done: bool = False
    fresh: list[int] = field(default_factory=list)
    cached: int = 0

    @property
    def open(self) -> bool:
        """Whether the next token is to be chosen."""
        return not (self.done or self.fresh)

    def take(self, token: int, logprob: float, stop_ids: frozenset[int]) -> None:
        """Say a token, and behind it whatever leaves no choice."""
        self._say(token, logprob)
        while self.node is not None and len(self.node.children) == 1:
            self._say(next(iter(self.node.children)), 0.0)
        # In a tree an answer ends where nothing follows; the stop token stands there.
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
    """How answers are drawn.

    Attributes:
        temperature: At least 0; 0 takes the likeliest, and notes probabilities of temperature 1.
        stop_ids: Tokens that end an answer outside a tree.
        longest: Tokens after which an answer outside a tree is cut.
        pad: A token id that stands for nothing.
        in_step: Read one token of every answer at a time. A sliding window counts columns, so a
            conversation must not have gaps there.
    """

    temperature: float
    stop_ids: frozenset[int]
    longest: int
    pad: int
    in_step: bool = False


def answer_all(
    lane: Lane,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Answer],
    read: Read,
    decoding: Decoding,
) -> Lane:
    """Finish every answer; equal prompts are read once.

    Returns:
        What is read by now, for the next turn.
    """
    unique = list(dict.fromkeys(map(tuple, prompts)))
    where = {prompt: index for index, prompt in enumerate(unique)}
    lane = lane.reopened(unique)
    for answer, prompt in zip(answers, prompts, strict=True):
        answer.cached = len(lane.tokens[where[tuple(prompt)]])
    rest = [prompt[len(read_) :] for prompt, read_ in zip(unique, lane.tokens, strict=True)]
    logits = read(lane, *lane.extend(rest, decoding.pad))
    sources = [where[tuple(prompt)] for prompt in prompts]
    lane.spread(sources)
    logits = logits[torch.tensor(sources, device=logits.device)]
    while True:
        choose(logits, answers, decoding)
        for answer in answers:
            if answer.node is None and len(answer.token_ids) >= decoding.longest:
                answer.done = True
        if all(answer.done for answer in answers):
            return lane
        size = 1 if decoding.in_step else None
        fresh = [[] if answer.done else answer.fresh[:size] for answer in answers]
        logits = read(lane, *lane.extend(fresh, decoding.pad))
        for answer, told in zip(answers, fresh, strict=True):
            answer.fresh = answer.fresh[len(told) :]


def choose(logits: torch.Tensor, answers: Sequence[Answer], decoding: Decoding) -> None:
    """Say the next token of every answer that has not ended and is read."""
    temperature = decoding.temperature
    scaled = logits.float() if logits.dtype == torch.bfloat16 else logits
    if temperature > 0:
        scaled = scaled / temperature
    scaled = _held(scaled, answers)
    logprobs = torch.log_softmax(scaled, dim=-1)
    if temperature > 0:
        draws = [answer.luck.random() if answer.open else 0.0 for answer in answers]
        chosen = _drawn(logprobs, draws)
    else:
        chosen = logprobs.argmax(dim=-1)
    picked = logprobs.gather(1, chosen[:, None])[:, 0]
    for answer, token, logprob in zip(answers, chosen.tolist(), picked.tolist(), strict=True):
        if answer.open:
            if not math.isfinite(logprob):
                raise ContractError(_NOT_A_NUMBER)
            answer.take(token, logprob, decoding.stop_ids)


def _held(scaled: torch.Tensor, answers: Sequence[Answer]) -> torch.Tensor:
    """Leave only the tokens that may come next."""
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
    """Return where each number falls among the cumulated probabilities."""
    # Double precision: in single, the sum over a large vocabulary would move the borders.
    reached = logprobs.double().exp().cumsum(dim=-1)
    numbers = torch.tensor(draws, dtype=torch.float64, device=logprobs.device)[:, None]
    found = torch.searchsorted(reached, numbers * reached[:, -1:], right=True)[:, 0]
    return found.clamp(max=logprobs.shape[1] - 1)
