"""Servers that refuse a conversation whose native tool calls are not in order, as the APIs do.

    async with STRICT["claude_chat"](script) as server:
        ...  # every answer is the next of the script; a wrong conversation is a 400

A turn of a script is a `Turn`; its calls are as a hostile endpoint may write them: parts may be
missing, or of any kind.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mock_anthropic import MockAnthropic, message
from mock_anthropic import error as claude_error
from mock_openai import MockOpenAI, completion
from mock_openai import error as openai_error
from mock_responses import MockResponses, response
from mock_responses import say as message_item

Body = dict[str, Any]
ID = re.compile(r"[!-~]{1,64}")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
THOUGHT = "Let me think."


@dataclass(frozen=True)
class Turn:
    """What the model does in a turn: says, thinks, and calls (``{"id", "name", "arguments"}``).

    One that thinks does so before every call, where its dialect can tell.
    """

    text: str | None = None
    calls: tuple[Body, ...] = ()
    thinks: bool = False


def call(name: str, arguments: Any, call_id: str = "call_a") -> Body:
    """Describe a call; arguments that are no text are written as JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "name": name, "arguments": written}


def say(text: str) -> Turn:
    """Describe a turn without a call."""
    return Turn(text)


# OpenAI's chat completions, and those who speak it


class StrictOpenAI(MockOpenAI):
    """Chat completions."""

    kept = ("reasoning", "reasoning_content", "reasoning_details")

    def __init__(self, script: Sequence[Turn], **more: Any) -> None:
        super().__init__(self._play, **more)
        self.script = list(script)
        self.refused: list[str] = []

    async def _play(self, body: Body) -> Body:
        done = sum(one["role"] == "assistant" for one in body["messages"])
        return self.answer(self.script[done])

    def answer(self, turn: Turn) -> Body:
        """Build the answer of a turn."""
        more: Body = {"reasoning_content": THOUGHT} if turn.thinks else {}
        if turn.calls:
            more |= {"tool_calls": [_openai_call(one) for one in turn.calls]}
            more["finish_reason"] = "tool_calls"
        return completion(turn.text, **more)

    def _refusal(self, request: Any, body: Body) -> Any:
        problem = next(openai_problems(body, self.kept), None)
        if problem is None:
            return None
        self.refused.append(problem)
        return openai_error(400, problem, param="messages")


def _openai_call(one: Body) -> Body:
    function = {name: one[name] for name in ("name", "arguments") if name in one}
    known = {**({"id": one["id"]} if "id" in one else {}), "type": "function"}
    extra = {name: one[name] for name in one.keys() - {"id", "name", "arguments"}}
    return {**known, "function": function, **extra}


def openai_problems(body: Body, kept: Iterable[str] = ()) -> Iterator[str]:
    """Say what a strict server finds wrong with the messages."""
    if not body.get("tools"):
        yield "no tools were offered"
    allowed = {"role", "content", "tool_calls", "tool_call_id", *kept}
    seen: set[str] = set()
    waiting: list[str] = []
    for one in body["messages"]:
        if strange := one.keys() - allowed:
            yield f"unknown {strange}"
        if one["role"] == "tool":
            if not waiting or one.get("tool_call_id") != waiting.pop(0):
                yield "a tool message must follow the call that it answers"
            continue
        if waiting:
            yield f"no results for {waiting}"
        calls = one.get("tool_calls")
        if calls == [] or (calls is not None and one["role"] != "assistant"):
            yield "tool_calls must be a non-empty list of an assistant"
        if not isinstance(one["content"], str) and not (one["content"] is None and calls):
            yield "content must be a text"
        for each in calls or ():
            yield from _call_problems(each["id"], each["function"]["name"], seen)
            yield from _written_problems(each["function"]["arguments"])
            waiting.append(each["id"])
    if waiting:
        yield f"no results for {waiting}"


def _call_problems(call_id: Any, name: Any, seen: set[str]) -> Iterator[str]:
    if not isinstance(call_id, str) or not ID.fullmatch(call_id):
        yield f"a call's id is {call_id!r}"
    elif call_id in seen:
        yield f"the id {call_id!r} is there twice"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"a call's name is {str(name)[:80]!r}"
    seen.add(str(call_id))


def _written_problems(arguments: Any) -> Iterator[str]:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        if not isinstance(json.loads(arguments, parse_constant=refuse), dict):
            yield "a call's arguments are no object"
    except (TypeError, ValueError, RecursionError):
        yield "a call's arguments are no JSON text"


# Anthropic's messages


