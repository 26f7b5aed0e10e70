"""Replies that are no answer: what a broken, lying or hostile endpoint sends in the place of one.

A kind is a name and a fault of a mock server. Those of HTTP are the same for every dialect; those
of a dialect are its proper answer with one thing in it replaced.
"""

import copy
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from hostile_bodies import BIG, BROKEN_BODIES, NO_ENDS, NO_PLACES, NO_WORDS, RAW_HTTP, STREAMS

import mock_anthropic
import mock_openai
import mock_responses
from mock_endpoint import MockEndpoint
from mock_openai import Fault, MockOpenAI, raw, reset, status, truncated

Kinds = Iterator[tuple[str, Fault]]

_MB = 1_000_000


@dataclass(frozen=True)
class Spoken:
    """One dialect: its server, its settings, and how its answers look.

    Attributes:
        server: The class of its mock.
        settings: Of a model on it.
        answer: A proper answer in JSON.
        words: The path of the words in it.
        end: The path of why it ended.
        silent: The path and the value that take the words away.
        places: Paths of what holds the answer.
        streams: Whether the server is asked for a stream, and sends one.
        fine: Names of kinds that are a proper answer here, though one without words.
    """

    server: type[MockOpenAI | MockEndpoint]
    settings: Mapping[str, Any]
    answer: Any
    words: tuple[Any, ...]
    end: tuple[Any, ...]
    silent: tuple[tuple[Any, ...], Any]
    places: tuple[tuple[Any, ...], ...]
    streams: bool = False
    fine: frozenset[str] = frozenset()

    def kinds(self) -> Kinds:
        """Yield the kinds of this dialect."""
        return ((name, fault) for name, fault in self._changed() if name not in self.fine)

    def _changed(self) -> Kinds:
        for name, value in NO_WORDS.items():
            yield f"words: {name}", self._sent(replaced(self.answer, self.words, value))
        for name, value in NO_ENDS.items():
            yield f"end: {name}", self._sent(replaced(self._mute, self.end, value))
        yield "end: missing", self._sent(replaced(self._mute, self.end))
        for path in self.places:
            for name, value in NO_PLACES.items():
                changed = replaced(self.answer, path, value)
                yield f"{path}: {name}", self._sent(changed)
            yield f"{path}: missing", self._sent(replaced(self.answer, path))

    def proper(self) -> Kinds:
        """Yield odd answers that are answers all the same."""
        yield "as it should be", self._sent(self.answer)
        yield "words without an end", self._sent(replaced(self.answer, self.end, "odd"))
        yield "no words, and a known end", self._sent(self._mute)

    @property
    def _mute(self) -> Any:
        return replaced(self.answer, *self.silent)

    def _sent(self, payload: Any) -> Fault:
        if self.streams:
            lines = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in payload)
            return raw(lines, "text/event-stream")
        return raw(json.dumps(payload).encode())


_MISSING = object()


def replaced(payload: Any, path: tuple[Any, ...], value: Any = _MISSING) -> Any:
    """Return a payload with another value at a path, or with none there."""
    changed = copy.deepcopy(payload)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if value is _MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


def http_kinds() -> Kinds:
    """Yield the kinds that no dialect makes an answer of."""
    for name, body in BROKEN_BODIES.items():
        yield f"body: {name}", raw(body)
    for code in (201, 204, 206, 226, 299):
        yield f"status {code}", raw(b"", status_code=code)
    for code in (301, 304, 307, 400, 403, 404, 408, 409, 418, 422, 429, 451, 500, 502, 503, 529):
        yield f"status {code}", status(code)
    for code in (401, 500, 599):
        yield f"status {code} with bytes", raw(b"\xff\x00" * 500, "image/png", code)
    for name in ("text/html", "text/plain", "image/png"):
        yield f"type {name}", raw(b"<html>look</html>", name)
    for name, body in STREAMS.items():
        yield f"stream: {name}", raw(body, "text/event-stream")
    for name, body in RAW_HTTP.items():
        yield f"HTTP: {name}", _on_the_wire(body)
    yield "reset", reset()
    yield "truncated", truncated()
    yield "gzip that is none", _encoded(b"look", "gzip")
    yield "deflate that is none", _encoded(b"look", "deflate")
    yield "an encoding that nobody knows", _encoded(b"look", "mystery")
    yield "half a gzip", _encoded(gzip.compress(b"{}" * 1000)[:20], "gzip")


def big_kinds() -> Kinds:
    """Yield the kinds that would fill the memory."""
    for name, parts in BIG.items():
        yield f"big: {name}", _repeated(*parts)
    yield "big: no end", _repeated(b"[", b"1,", b"", size=20 * _MB)
    yield "big: a bomb of 1 GB", _encoded(_bomb(), "gzip")
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "x"}}]}\n\n'
    small = b'data: {"a":{}}\n\n'
    yield "big: events", _repeated(b"", event, b"", "text/event-stream", size=4 * _MB)
    yield "big: small events", _repeated(b"", small, b"", "text/event-stream", size=2 * _MB)
    yield "big: an event", _repeated(b"data: [", b"{},", b"{}]\n\n", "text/event-stream")
    # As much as is read at all, by `skillwright.models.http.client`'s own guess.
    yield "most: small objects", _repeated(b"[", b'{"a":1},', b"{}]", size=800_000)
    yield "most: empty lists", _repeated(b"[", b"[],", b"[]]", size=600_000)
    yield "most: one wide text", _repeated('"😀'.encode(), b"x", b'"', size=5_200_000)
    yield "big: an error", _repeated(b'{"error": "', b"x", b'"}', code=400)
    yield "big: an error of objects", _repeated(b'{"error": [', b"{},", b"{}]}", code=500)


