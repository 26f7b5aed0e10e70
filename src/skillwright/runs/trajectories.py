"""A trajectory as one JSON text, and back, equal to what it was.

Every message is written once: a prompt says how many messages it keeps of the prompt before it and
which ones follow. Those of the first prompt, which many episodes share, refer to texts of the run.
The JSON is ``{"metadata": [at the start, per turn...], "messages": [...], "turns": [[prompt,
output, observation, reply], ...]}``. Seeds, rewards and usage are columns of the turns.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from skillwright.core import ContractError, Message, Trajectory
from skillwright.core.jsonio import canonical
from skillwright.runs.columns import to_json
from skillwright.runs.messages import contents, read_message, referred_texts, write_message


class Said(NamedTuple):
    """What was said in one turn."""

    prompt: tuple[Message, ...]
    output: str
    observation: str
    messages: tuple[Message, ...]
    metadata: dict[str, Any]


def shared_texts(trajectory: Trajectory) -> list[str]:
    """List the texts that other episodes are likely to hold too."""
    return contents(trajectory.turns[0].prompt) if trajectory.turns else []


def write_trajectory(trajectory: Trajectory, texts: Mapping[str, int]) -> tuple[str, list[bytes]]:
    """Write a trajectory without its opening.

    Args:
        trajectory: What happened.
        texts: Numbers of stored texts; others are written out.

    Returns:
        JSON text, and the SHA-256 of each turn's prompt (`core.jsonio.digest`).

    Raises:
        ContractError: The environment reported what JSON cannot carry.
    """
    pool = _Pool(texts)
    prompts = _Prompts(pool)
    turns = [
        (prompts.add(turn.prompt), turn.act.text, turn.observation, pool.add_all(turn.messages))
        for turn in trajectory.turns
    ]
    metadata = [dict(part) for part in _metadata(trajectory)]
    try:
        body = to_json({"metadata": metadata, "messages": pool.items, "turns": turns})
    except (TypeError, ValueError) as error:
        raise ContractError(f"{_where(trajectory)} cannot be stored ({error})") from error
    return body, prompts.digests


def stored_texts(body: Mapping[str, Any]) -> list[int]:
    """List the numbers of the stored texts that a written trajectory refers to."""
    return referred_texts(body["messages"])


def read_trajectory(
    body: Mapping[str, Any], texts: Mapping[int, str]
) -> tuple[dict[str, Any], list[Said]]:
    """Read what `write_trajectory` wrote.

    Returns:
        The metadata at the start, and what was said in each turn.
    """
    pool = [read_message(item, texts) for item in body["messages"]]
    start, *metadata = body["metadata"]
    said = []
    prompt: tuple[Message, ...] = ()
    for (kept_and_new, output, observation, reply), reported in zip(
        body["turns"], metadata, strict=True
    ):
        kept, *new = kept_and_new
        prompt = prompt[:kept] + tuple(pool[index] for index in new)
        messages = tuple(pool[index] for index in reply)
        said.append(Said(prompt, output, observation, messages, reported))
    return start, said


class _Pool:
    """Every message of a trajectory, once."""

    def __init__(self, texts: Mapping[str, int]) -> None:
        self.items: list[list[Any]] = []
        self.canonical: list[str] = []
        self._texts = texts
        self._by_object: dict[int, int] = {}
        self._by_content: dict[str, int] = {}

    def add(self, message: Message) -> int:
        """Return the index of a message."""
        # Most messages come again as the very same object, whose content need not be looked at.
        found = self._by_object.get(id(message))
        if found is not None:
            return found
        content = canonical(message)
        index = self._by_content.setdefault(content, len(self.items))
        if index == len(self.items):
            self.items.append(write_message(message, self._texts))
            self.canonical.append(content)
        self._by_object[id(message)] = index
        return index

    def add_all(self, messages: Sequence[Message]) -> list[int]:
        """Return the indices of messages."""
        return [self.add(message) for message in messages]


class _Prompts:
    """The prompts of a trajectory, each told by its difference from the one before."""

    def __init__(self, pool: _Pool) -> None:
        self.digests: list[bytes] = []
        self._pool = pool
        self._before: tuple[Message, ...] = ()
        # The canonical JSON of a list is that of its items with commas between, so the hash of a
        # prompt goes on from that of what it keeps: state i has seen i messages.
        self._states = [hashlib.sha256(b"[")]

    def add(self, prompt: Sequence[Message]) -> list[int]:
        """Return how many messages are kept of the prompt before, and which ones follow."""
        shown = tuple(prompt)
        kept = _common(self._before, shown)
        new = self._pool.add_all(shown[kept:])
        del self._states[kept + 1 :]
        for place, index in enumerate(new, start=kept):
            state = self._states[-1].copy()
            text = f",{self._pool.canonical[index]}" if place else self._pool.canonical[index]
            state.update(text.encode("utf-8", "surrogatepass"))
            self._states.append(state)
        whole = self._states[-1].copy()
        whole.update(b"]")
        self.digests.append(whole.digest())
        self._before = shown
        return [kept, *new]


def _common(before: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    if now[: len(before)] == before:
        return len(before)
    differ = (at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old != new)
    return next(differ, min(len(before), len(now)))


def _metadata(trajectory: Trajectory) -> list[Mapping[str, Any]]:
    return [trajectory.metadata, *(turn.metadata for turn in trajectory.turns)]


def _where(trajectory: Trajectory) -> str:
    """Name the part of a trajectory that is no JSON."""
    for place, part in enumerate(_metadata(trajectory)):
        try:
            to_json(dict(part))
        except (TypeError, ValueError):
            return f"the metadata of turn {place - 1}" if place else "the metadata at the start"
    return "a message"