class StrictAnthropic(MockAnthropic):
    """Messages; thoughts must come back as they were, and stand before what they led to."""

    def __init__(self, script: Sequence[Turn], **more: Any) -> None:
        super().__init__(self._play, **more)
        self.script = list(script)
        self.refused: list[str] = []

    async def _play(self, body: Body) -> Body:
        return self.answer(self.script[sum(one["role"] == "assistant" for one in body["messages"])])

    def answer(self, turn: Turn) -> Body:
        """Build the answer of a turn."""
        thought = {"type": "thinking", "thinking": THOUGHT, "signature": "signed"}
        thoughts = [thought] if turn.thinks else []
        blocks = [] if turn.calls and turn.text is None else list(thoughts)
        if turn.text is not None:
            blocks.append({"type": "text", "text": turn.text})
        for one in turn.calls:
            named = {name: one[name] for name in ("id", "name") if name in one}
            given = {"input": _input(one["arguments"])} if "arguments" in one else {}
            blocks += [*thoughts, {"type": "tool_use", **named, **given}]
        return message(None, *blocks, stop_reason="tool_use" if turn.calls else "end_turn")

    def refusal(self, request: Any, body: Body) -> Any:
        """Refuse as the API does."""
        refused = super().refusal(request, body)
        problem = "the mock refused it" if refused else next(claude_problems(body), None)
        if problem is None:
            return None
        self.refused.append(problem)
        return refused or claude_error(400, problem)


def _input(written: Any) -> Any:
    try:
        return json.loads(written)
    except (TypeError, ValueError):
        return written


def claude_problems(body: Body) -> Iterator[str]:
    """Say what a strict server finds wrong with the blocks."""
    if not body.get("tools"):
        yield "no tools were offered"
    seen: set[str] = set()
    for turn in body["messages"]:
        kinds = [block["type"] for block in turn["content"]]
        if kinds and kinds[-1] == "thinking":
            yield "the final block cannot be thinking"
        if turn["role"] == "user" and "tool_result" in kinds[kinds.count("tool_result") :]:
            yield "results come first"
        for block in turn["content"]:
            if block["type"] == "thinking" and block.get("signature") != "signed":
                yield "a thought was changed"
            if block["type"] == "tool_use":
                yield from _call_problems(block["id"], block["name"], seen)
                if not isinstance(block["input"], dict):
                    yield "input must be an object"


# OpenAI's responses


class StrictResponses(MockResponses):
    """Responses; reasoning must be followed by what it led to."""

    def __init__(self, script: Sequence[Turn], **more: Any) -> None:
        super().__init__(self._play, **more)
        self.script = list(script)
        self.refused: list[str] = []

    async def _play(self, body: Body) -> Body:
        return self.answer(self.script[_turns_taken(body["input"])])

    def answer(self, turn: Turn) -> Body:
        """Build the answer of a turn."""
        thought = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "e"}
        thoughts = [thought] if turn.thinks else []
        items = [] if turn.calls and turn.text is None else list(thoughts)
        if turn.text is not None:
            items.append(message_item(turn.text))
        for one in turn.calls:
            named = {"call_id": one["id"]} if "id" in one else {}
            given = {name: one[name] for name in ("name", "arguments") if name in one}
            items += [*thoughts, {"type": "function_call", **named, **given}]
        return response(*items)

    def refusal(self, request: Any, body: Body) -> Any:
        """Refuse as the API does."""
        problem = next(responses_problems(body), None)
        if problem is None:
            return super().refusal(request, body)
        self.refused.append(problem)
        return openai_error(400, problem, param="input")


def _turns_taken(items: Sequence[Body]) -> int:
    """Count the runs of items that the assistant wrote."""
    wrote = [
        one.get("role") == "assistant" or one.get("type") in ("function_call", "reasoning")
        for one in items
    ]
    return sum(now and not before for before, now in zip([False, *wrote], wrote, strict=False))


def responses_problems(body: Body) -> Iterator[str]:
    """Say what a strict server finds wrong with the items."""
    if not body.get("tools"):
        yield "no tools were offered"
    seen: set[str] = set()
    waiting: list[str] = []
    for one, following in zip(body["input"], [*body["input"][1:], {}], strict=True):
        kind = one.get("type")
        if kind == "reasoning" and following.get("type") not in ("function_call", "message"):
            yield "reasoning was provided without its required following item"
        if kind == "function_call":
            yield from _call_problems(one.get("call_id"), one.get("name"), seen)
            yield from _written_problems(one.get("arguments"))
            waiting.append(one.get("call_id", ""))
        elif kind == "function_call_output":
            if one["call_id"] not in waiting:
                yield "an output without its call"
            else:
                waiting.remove(one["call_id"])
        elif waiting and one.get("role") == "user":
            yield f"no output for {waiting}"
    if waiting:
        yield f"no output for {waiting}"


STRICT: dict[str, tuple[Any, Body]] = {
    "openai_chat": (StrictOpenAI, {"backend": "openai_chat"}),
    "vllm": (StrictOpenAI, {"backend": "openai_chat", "server": "vllm"}),
    "responses": (StrictResponses, {"backend": "openai_chat", "transport": "responses"}),
    "claude_chat": (StrictAnthropic, {"backend": "claude_chat"}),
    "qwen_chat": (StrictOpenAI, {"backend": "qwen_chat"}),
    "minimax_chat": (StrictOpenAI, {"backend": "minimax_chat"}),
}
"""Dialect -> its server, and the settings of a model on it."""
