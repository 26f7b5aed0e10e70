"""Reads the replies of everything that speaks OpenAI's chat completions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillwright.core import Completion, TokenLogprob, ToolCall, Usage
from skillwright.core.jsonio import dumps
from skillwright.models.http.client import is_stream, without_secrets
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.faults import EndpointFault, GarbledReply
from skillwright.models.http.wire import (
    charged,
    cost_usd,
    count,
    is_text,
    mapping,
    number,
    refuse_empty,
    sequence,
    text,
)

_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
# What servers say of an answer that they gave up half way.
_BROKEN = frozenset({"error", "abort"})
_SPOKEN = frozenset({"content", "refusal", "reasoning", "reasoning_content"})
_CALL = frozenset({"id", "type", "index", "function", "custom"})
_REASONING = ("reasoning", "reasoning_content", "reasoning_details")


def read_answer(payload: Any, config: EndpointConfig) -> Completion:
    """Read an answer as `to_completion` does, out of a stream of events too."""
    return to_completion(join_events(payload, config) if is_stream(payload) else payload, config)


def to_completion(payload: Any, config: EndpointConfig, *, withheld: bool = False) -> Completion:
    """Read an answer out of the dialect's JSON. Unknown keys and values are ignored.

    A structured refusal becomes the text, with finish reason ``content_filter``.
    """
    payload = mapping(payload)
    usage = read_usage(payload.get("usage"), config)
    choice = _first_choice(payload, config, usage)
    message = mapping(choice.get("message"))
    finish = str(choice.get("finish_reason"))
    said, reasoning = split_reasoning(message, cut_off=finish == "length")
    reason, refusal = finish, message.get("refusal")
    if withheld and not said:
        finish = "content_filter"
    if refusal and isinstance(refusal, str) and not said:
        said, finish = refusal, "content_filter"
    calls = read_tool_calls(message.get("tool_calls"))
    answer = Completion(
        text=said,
        finish_reason=finish if finish in _FINISH_REASONS else "other",
        model=str(payload.get("model") or config.model),
        usage=usage,
        tool_calls=calls,
        reasoning=reasoning,
        logprobs=tuple(read_logprobs(mapping(choice.get("logprobs")).get("content"))),
        native=_native(message, config.backend) if calls else None,
    )
    return refuse_empty(answer, reason, without_secrets(config.base_url))


def split_reasoning(message: Mapping[str, Any], *, cut_off: bool) -> tuple[str, str]:
    """Separate the visible answer from reasoning, wherever the server has put that."""
    said = text(message.get("content"))
    details = text(message.get("reasoning_details"))
    for shown in (message.get("reasoning"), message.get("reasoning_content"), details):
        if shown and isinstance(shown, str):
            return said, shown
    head, closed, tail = said.partition("</think>")
    opened = head.lstrip().startswith("<think>")
    head = head.lstrip().removeprefix("<think>")
    # The opening tag may be missing: some chat templates write it at the end of the prompt.
    if closed and (opened or "<think>" not in head):
        return tail.lstrip(), head.strip()
    if opened and cut_off:
        return "", head.strip()  # the token limit fell into the reasoning
    return said, ""


def read_tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    """Read tool calls; arguments that a server sends as an object become its JSON text."""
    read = []
    for index, call in enumerate(map(mapping, sequence(calls))):
        function = mapping(call.get("function")) or mapping(call.get("custom"))
        given = (function.get("arguments"), function.get("input"))
        arguments = next((one for one in given if one is not None), "")
        read.append(
            ToolCall(
                id=str(call.get("id") or f"call_{index}"),
                name=str(function.get("name") or ""),
                arguments=arguments if isinstance(arguments, str) else dumps(arguments),
            )
        )
    return tuple(read)


def read_usage(counts: Any, config: EndpointConfig) -> Usage:
    """Read the counts of chat completions or responses: cached tokens are part of the prompt."""
    counts = mapping(counts)
    prompt = mapping(_either(counts, "prompt_tokens_details", "input_tokens_details"))
    answer = mapping(_either(counts, "completion_tokens_details", "output_tokens_details"))
    known_input = number(_either(counts, "prompt_tokens", "input_tokens"))
    known_output = number(_either(counts, "completion_tokens", "output_tokens"))
    total = count(counts.get("total_tokens"))
    output_tokens = known_output or 0
    # Where only the sum is told, a bound on tokens still holds, though nobody knows the price.
    input_tokens = max(0, total - output_tokens) if known_input is None else known_input
    cached = min(input_tokens, count(prompt.get("cached_tokens")))
    usage = Usage(
        calls=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cost_usd=None,
        cache_write_tokens=min(input_tokens - cached, count(prompt.get("cache_write_tokens"))),
        reasoning_tokens=min(output_tokens, count(answer.get("reasoning_tokens"))),
    )
    if known_output is None or (known_input is None and not total):
        return usage
    return replace(usage, cost_usd=cost_usd(usage, config.known_prices))


def _either(counts: Mapping[str, Any], name: str, in_responses: str) -> Any:
    return counts.get(name, counts.get(in_responses))


def usage_of(payload: Any, config: EndpointConfig) -> Usage:
    """Read the token counts of a reply that holds no answer, whole or as a stream of events."""
    told = None
    for event in payload if is_stream(payload) else [payload]:
        told = mapping(event).get("usage") or told
    return read_usage(told, config)


def read_logprobs(tokens: Any) -> Iterable[TokenLogprob]:
    """Read the log-probability of each token; entries without a number are left out."""
    for entry in map(mapping, sequence(tokens)):
        if isinstance(entry.get("logprob"), int | float):
            top = map(mapping, sequence(entry.get("top_logprobs")))
            yield TokenLogprob(
                token=str(entry.get("token")),
                logprob=float(entry["logprob"]),
                top=tuple(
                    (str(other.get("token")), float(other["logprob"]))
                    for other in top
                    if isinstance(other.get("logprob"), int | float)
                ),
            )


def join_events(events: Iterable[Any], config: EndpointConfig) -> dict[str, Any]:
    """Put the pieces of a stream together into the reply that it would have been at once."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    spoken: dict[str, list[Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    payload: dict[str, Any] = {}
    finish = error = None
    for event in map(mapping, events):
        for name in ("model", "usage"):
            payload[name] = event.get(name) or payload.get(name)
        for choice in map(mapping, sequence(event.get("choices"))):
            if count(choice.get("index")):
                continue
            finish = choice.get("finish_reason") or finish
            error = choice.get("error") or error
            delta = mapping(choice.get("delta"))
            for name in _SPOKEN & delta.keys():
                spoken.setdefault(name, []).append(delta[name])
            for call in map(mapping, sequence(delta.get("tool_calls"))):
                _add_to_call(calls, call)
    if finish is None:
        raise EndpointFault(
            f"{without_secrets(config.base_url)} ended its stream before the answer of model "
            f"{config.model!r} did. Look at the server's log."
        )
    message |= {name: _joined(pieces) for name, pieces in spoken.items()}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    choice = {"index": 0, "finish_reason": finish, "message": message, "error": error}
    return payload | {"choices": [choice]}


