"""A language model of this process as a chat completions endpoint.

Requests for unsupported features that would change the answer are refused.
"""

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import ContractError, ToolCall
from skillwright.core.agent import untagged
from skillwright.models import EndpointFault
from skillwright.models.http.client import encode
from skillwright.models.http.wire import mapping, sequence
from skillwright.plugins.serve.batching import Closed, ContinuousBatch, Spoken, Ticket, Wanted
from skillwright.plugins.serve.dialects import OPENAI, Body
from skillwright.plugins.serve.front import Asked, Refused, Reply
from skillwright.policy.backend import NoChatTemplate, OutOfMemory
from skillwright.policy.hf import HfPolicy

_CALL: Final = "<tool_call>"
_MOST_STOPS, _MOST_ALTERNATIVES = 4, 20
_STREAM: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
# Unsupported fields, with the value that changes nothing.
_UNKNOWN: Final[Mapping[str, Sequence[Any]]] = {
    "n": (None, 1),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
    "response_format": (None, {"type": "text"}),
    "tool_choice": (None, "auto", "none"),
}


@dataclass(slots=True)
class Saying:
    """An answer as text, token by token; a possible start of a stop text is held back."""

    policy: HfPolicy
    stops: Sequence[str]
    calls: bool
    text: str = ""
    ended: bool = False
    sent: int = 0
    _ids: list[int] = field(default_factory=list)
    _begin: int = 0
    _read: int = 0

    def add(self, spoken: Spoken) -> str:
        """Add a token, and return the text that can be sent."""
        if spoken.token not in self.policy.speech.stop_ids:
            self._ids.append(spoken.token)
        new = self._new()
        # A character of several tokens may be incomplete, except at the end.
        if new and (spoken.is_last or not new.endswith("\ufffd")):
            self.text += new
            self._begin, self._read = self._read, len(self._ids)
            if found := _places(self.text, self.stops):
                self.text, self.ended = self.text[: min(found)], True
        ready = self.text[self.sent : self._ready()]
        self.sent += len(ready)
        return ready

    def parted(self) -> tuple[str, tuple[ToolCall, ...]]:
        """Split the answer into text and tool calls; a call without a name is text."""
        said, mark, behind = self.text.partition(_CALL)
        calls = untagged(mark + behind)[1] if self.calls else ()
        if not calls or not all(call.name for call in calls):
            return self.text, ()
        # Ids must be unique in a conversation, most of which only the client knows.
        return said, tuple(
            ToolCall(f"call_{secrets.token_hex(12)}", call.name, call.arguments) for call in calls
        )

    def _new(self) -> str:
        decode = self.policy.speech.tokenizer.decode
        # Decoded with the previous tokens: some tokenizers drop a leading blank.
        before = decode(self._ids[self._begin : self._read], skip_special_tokens=False)
        both = decode(self._ids[self._begin :], skip_special_tokens=False)
        return str(both)[len(before) :]

    def _ready(self) -> int:
        """Return the length of the text before any mark or possible start of one."""
        marks = [*self.stops, *([_CALL] if self.calls else [])]
        end = min([*_places(self.text, marks), len(self.text)])
        if self.ended or end < len(self.text):
            return end
        begun = (
            size
            for mark in marks
            for size in range(1, len(mark))
            if self.text.endswith(mark[:size])
        )
        return max(self.sent, end - max(begun, default=0))


def _places(text: str, marks: Sequence[str]) -> list[int]:
    return [at for at in map(text.find, marks) if at >= 0]


