"""Content-addressed texts and prompts, each stored once.

The digest is that of the original; the stored body has known secrets removed.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from skillwright.core import ContractError, Failure, FailureCause, Message, RunError, Trajectory
from skillwright.core.jsonio import canonical, digest, inflate
from skillwright.core.secrets import Redactor
from skillwright.runs.database import Database

_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def to_json(value: Any) -> str:
    """Return compact JSON for a column; ASCII, because SQLite refuses a model's lone surrogates.

    Raises:
        TypeError: The value is no JSON.
        ValueError: It holds NaN or an infinity.
    """
    return _COMPACT.encode(value)


def storable(text: str) -> str:
    """Escape lone surrogates, which a message may quote from a model and SQLite refuses."""
    return text.encode("utf-8", "backslashreplace").decode()


def failure_columns(failure: Failure | None, redactor: Redactor) -> dict[str, str | None]:
    """Return ``failure_cause`` and ``failure_message``, the message without secrets."""
    if failure is None:
        return {"failure_cause": None, "failure_message": None}
    message = redactor.clean(storable(failure.message))
    return {"failure_cause": failure.cause.value, "failure_message": message}


def read_failure(row: sqlite3.Row) -> Failure | None:
    """Read what `failure_columns` wrote."""
    if row["failure_cause"] is None:
        return None
    return Failure(FailureCause(row["failure_cause"]), row["failure_message"])


def digest_column(digest: str) -> bytes | None:
    """Return a digest's bytes; ``""`` means that there is none."""
    return bytes.fromhex(digest) if digest else None


def read_digest(column: bytes | None) -> str:
    """Read what `digest_column` wrote."""
    return "" if column is None else column.hex()


def contents(messages: Iterable[Message]) -> list[str]:
    """List the text contents of messages."""
    return [text for message in messages if isinstance(text := message.get("content"), str)]


def write_message(message: Message, texts: Mapping[str, int]) -> list[Any]:
    """Return ``[role, content, rest]``, the content as a number where ``texts`` holds it."""
    rest: dict[str, Any] = {**message}
    role, content = rest.pop("role"), None
    if isinstance(rest.get("content"), str):
        content = rest.pop("content")
        content = texts.get(content, content)
    return [role, content, rest] if rest else [role, content]


def read_message(item: Sequence[Any], texts: Mapping[int, str]) -> Message:
    """Read what `write_message` wrote."""
    role, content, *rest = item
    message: dict[str, Any] = {"role": role}
    if content is not None:
        message["content"] = texts[content] if isinstance(content, int) else content
    for more in rest:
        message |= more
    return message  # type: ignore[return-value]  # a TypedDict that was built key by key


def referred_texts(items: Iterable[Sequence[Any]]) -> list[int]:
    """List the numbers of the stored texts that written messages refer to."""
    return [item[1] for item in items if isinstance(item[1], int)]


_LEVEL = 4
"""5% larger than zlib's default level 6, in half the time."""
_SMALL = 16_384
"""Minimum bytes for zlib's largest window."""


