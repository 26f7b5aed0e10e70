"""Reads the replies of Anthropic's messages, whole or as a stream of events."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillwright.core import Completion, ToolCall, Usage
from skillwright.core.jsonio import dumps
from skillwright.models.dialects.claude_config import ClaudeChatConfig
from skillwright.models.http.faults import EndpointFault, GarbledReply
from skillwright.models.http.wire import charged, cost_usd, count, mapping, number, refuse_empty

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


def to_completion(payload: Any, config: ClaudeChatConfig) -> Completion:
    """Read an answer out of the API's JSON. Unknown blocks, keys and values are ignored.

    Thinking becomes the reasoning. The blocks are kept as they came where the model thought or
    called a tool, because it wants them back unchanged.
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
    return refuse_empty(answer, stop, config.base_url)


def join_events(events: Iterable[Any], config: ClaudeChatConfig) -> dict[str, Any]:
    """Put the events of a stream together into the message that it would have been at once."""
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
                # Cumulative; some gateways repeat what the beginning told as null or 0.
                told = mapping(event.get("usage")).items()
                news = {name: value for name, value in told if value or name not in began}
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
    except ValueError:  # the token limit fell into it
        return {"arguments": written}


def _joined(blocks: Sequence[Mapping[str, Any]], kind: str, name: str) -> str:
    return "".join(str(block.get(name) or "") for block in blocks if block.get("type") == kind)


def _usage(counts: Any, config: ClaudeChatConfig) -> Usage:
    """Read token counts: here cached tokens stand beside the prompt's, not inside them."""
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
