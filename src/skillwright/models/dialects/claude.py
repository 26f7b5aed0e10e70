"""The dialect of Anthropic's messages. Source: Anthropic's API reference."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import (
    Completion,
    Message,
    ModelError,
    ModelRefused,
    RequestRefused,
    Sampling,
    ToolCall,
    Usage,
)
from skillwright.core.jsonio import dumps
from skillwright.models.dialects.chat_completions import Complaint, fault_of_status, holds_error
from skillwright.models.dialects.config import ClaudeChatConfig
from skillwright.models.http.client import HttpReply, is_stream
from skillwright.models.http.endpoint import Dialect, bearer, chosen
from skillwright.models.http.retry import retry_after_s
from skillwright.models.http.wire import (
    ContextOverflow,
    EndpointFault,
    GarbledReply,
    charged,
    cost_usd,
    count,
    mapping,
    number,
    refuse_empty,
    without_marks,
    without_none,
)

# A prompt over the context window has no error code of its own.
_OVERFLOW = re.compile(
    r"prompt is too long|context window|maximum context length|context_length_exceeded"
    r"|input is too long",
    re.IGNORECASE,
)
_NO_MONEY = frozenset({"billing_error", "enforced_spend_limit_reached"})
_SPEND_LIMIT = re.compile(r"spend limit|credit balance|usage limit", re.IGNORECASE)
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def fault_of_reply(reply: HttpReply, config: ClaudeChatConfig, key: str = "") -> ModelError | None:
    """Return the error of a reply or of a stream's error event; ``None`` if it is none.

    The classes are those of `skillwright.models.dialects.chat_completions.fault_of_reply`.
    """
    if not holds_error(reply):
        return None
    complaint = Complaint.read(reply, config)
    # In a stream with status 200, only the error's type is known.
    if reply.status < 300:
        known = _STATUS.get(complaint.kind, complaint.status)
        complaint = replace(complaint, status=known)
    head, status = complaint.head, complaint.status
    if status in (400, 413) and complaint.matches(_OVERFLOW):
        return ContextOverflow(f"{head} Shorten the conversation, or lower max_tokens.")
    spent = status == 402 or (status == 400 and complaint.matches(_SPEND_LIMIT))
    if spent or complaint.names(_NO_MONEY):
        return ModelRefused(
            f"{head} The account's money or spend limit is used up: raise it, or use another key."
        )
    advises = reply.headers.get("x-should-retry") == "true"
    if status == 429 and not advises and _is_final(complaint, config, reply):
        return ModelRefused(
            f"{head} It names no time to try again, so a limit of the account is used up: raise "
            "it, or use another key."
        )
    if status == 413:
        return RequestRefused(f"{head} This one request is larger than the limit: shorten it.")
    return fault_of_status(complaint, reply, config, key, _next_move(complaint, config))


def _is_final(complaint: Complaint, config: ClaudeChatConfig, reply: HttpReply) -> bool:
    """Return whether a 429 is a spending cap; only Anthropic's own API shows that."""
    if retry_after_s(reply.headers) is not None or complaint.code == "ramp_limit_exceeded":
        return False
    return config.host == "api.anthropic.com"


def _next_move(complaint: Complaint, config: ClaudeChatConfig) -> str:
    if complaint.status == 404:
        return f"Check the model name {config.model!r}, and base_url {config.base_url!r}."
    if re.search(r"temperature|top_p|top_k", complaint.message):
        return "This model takes no sampling settings: leave temperature, top_p and top_k out."
    if "thinking" in complaint.message:
        return "Change thinking in the model's settings; newer models know 'adaptive' with effort."
    return "Correct the model's settings."


DIALECT = "claude_chat"

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_GROWING = frozenset({"text", "thinking", "signature"})


def to_completion(
    payload: Any, config: ClaudeChatConfig, request: Mapping[str, Any] = {}
) -> Completion:
    """Read an answer; thinking becomes the reasoning.

    With thinking or tool calls, the blocks are kept: the API expects them back unchanged.
    """
    payload = mapping(payload)
    stop, content = payload.get("stop_reason"), payload.get("content")
    if not isinstance(content, list) or not all(map(_is_block, content)):
        fault = GarbledReply(
            f"{config.base_url} answered without a message for model {config.model!r} "
            f"(keys: {', '.join(payload)[:200] or 'none'}). Look at the server's log, and check "
            "that base_url speaks Anthropic's messages."
        )
        raise charged(fault, _usage(payload.get("usage"), config))
    blocks = [mapping(block) for block in content]
    calls = tuple(
        ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), _arguments(block))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    only_words = all(block.get("type") == "text" for block in blocks)
    answer = Completion(
        text=_joined(blocks, "text", "text"),
        finish_reason=_FINISH_REASONS.get(str(stop), "other"),
        model=str(payload.get("model") or config.model),
        usage=_usage(payload.get("usage"), config),
        tool_calls=calls,
        reasoning=_joined(blocks, "thinking", "thinking"),
        native=None if only_words else {"dialect": DIALECT, "content": blocks},
    )
    return refuse_empty(without_marks(answer, request), stop, config.base_url)


