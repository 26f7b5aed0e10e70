"""Continuous batching: conversations join the batch at any token.

Tokens are sampled as in `HfPolicy.sample`, by each conversation's own seed; other conversations in
the batch change only the last bits of the logits.
"""

import random
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from skillwright.core import SkillwrightError
from skillwright.policy.hf.policy import HfPolicy
from skillwright.policy.hf.sampling import Answer, Decoding, Lane, choose


@dataclass(frozen=True, slots=True)
class Wanted:
    """A requested answer.

    Attributes:
        prompt: Tokens of the conversation.
        longest: Maximum tokens of the answer, at least 1.
        temperature: At least 0; 0 is greedy.
        top_p: Nucleus sampling, in (0, 1].
        seed: Sampling seed.
        alternatives: Number of most likely tokens to report per position, with probabilities.
    """

    prompt: tuple[int, ...]
    longest: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    alternatives: int = 0


class Spoken(NamedTuple):
    """A token of an answer.

    Attributes:
        token: Id.
        logprob: Natural log-probability under the sampling distribution.
        alternatives: Most likely (id, log-probability), itself included.
        is_last: Whether the answer ends with it.
    """

    token: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...]
    is_last: bool


Hear = Callable[[Spoken | Exception], None]
"""Receives each token or the final error, in the batch's thread; it must not block."""


@dataclass(eq=False, slots=True)
class Ticket:
    """An answer in progress; clear ``is_wanted`` to stop it."""

    wanted: Wanted
    hear: Hear
    answer: Answer
    is_wanted: bool = True


class Closed(SkillwrightError):
    """The batch ended before the answer did."""


@dataclass(eq=False)
class ContinuousBatch:
    """Samples answers in a thread of its own until it is closed.

    Models with sliding-window attention cannot add a conversation to a running batch; new ones
    wait for the end of the batch.

    Attributes:
        policy: Policy that answers; it may not be sampled from or trained elsewhere meanwhile.
        rows: Concurrent conversations.
    """

    policy: HfPolicy
    rows: int
    _waiting: deque[Ticket] = field(default_factory=deque)
    _live: list[Ticket] = field(default_factory=list)
    _lane: Lane | None = None
    _has_changed: bool = False
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)
        self._thread.start()

    def ask(self, wanted: Wanted, hear: Hear) -> Ticket:
        """Request an answer, or raise `Closed`."""
        ticket = Ticket(wanted, hear, Answer(random.Random(wanted.seed), None))
        with self._changed:
            if self._is_closed:
                raise Closed("the policy is not served any more")
            self._waiting.append(ticket)
            self._changed.notify()
        return ticket

    def close(self) -> None:
        """End the thread after the current token; answers in progress get `Closed`."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while self._gather():
            try:
                with self.policy.sampling():
                    self._step()
            except Exception as fault:  # noqa: BLE001 - passed to the callers that wait
                self._fail(fault)
        self._fail(Closed("the policy is not served any more"))

    def _gather(self) -> bool:
        """Add waiting requests and remove finished ones; wait while there are none."""
        with self._changed:
            live = [one for one in self._live if one.is_wanted and not one.answer.done]
            if live and not self.policy.attends_to_all:
                live = self._live
            while not (self._is_closed or live or self._waiting):
                self._changed.wait()
            joins = self.policy.attends_to_all or not live
            while joins and self._waiting and len(live) < self.rows:
                if (one := self._waiting.popleft()).is_wanted:
                    live.append(one)
            self._has_changed = self._has_changed or live != self._live
            self._live = live
            return not self._is_closed

    def _reopened(self, live: Sequence[Ticket]) -> Lane:
        """Return a lane for these conversations, which reuses their computed prefixes."""
        texts = [(*one.wanted.prompt, *one.answer.token_ids) for one in live]
        if self._lane is None or not self.policy.attends_to_all:
            new = self.policy.new_lane()
            lane = Lane.empty(new.cache, len(live), new.mask.device)
        else:
            lane = self._lane.reopened(texts)
        for one, text, known in zip(live, texts, lane.tokens, strict=True):
            if not one.answer.token_ids:
                one.answer.cached = len(known)
            one.answer.fresh = list(text[len(known) :])
        return lane

    def _step(self) -> None:
        """Process new tokens, and sample the next token of every answer."""
        live = self._live
        if not live:
            return
        if self._has_changed or self._lane is None:
            self._lane, self._has_changed = self._reopened(live), False
        lane = self._lane
        pad = self.policy.speech.end_id
        fresh = [[] if one.answer.done else one.answer.fresh for one in live]
        logits = self.policy.read(lane, *lane.extend(fresh, pad))
        groups: dict[float, list[int]] = defaultdict(list)
        for index, one in enumerate(live):
            one.answer.fresh = []
            if not one.answer.done:
                groups[one.wanted.temperature].append(index)
        for temperature, rows in groups.items():
            self._draw([live[row] for row in rows], logits[rows], temperature)

    def _draw(self, asked: Sequence[Ticket], logits: torch.Tensor, temperature: float) -> None:
        exact = logits.float() if logits.dtype == torch.bfloat16 else logits
        scaled = exact / (temperature or 1.0)
        kept = _likeliest(scaled, [one.wanted.top_p for one in asked])
        decoding = Decoding(1.0 if temperature else 0.0, self.policy.speech.stop_ids, 1, 0)
        choose(kept, [one.answer for one in asked], decoding)
        most = max(one.wanted.alternatives for one in asked)
        named: list[list[tuple[int, float]]] = [[] for _ in asked]
        if most:
            values, ids = torch.log_softmax(kept, dim=-1).topk(min(most, kept.shape[1]))
            named = [
                list(zip(*pair, strict=True))
                for pair in zip(ids.tolist(), values.tolist(), strict=True)
            ]
        for one, others in zip(asked, named, strict=True):
            answer = one.answer
            answer.done = answer.done or len(answer.token_ids) >= one.wanted.longest
            said = tuple(others[: one.wanted.alternatives])
            if one.is_wanted:
                one.hear(Spoken(answer.token_ids[-1], answer.logprobs[-1], said, answer.done))

    def _fail(self, fault: Exception) -> None:
        """Send an error to all answers in progress, and reset the batch."""
        with self._changed:
            failed = [one for one in (*self._live, *self._waiting) if not one.answer.done]
            self._live, self._lane = [], None
            self._waiting.clear()
        for one in failed:
            one.hear(fault)


def _likeliest(scaled: torch.Tensor, top_p: Sequence[float]) -> torch.Tensor:
    """Keep the most likely tokens with a total probability of ``top_p`` per row, at least one."""
    if all(share >= 1.0 for share in top_p):
        return scaled
    ordered, order = scaled.sort(dim=-1, descending=True)
    share = torch.softmax(ordered, dim=-1)
    before = share.cumsum(dim=-1) - share
    unlikely = before >= torch.tensor(top_p, device=scaled.device)[:, None]
    unlikely[:, 0] = False
    return scaled.masked_fill(unlikely.scatter(-1, order, unlikely), float("-inf"))