def _joined(pieces: Sequence[Any]) -> Any:
    """Put pieces together; one that is no text is all there is, for whoever reads it to refuse."""
    strange = next((piece for piece in pieces if not is_text(piece)), None)
    return "".join(map(text, pieces)) if strange is None else strange


def _add_to_call(calls: dict[int, dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """Add a piece of a tool call to its call; where it tells no place, its id does, or the last."""
    call_id = piece.get("id")
    last = max(calls, default=0)
    place = number(piece.get("index"))
    place = last if place is None else place
    if call_id and calls.get(place, {}).get("id", call_id) != call_id:
        # Some servers number no calls, or all of them 0.
        known = (index for index, call in calls.items() if call.get("id") == call_id)
        place = next(known, last + 1)
    call = calls.setdefault(place, {"function": {"name": "", "arguments": ""}})
    if call_id:
        call["id"] = call_id
    call |= {key: value for key, value in piece.items() if key not in _CALL}
    function = mapping(piece.get("function"))
    name, arguments = function.get("name"), function.get("arguments")
    if name and str(name) != call["function"]["name"]:  # which some repeat in every piece
        call["function"]["name"] += str(name)
    if arguments:
        written = arguments if isinstance(arguments, str) else dumps(arguments)
        call["function"]["arguments"] += written


def _first_choice(
    payload: Mapping[str, Any], config: EndpointConfig, usage: Usage
) -> Mapping[str, Any]:
    choices = [mapping(choice) for choice in sequence(payload.get("choices"))]
    if choices and all(map(_is_whole, choices)):
        return min(choices, key=lambda choice: count(choice.get("index")))
    # Overloaded servers and gateways do this for a moment, so another attempt may be answered.
    fault = GarbledReply(
        f"{without_secrets(config.base_url)} answered without a choice for model "
        f"{config.model!r}{_why(payload, choices)}. Look at the server's log, and check that "
        "base_url speaks OpenAI chat completions."
    )
    raise charged(fault, usage)


def _is_whole(choice: Mapping[str, Any]) -> bool:
    message = mapping(choice.get("message"))
    return not _broke_off(choice) and bool(message) and is_text(message.get("content"))


def _broke_off(choice: Mapping[str, Any]) -> bool:
    return bool(choice.get("error")) or str(choice.get("finish_reason")) in _BROKEN


def _why(payload: Mapping[str, Any], choices: Sequence[Mapping[str, Any]]) -> str:
    for choice in choices:
        if error := choice.get("error"):
            return f": {str(mapping(error).get('message') or error)[:200]}"
        if _broke_off(choice):
            return f": it broke off (finish_reason {choice['finish_reason']!r})"
        content = mapping(choice.get("message")).get("content")
        if not is_text(content):
            return f": its content is no text ({type(content).__name__})"
    return f" (keys: {', '.join(payload) or 'none'})"


def _native(message: Mapping[str, Any], dialect: str) -> dict[str, Any] | None:
    """Keep what a thinking model wants back beside its tool calls, under the same names.

    Some want it inside the calls: Gemini signs its thoughts in ``extra_content``.
    """
    kept = {name: message[name] for name in _REASONING if message.get(name)}
    calls = [
        {name: value for name, value in mapping(call).items() if name not in _CALL}
        for call in sequence(message.get("tool_calls"))
    ]
    native = {"dialect": dialect, "content": kept, **({"calls": calls} if any(calls) else {})}
    return native if kept or any(calls) else None