def join_events(events: Iterable[Any], config: ClaudeChatConfig) -> dict[str, Any]:
    """Join the events of a stream into a message without streaming."""
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in map(mapping, events):
        index = count(event.get("index"))
        match event.get("type"):
            case "message_start":
                message = dict(mapping(event.get("message")))
            case "content_block_start":
                blocks[index] = dict(mapping(event.get("content_block")))
            case "content_block_delta":
                delta = mapping(event.get("delta"))
                inputs[index] = inputs.get(index, "") + str(delta.get("partial_json") or "")
                block = blocks.setdefault(index, {})
                for name in _GROWING & delta.keys():
                    grown, piece = block.get(name) or "", delta[name]
                    whole = isinstance(grown, str) and isinstance(piece, str)
                    block[name] = grown + piece if whole else piece
            case "message_delta":
                message |= mapping(event.get("delta"))
                began = mapping(message.get("usage"))
                # Cumulative; some gateways repeat the first event's null or 0.
                counts = mapping(event.get("usage")).items()
                news = {name: value for name, value in counts if value or name not in began}
                message["usage"] = {**began, **news}
            case "message_stop":
                for index, written in inputs.items():
                    if written:
                        blocks[index]["input"] = _input(written)
                return message | {"content": [blocks[index] for index in sorted(blocks)]}
    raise EndpointFault(
        f"{config.base_url} ended its stream before the answer of model {config.model!r} did. "
        "Look at the server's log."
    )


def _is_block(block: Any) -> bool:
    kind = mapping(block).get("type")
    return isinstance(kind, str) and (kind != "text" or isinstance(block.get("text"), str))


def _arguments(block: Mapping[str, Any]) -> str:
    given = block.get("input")
    return dumps({} if given is None else given)