def _bomb() -> bytes:
    """Return a gzip of a gigabyte of blanks."""
    return gzip.compress(b" " * 10 * _MB) * 100


def _encoded(body: bytes, encoding: str) -> Fault:
    async def fault(request: web.Request) -> web.StreamResponse:
        del request
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        return web.Response(body=body, headers=headers)

    return fault


def _on_the_wire(body: bytes) -> Fault:
    async def fault(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(body)
        request.transport.close()
        return web.Response()

    return fault


def _repeated(
    head: bytes,
    piece: bytes,
    tail: bytes,
    kind: str = "application/json",
    *,
    size: int = 9_900_000,
    code: int = 200,
) -> Fault:
    """Send a long body piece by piece, so that this side holds little of it."""
    block = piece * max(1, 65_536 // len(piece))

    async def pieces() -> AsyncIterator[bytes]:
        yield head
        for _ in range(size // len(block)):
            yield block
        yield tail

    async def fault(request: web.Request) -> web.StreamResponse:
        del request
        return web.Response(body=pieces(), content_type=kind, status=code)

    return fault


def _chat(backend: str, **settings: Any) -> Spoken:
    message = ("choices", 0, "message")
    return Spoken(
        MockOpenAI,
        {"backend": backend, **settings},
        mock_openai.completion("look"),
        words=(*message, "content"),
        end=("choices", 0, "finish_reason"),
        silent=((*message, "content"), None),
        places=(("choices",), ("choices", 0), message),
    )


def _streamed_chat() -> Spoken:
    def event(finish: str | None = None, **delta: Any) -> Any:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    return Spoken(
        MockOpenAI,
        {"backend": "openai_chat", "stream": True},
        [event(role="assistant"), event(content="look"), event("stop")],
        words=(1, "choices", 0, "delta", "content"),
        end=(2, "choices", 0, "finish_reason"),
        silent=((1,), event()),
        places=((2,), (2, "choices")),
        streams=True,
    )


def _claude(*, streams: bool = False) -> Spoken:
    answer = mock_anthropic.message("look")
    if not streams:
        return Spoken(
            mock_anthropic.MockAnthropic,
            {"backend": "claude_chat"},
            answer,
            words=("content", 0, "text"),
            end=("stop_reason",),
            silent=(("content",), []),
            places=(("content",), ("content", 0)),
            fine=frozenset({"('content',): an empty list", "('content', 0): missing"}),
        )
    events = mock_anthropic.events(answer)
    kinds = [event["type"] for event in events]
    words = kinds.index("content_block_delta")
    events[words]["delta"]["text"] = "look"
    del events[words + 1]  # the other half of it
    last = len(events) - 2
    return Spoken(
        mock_anthropic.MockAnthropic,
        {"backend": "claude_chat", "stream": True},
        events,
        words=(words, "delta", "text"),
        end=(last, "delta", "stop_reason"),
        silent=((words, "delta", "text"), ""),
        places=((len(events) - 1,), (words - 1, "content_block")),
        streams=True,
    )


def _responses() -> Spoken:
    content = ("output", 0, "content")
    return Spoken(
        mock_responses.MockResponses,
        {"backend": "openai_chat", "transport": "responses"},
        mock_responses.response(mock_responses.say("look")),
        words=content,
        end=("status",),
        silent=(content, []),
        places=(("output",), ("output", 0)),
    )


SPOKEN: Mapping[str, Callable[[], Spoken]] = {
    "openai_chat": lambda: _chat("openai_chat"),
    "openai_chat, streamed": _streamed_chat,
    "openai_responses": _responses,
    "claude_chat": _claude,
    "claude_chat, streamed": lambda: _claude(streams=True),
    "qwen_chat": lambda: _chat("qwen_chat"),
    "minimax_chat": lambda: _chat("minimax_chat"),
}


def printed_kinds(backend: str) -> Iterator[tuple[str, bytes]]:
    """Yield what a command-line agent prints that is no answer, by the name of its kind."""
    for bodies in (BROKEN_BODIES, STREAMS, RAW_HTTP):
        for name, body in bodies.items():
            yield f"printed: {name}", body
    for name, value in NO_WORDS.items():
        yield f"words: {name}", _lines(_printed(backend, words=value))
    for name, value in {**NO_ENDS, "another kind": "turn.began"}.items():
        yield f"end: {name}", _lines(_printed(backend, end=value))
    for name, value in NO_PLACES.items():
        yield f"place: {name}", _lines([*_printed(backend)[:-1], value])
    yield "an event too few", _lines(_printed(backend)[:-1])
    yield "half of the last", _lines(_printed(backend))[:-20]
    yield "nothing but empty words", _lines(_printed(backend, words=""))
    yield "a great many objects", b"[" + b'{"a":{}},' * 300_000 + b"{}]"


def printed_answer(backend: str) -> bytes:
    """Return what a command-line agent prints that answers."""
    return _lines(_printed(backend))


def _printed(backend: str, words: Any = "look", end: Any = _MISSING) -> list[Any]:
    if backend == "codex_exec":
        said = {"type": "agent_message", "text": words}
        usage = {"input_tokens": 10, "output_tokens": 5}
        last = "turn.completed" if end is _MISSING else end
        return [
            {"type": "turn.started"},
            {"type": "item.completed", "item": said},
            {"type": last, "usage": usage},
        ]
    subtype = "success" if end is _MISSING else end
    usage = {"input_tokens": 10, "output_tokens": 5}
    result = {"type": "result", "subtype": subtype, "is_error": False, "result": words}
    return [
        {"type": "system", "subtype": "init", "model": "m"},
        {**result, "stop_reason": "end_turn", "usage": usage},
    ]


def _lines(events: list[Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)
