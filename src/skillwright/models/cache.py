"""A cache of replies across runs: equal requests to the same model are paid for once.

Requests without a seed are numbered per process, so that repeated requests get different answers.
"""

import asyncio
import logging
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import orjson

from skillwright.core import (
    ChatModel,
    Completion,
    ConfigError,
    DataError,
    Message,
    Purpose,
    Sampling,
    TokenLogprob,
    ToolCall,
    Usage,
)
from skillwright.core.chat import question
from skillwright.core.jsonio import digest, inflate
from skillwright.core.secrets import Redactor, environment_secrets

logger = logging.getLogger(__name__)

_APPLICATION_ID = 0x534B5743
_WAIT_S = 30.0
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    key BLOB PRIMARY KEY,  -- SHA-256 of the question
    body BLOB NOT NULL     -- zlib: JSON
) WITHOUT ROWID"""


class ReplyCache:
    """Replies in a SQLite file, which several processes may use at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_complained = False
        self._redactor = Redactor(environment_secrets())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        try:
            self._prepare()
        except sqlite3.Error as error:
            self._connection.close()
            raise self._unusable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        self._connection.close()

    def find(self, key: str) -> Completion | None:
        """Return the reply to a request; ``None`` if there is none, or it is unreadable."""
        try:
            with closing(self._connection.cursor()) as cursor:
                found = cursor.execute(
                    "SELECT body FROM replies WHERE key = ?", (bytes.fromhex(key),)
                ).fetchone()
            return None if found is None else _read(orjson.loads(inflate(found[0], "a kept reply")))
        except (sqlite3.Error, DataError, ValueError, KeyError, TypeError) as error:
            self._complain(error)
            return None

    def keep(self, key: str, reply: Completion) -> None:
        """Store a reply unless there is one; a full disk is logged only."""
        try:
            written = orjson.dumps(_written(reply)).decode()
            body = zlib.compress(self._redactor.exact(written).encode())
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(
                    "INSERT OR IGNORE INTO replies VALUES (?, ?)", (bytes.fromhex(key), body)
                )
        except (sqlite3.Error, orjson.JSONEncodeError) as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.warning(
                "the reply cache %r fails, so calls are paid for: %s", str(self._path), error
            )

    def _prepare(self) -> None:
        def tell(pragma: str) -> int:
            return int(self._connection.execute(f"PRAGMA {pragma}").fetchone()[0])

        if tell("application_id") != _APPLICATION_ID and tell("schema_version"):
            raise sqlite3.DatabaseError("it is an SQLite file of something else")
        self._connection.execute("PRAGMA journal_mode = WAL")
        # A reply lost in a power failure is requested again.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        self._connection.execute(_TABLE)

    def _unusable(self, error: Exception) -> ConfigError:
        return ConfigError(
            f"{str(self._path)!r} cannot be used as the reply cache: {error}. Set cache to a "
            "writable file on a local disk, or leave it out."
        )


class CachedModel:
    """A model with cached replies; the usage of a cache hit counts no call.

    Errors are not cached, nor are empty, truncated or withheld answers.
    """

    def __init__(self, model: ChatModel, cache: ReplyCache) -> None:
        self._model = model
        self._cache = cache
        self._asked: Counter[str] = Counter()
        self._open: dict[str, asyncio.Future[None]] = {}

    @property
    def identity(self) -> str:
        """The model's identity: a cache changes no answer."""
        return self._model.identity

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer from the cache, or ask the model and store its answer."""
        key = self._key(messages, tools, sampling)
        while key in self._open:  # concurrent equal requests are sent once
            await asyncio.shield(self._open[key])
        known = self._cache.find(key)
        if known is not None:
            return replace(known, usage=Usage(cache_hits=1))
        done = self._open[key] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._model.complete(
                messages, tools=tools, sampling=sampling, purpose=purpose
            )
            is_whole = reply.finish_reason in ("stop", "tool_calls")
            if is_whole and (reply.text.strip() or reply.tool_calls):
                self._cache.keep(key, reply)
        finally:
            del self._open[key]
            done.set_result(None)
        return reply

    def _key(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> str:
        asked = question(self.identity, messages, tools, sampling)
        first = digest(asked)
        if sampling.seed is not None:
            return first
        draw = self._asked[first]
        self._asked[first] += 1
        return digest({**asked, "draw": draw})


@contextmanager
def cached(model: ChatModel, path: str | None) -> Iterator[ChatModel]:
    """Wrap a model in a cache until the block ends, if a path is given."""
    if path is None:
        yield model
        return
    with ReplyCache(Path(path)) as cache:
        yield CachedModel(model, cache)


def _written(reply: Completion) -> dict[str, Any]:
    return {
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "model": reply.model,
        "reasoning": reply.reasoning,
        "tool_calls": [(call.id, call.name, call.arguments) for call in reply.tool_calls],
        "logprobs": [(one.token, one.logprob, one.top) for one in reply.logprobs],
        "native": reply.native,
        "marks": reply.marks,
    }


def _read(body: Mapping[str, Any]) -> Completion:
    """Read a reply back."""
    calls = [part for call in body["tool_calls"] for part in call]
    texts = [body[name] for name in ("text", "finish_reason", "model", "reasoning")]
    if not all(isinstance(each, str) for each in (*texts, *calls)):
        raise TypeError("a stored reply is not of the form that it was written in")
    if not isinstance(body["native"], dict | None):
        raise TypeError("a stored reply is not of the form that it was written in")
    return Completion(
        text=body["text"],
        finish_reason=body["finish_reason"],
        model=body["model"],
        reasoning=body["reasoning"],
        tool_calls=tuple(ToolCall(*call) for call in body["tool_calls"]),
        logprobs=tuple(
            TokenLogprob(token, logprob, tuple((t, p) for t, p in top))
            for token, logprob, top in body["logprobs"]
        ),
        native=body["native"],
        marks=str(body.get("marks", "")),
    )