def _input(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:  # truncated by the token limit
        return {"arguments": written}


def _joined(blocks: Sequence[Mapping[str, Any]], kind: str, name: str) -> str:
    return "".join(str(block.get(name) or "") for block in blocks if block.get("type") == kind)


def _usage(counts: Any, config: ClaudeChatConfig) -> Usage:
    """Read token counts; the API's input does not include cached tokens."""
    counts = mapping(counts)
    fresh, output_tokens = number(counts.get("input_tokens")), number(counts.get("output_tokens"))
    read = count(counts.get("cache_read_input_tokens"))
    written = count(counts.get("cache_creation_input_tokens"))
    thinking = mapping(counts.get("output_tokens_details")).get("thinking_tokens")
    usage = Usage(
        calls=1,
        input_tokens=(fresh or 0) + read + written,
        output_tokens=output_tokens or 0,
        cached_tokens=read,
        cost_usd=None,
        cache_write_tokens=written,
        reasoning_tokens=min(output_tokens or 0, count(thinking)),
    )
    if fresh is None or output_tokens is None:
        return usage
    hours = number(mapping(counts.get("cache_creation")).get("ephemeral_1h_input_tokens"))
    if hours is None:
        hours = written if config.prompt_cache == "1h" else 0
    return replace(usage, cost_usd=cost_usd(usage, config.known_prices, hours))


_Block = dict[str, Any]
_Turn = dict[str, Any]  # {"role", "content": [blocks]}

_BEGINNING = "(The conversation begins.)"
_ROOM = 1024  # tokens for the answer, in addition to its thinking
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
_NOTHING = "(nothing)"  # an empty block is an error


@dataclass(frozen=True, slots=True)
class ClaudeChat(Dialect[ClaudeChatConfig]):
    """Anthropic's messages."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of the key and the version."""
        by_name = {"x-api-key": key} if key else {}
        key_header = by_name if self.config.key_header == "x-api-key" else bearer(key)
        return {"anthropic-version": self.config.api_version, **key_header}

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Build a request; seeds are dropped, as the API has none.

        Leading system messages become the ``system`` field, later ones text of the user. Turns of
        the same role are merged; a conversation that starts with an assistant gets a user turn.
        """
        config = self.config
        self._refuse_what_is_missing(sampling)
        system, turns = _conversation(messages)
        body: dict[str, Any] = {
            "model": config.model,
            "max_tokens": self._max_tokens(sampling),
            "messages": turns,
            **without_none(
                {
                    "system": [{"type": "text", "text": system}] if system else None,
                    "tools": [_tool(tool) for tool in tools] or None,
                    "temperature": chosen("temperature", sampling, config),
                    "top_p": chosen("top_p", sampling, config),
                    "stop_sequences": list(sampling.stop) or None,
                    "thinking": self._thinking(),
                    "output_config": self._output_config(sampling) or None,
                    "stream": config.stream or None,
                }
            ),
        }
        if config.prompt_cache != "off":
            _mark_for_cache(body, config.prompt_cache)
        return body | config.extra_body

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error in a reply, or ``None``."""
        return fault_of_reply(reply, self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer; see `to_completion`."""
        payload = join_events(payload, self.config) if is_stream(payload) else payload
        return to_completion(payload, self.config, request)

    def _refuse_what_is_missing(self, sampling: Sampling) -> None:
        if sampling.logprobs is not None:
            raise ModelRefused("nothing was sent: Claude gives no log-probabilities.")
        if any(not stop.strip() for stop in sampling.stop):
            raise ModelRefused("nothing was sent: Claude takes no stop text of blanks only.")
        sampled = sampling.temperature is not None or sampling.top_p is not None
        if sampled and self.config.refuses_sampling:
            raise ModelRefused(
                f"nothing was sent: model {self.config.model!r} under api_version "
                f"{self.config.api_version} takes no temperature or top_p; leave them out."
            )
        if problem := self.config.why_not_while_thinking(sampling.temperature, sampling.top_p):
            raise ModelRefused(f"nothing was sent: {problem}.")
        if (sampling.temperature or 0) > 1:
            raise ModelRefused("nothing was sent: Claude takes temperatures from 0 to 1.")

    def _max_tokens(self, sampling: Sampling) -> int:
        asked: int = chosen("max_tokens", sampling, self.config)
        budget = self.config.thinking_budget or 0
        # The API requires more than the thinking budget, and the rest must hold an answer.
        return max(asked, budget + min(asked, _ROOM))

    def _thinking(self) -> dict[str, Any] | None:
        if self.config.thinking == "server_default":
            return None
        fields = {"type": self.config.thinking, "budget_tokens": self.config.thinking_budget}
        return without_none(fields)

    def _output_config(self, sampling: Sampling) -> dict[str, Any]:
        schema = sampling.json_schema
        form = None if schema is None else {"type": "json_schema", "schema": schema}
        return without_none({"effort": self.config.effort, "format": form})


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = mapping(tool.get("function"))
    return {
        "name": function.get("name"),
        "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
        **without_none({name: function.get(name) for name in ("description", "strict")}),
    }


def _conversation(messages: Sequence[Message]) -> tuple[str, list[_Turn]]:
    """Split a conversation into the system text and alternating turns that start with a user."""
    system: list[str] = []
    turns: list[_Turn] = []
    for message in messages:
        if message["role"] in ("system", "developer") and not turns:
            system.append(message["content"])
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [_text(_BEGINNING)]})
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message)
    for turn in turns:
        # The API requires tool results first in a turn; the sort is stable.
        turn["content"].sort(key=lambda block: block.get("type") != "tool_result")
        turn["content"] = turn["content"] or [_text(_NOTHING)]
    if turns and turns[-1]["role"] == "assistant":
        last = turns[-1]["content"][-1]
        if last.get("type") == "text":
            turns[-1]["content"][-1] = {**last, "text": last["text"].rstrip() or _NOTHING}
    return "\n\n".join(filter(None, system)), turns


def _blocks(message: Message) -> Iterable[_Block]:
    native = message.get("native") or {}
    if native.get("dialect") == DIALECT:
        return _as_sent(native["content"], message.get("tool_calls") or ())
    if message["role"] == "tool":
        call_id = message.get("tool_call_id", "")
        result = message["content"] or _NOTHING
        return [{"type": "tool_result", "tool_use_id": call_id, "content": result}]
    said = [_text(message["content"])] if message["content"].strip() else []
    return said + [_tool_use(call) for call in message.get("tool_calls") or ()]


def _as_sent(content: Sequence[_Block], calls: Sequence[Mapping[str, Any]]) -> list[_Block]:
    """Return an answer's blocks with the calls of the conversation.

    Blocks from the first unanswered call on are dropped, and so are blank texts and a final
    thought, which the API sends but refuses.
    """
    # Copies, because cache marks are added to them; thinking takes none.
    blocks: list[_Block] = []
    left = list(calls)
    for block in content:
        kind = block.get("type")
        if kind == "tool_use" and not left:
            break
        if kind == "tool_use":
            blocks.append({**block, **_tool_use(left.pop(0))})
        elif kind != "text" or block["text"].strip():
            blocks.append(dict(block))
    while blocks and blocks[-1].get("type") in _THOUGHTS:
        blocks.pop()
    return blocks


def _text(words: str) -> _Block:
    return {"type": "text", "text": words}


def _tool_use(call: Mapping[str, Any]) -> _Block:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):  # written by another dialect's model
        arguments = {"arguments": function["arguments"]}
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _mark_for_cache(body: dict[str, Any], ttl: str) -> None:
    """Mark the prefix that later calls repeat: tools, system text, and a longer conversation.

    The first turn alone is not marked: most conversations end there, and cache writes cost a
    quarter more.
    """
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}
    stable = body.get("system") or body.get("tools")
    if stable:  # the prefix is tools, then system, so one mark covers both
        stable[-1]["cache_control"] = mark
    turns = body["messages"]
    if len(turns) > 1 and turns[-1]["role"] == "user":
        turns[-1]["content"][-1]["cache_control"] = mark