class Archive:
    """Texts and prompts of a run.

    Args:
        database: Open database. Writing methods must be called in a transaction.
        redactor: Removes known secrets.
    """

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self.database = database
        self.redactor = redactor

    def put_texts(self, texts: Iterable[str]) -> dict[str, int]:
        """Store texts that are new, and return the number of each."""
        digests = {text: _sha256(text) for text in dict.fromkeys(texts)}
        rows = self.database.rows_in(
            "SELECT digest, id FROM texts WHERE digest IN ({})", digests.values()
        )
        known: dict[bytes, int] = {row["digest"]: row["id"] for row in rows}
        for text, address in digests.items():
            if address not in known:
                body = self.pack(text)
                known[address] = self.database.insert("texts", {"digest": address, "body": body})
        return {text: known[address] for text, address in digests.items()}

    def put_text(self, text: str) -> int:
        """Store one text, and return its number."""
        return self.put_texts([text])[text]

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return texts by number."""
        rows = self.database.rows_in("SELECT id, body FROM texts WHERE id IN ({})", set(ids))
        return {row["id"]: unpack(row["body"]) for row in rows}

    def text(self, text_id: int) -> str:
        """Return one text."""
        return self.texts([text_id])[text_id]

    def put_prompt(self, messages: Sequence[Message]) -> int:
        """Store a prompt if it is new, and return its number."""
        address = bytes.fromhex(digest(list(messages)))
        row = self.database.row("SELECT id FROM prompts WHERE digest = ?", (address,))
        if row is not None:
            return int(row["id"])
        texts = self.put_texts(contents(messages))
        body = self.redactor.exact(to_json([write_message(one, texts) for one in messages]))
        return self.database.insert("prompts", {"digest": address, "messages": body})

    def prompt(self, prompt_digest: str) -> tuple[Message, ...]:
        """Return a prompt by the digest of its messages (`core.jsonio.digest`).

        Raises:
            RunError: There is none.
        """
        address = bytes.fromhex(prompt_digest)
        row = self.database.row("SELECT messages FROM prompts WHERE digest = ?", (address,))
        if row is None:
            raise RunError(f"{str(self.database.path)!r} holds no prompt {prompt_digest!r}")
        items = json.loads(row["messages"])
        texts = self.texts(referred_texts(items))
        return tuple(read_message(item, texts) for item in items)

    def pack(self, text: str) -> bytes:
        """Remove known secrets from a text, and compress it."""
        body = self.redactor.exact(text).encode("utf-8", "surrogatepass")
        # For a text of 1 KB, clearing those tables takes five times as long as compressing it.
        window, memory = (13, 6) if len(body) < _SMALL else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
        packer = zlib.compressobj(level=_LEVEL, wbits=window, memLevel=memory)
        return packer.compress(body) + packer.flush()


class RunTable:
    """A part of a run's store.

    Args:
        archive: Stores the texts that rows refer to.
        clock: Returns seconds since 1970.
    """

    def __init__(self, archive: Archive, clock: Callable[[], float]) -> None:
        self._archive = archive
        self._database = archive.database
        self._clock = clock


def unpack(body: bytes) -> str:
    """Read what `Archive.pack` wrote."""
    return inflate(body, "a text of this run").decode("utf-8", "surrogatepass")


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


# A trajectory as one JSON text, and back, equal to what it was.
#
# Every message is written once: a prompt says how many messages it keeps of the prompt before it
# and which ones follow. Those of the first prompt, which many episodes share, refer to texts of the
# run. The JSON is ``{"metadata": [at the start, per turn...], "messages": [...], "turns": [[prompt,
# output, observation, reply], ...]}``. Seeds, rewards and usage are columns of the turns.


class Said(NamedTuple):
    """The texts of one turn."""

    prompt: tuple[Message, ...]
    output: str
    observation: str
    messages: tuple[Message, ...]
    metadata: dict[str, Any]


def shared_texts(trajectory: Trajectory) -> list[str]:
    """List the texts that other episodes probably share."""
    return contents(trajectory.turns[0].prompt) if trajectory.turns else []


def write_trajectory(trajectory: Trajectory, texts: Mapping[str, int]) -> tuple[str, list[bytes]]:
    """Write a trajectory without its opening.

    Args:
        trajectory: What happened.
        texts: Numbers of stored texts; others are written out.

    Returns:
        JSON text, and the SHA-256 of each turn's prompt (`core.jsonio.digest`).

    Raises:
        ContractError: The environment reported values that are no JSON.
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
        # Most repeated messages are the same object, which needs no comparison.
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
    """The prompts of a trajectory, each as its difference from the one before."""

    def __init__(self, pool: _Pool) -> None:
        self.digests: list[bytes] = []
        self._pool = pool
        self._before: tuple[Message, ...] = ()
        # The canonical JSON of a list is that of its items with commas between, so the hash of a
        # prompt continues from that of what it keeps: state i has seen i messages.
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