@dataclass(frozen=True, slots=True)
class Request:
    """The settings of a request."""

    wanted: Wanted
    stops: tuple[str, ...]
    calls: bool
    logprobs: bool
    stream: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class PolicyChat:
    """Answers requests with a policy."""

    policy: HfPolicy
    name: str
    batch: ContinuousBatch

    @property
    def takes_client_keys(self) -> bool:
        """No: the server behind it has none."""
        return False

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Answer a request; see `Answerer.answer`."""
        method, path = asked.request.method, asked.request.path
        if (method, path) == ("GET", "/v1/models"):
            model = {"id": self.name, "object": "model", "created": 0, "owned_by": "skillwright"}
            await reply.whole(200, {"object": "list", "data": [model]})
            return
        if asked.dialect is not OPENAI or method != "POST":
            raise Refused(
                404,
                f"no {method} {path} here: a policy has POST /v1/chat/completions and "
                "GET /v1/models",
            )
        if asked.body is None:
            raise Refused(400, "the body is no JSON object")
        request = self._read(asked.body)
        try:
            await self._say(request, reply)
        except (OutOfMemory, ContractError, Closed) as fault:
            if not reply.began:
                raise Refused(503, f"the policy gave no answer: {fault}") from fault
            raise EndpointFault(f"the policy gave half an answer: {fault}") from fault

    async def _say(self, request: Request, reply: Reply) -> None:
        saying = Saying(self.policy, request.stops, request.calls)
        kind = "chat.completion.chunk" if request.stream else "chat.completion"
        head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.name,
        }
        if request.stream:
            await reply.start(200, _STREAM)
            await reply.write(_event(head, {"role": "assistant", "content": ""}))
        tokens: list[Spoken] = []
        unsent = 0
        with self._asked(request.wanted) as (ticket, heard):
            while not (saying.ended or (tokens and tokens[-1].is_last)):
                spoken = await heard.get()
                if isinstance(spoken, Exception):
                    raise spoken
                tokens.append(spoken)
                ready = saying.add(spoken)
                if request.stream and ready:
                    logprobs = self._logprobs(request, tokens[unsent:])
                    await reply.write(_event(head, {"content": ready}, logprobs))
                    unsent = len(tokens)
        text, calls = saying.parted()
        finish = "length"
        if saying.ended or tokens[-1].token in self.policy.speech.stop_ids:
            finish = "tool_calls" if calls else "stop"
        usage = _usage(ticket, len(tokens))
        written = [call.to_dict() for call in calls]
        if not request.stream:
            message: Body = {"role": "assistant", "content": text}
            message |= {"tool_calls": written} if calls else {}
            choice = {"index": 0, "message": message, "finish_reason": finish}
            choice["logprobs"] = self._logprobs(request, tokens)
            await reply.whole(200, {**head, "choices": [choice], "usage": usage})
            return
        last: Body = {"content": text[saying.sent :]} if text[saying.sent :] else {}
        if calls:
            numbered = [{"index": index, **call} for index, call in enumerate(written)]
            last = {**last, "tool_calls": numbered}
        await reply.write(_event(head, last, self._logprobs(request, tokens[unsent:])))
        await reply.write(_event(head, {}, finish=finish))
        if request.counts:
            await reply.write(_line({**head, "choices": [], "usage": usage}))
        await reply.write(b"data: [DONE]\n\n")

    @contextmanager
    def _asked(self, wanted: Wanted) -> Iterator[tuple[Ticket, asyncio.Queue[Spoken | Exception]]]:
        """Ask the batch; a client that leaves is removed from it."""
        heard: asyncio.Queue[Spoken | Exception] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def hear(spoken: Spoken | Exception) -> None:
            loop.call_soon_threadsafe(heard.put_nowait, spoken)

        ticket = self.batch.ask(wanted, hear)
        try:
            yield ticket, heard
        finally:
            ticket.is_wanted = False

    def _read(self, body: Body) -> Request:
        """Parse a request; refuse unsupported features."""
        for name, harmless in _UNKNOWN.items():
            if body.get(name) not in harmless:
                raise Refused(400, f"{name} is {str(body[name])[:80]}, which a policy cannot do")
        tools = [one for one in map(mapping, sequence(body.get("tools"))) if one]
        calls = bool(tools) and body.get("tool_choice") != "none"
        if calls and not self.policy.speech.takes_tools:
            raise Refused(
                400,
                f"the chat template of {self.name} takes no tools; leave tools out, or serve "
                "a model that was trained to call them",
            )
        prompt = self._prompt(body, tools if calls else ())
        stream, stops = body.get("stream") is True, _stops(body)
        shows = body.get("logprobs") is True
        alternatives = (
            int(_number(body, "top_logprobs", 0, (0, _MOST_ALTERNATIVES))) if shows else 0
        )
        seed = body.get("seed")
        wanted = Wanted(
            prompt,
            self._longest(body, len(prompt)),
            _number(body, "temperature", 1.0, (0.0, 2.0)),
            max(_number(body, "top_p", 1.0, (0.0, 1.0)), 1e-9),
            seed if isinstance(seed, int) else secrets.randbits(31),
            alternatives,
        )
        counts = bool(mapping(body.get("stream_options")).get("include_usage"))
        return Request(wanted, stops, calls, shows, stream, counts)

    def _prompt(self, body: Body, tools: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        sent = sequence(body.get("messages"))
        if not sent or not all(mapping(one).get("role") for one in sent):
            raise Refused(400, "messages is a list with a role in each, and it is not empty")
        parts = [part for one in sent for part in sequence(one.get("content"))]
        if not all(mapping(part).get("type", "text") == "text" for part in parts):
            raise Refused(
                400, "a message holds something other than text, which a policy cannot read"
            )
        messages = OPENAI.conversation(body)
        for one in messages:
            one["role"] = "system" if one["role"] == "developer" else one["role"]
        try:
            return self.policy.speech.prompt_of(messages, tools)
        except NoChatTemplate as problem:
            raise Refused(400, str(problem)) from problem

    def _longest(self, body: Body, prompt: int) -> int:
        named = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
        most, usual = self.policy.most_tokens, self.policy.settings.max_new_tokens
        asked = int(_number(body, named, usual, (1, 2**31)))
        if most is None:
            return asked
        if prompt >= most:
            raise Refused(
                400,
                f"the maximum context length is {most} tokens, and the conversation has "
                f"{prompt}; shorten it",
            )
        return min(asked, most - prompt)

    def _logprobs(self, request: Request, tokens: Sequence[Spoken]) -> Body | None:
        if not request.logprobs:
            return None
        return {"content": [self._logprob(one) for one in tokens], "refusal": None}

    def _logprob(self, spoken: Spoken) -> Body:
        top = [self._named(token, logprob) for token, logprob in spoken.alternatives]
        return {**self._named(spoken.token, spoken.logprob), "top_logprobs": top}

    def _named(self, token: int, logprob: float) -> Body:
        text = self.policy.speech.tokenizer.decode([token], skip_special_tokens=False)
        # A token that is part of a character has no bytes. JSON has no infinity: impossible tokens
        # get OpenAI's lowest value.
        whole = None if "\ufffd" in text else list(text.encode())
        return {"token": text, "logprob": max(logprob, -9999.0), "bytes": whole}


def _number(body: Body, name: str, usual: float, within: tuple[float, float]) -> float:
    value = body.get(name)
    if value is None:
        return usual
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not within[0] <= value <= within[1]:
        raise Refused(
            400, f"{name} is {str(value)[:80]}; it is from {within[0]:g} to {within[1]:g}"
        )
    return float(value)


def _stops(body: Body) -> tuple[str, ...]:
    given = body.get("stop")
    stops = [given] if isinstance(given, str) else given or []
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS:
        raise Refused(400, f"stop is a text, or up to {_MOST_STOPS} of them")
    if not all(isinstance(one, str) and one for one in stops):
        raise Refused(400, "a stop is a text that is not empty")
    return tuple(stops)


def _usage(ticket: Ticket, answer: int) -> Body:
    prompt, cached = len(ticket.wanted.prompt), ticket.answer.cached
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _event(
    head: Body, delta: Body, logprobs: Body | None = None, finish: str | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
    return _line({**head, "choices": [choice]})


def _line(event: Body) -> bytes:
    return b"data: " + encode(event) + b"\n\n"
