"""Chat completions: the requests, replies and errors that all servers share."""

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
    TokenLogprob,
    ToolCall,
    Usage,
)
from skillwright.core.jsonio import dumps
from skillwright.models.http.client import HttpReply, is_stream, without_secrets
from skillwright.models.http.endpoint import Config, Dialect, chosen
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.retry import retry_after_s
from skillwright.models.http.wire import (
    ContextOverflow,
    EndpointFault,
    GarbledReply,
    charged,
    cost_usd,
    count,
    is_text,
    mapping,
    number,
    refuse_empty,
    sequence,
    text,
    without_marks,
    without_none,
)

_LONGEST = 500
_LONGEST_READ = 4_000  # a template's own error comes behind the template
_LONGEST_ID = 100
_OVERLOADED_WAIT_S = 5.0  # an overload affects all clients; an early retry would add to it
_REQUEST_IDS = ("x-request-id", "request-id")


@dataclass(frozen=True, slots=True)
class Complaint:
    """The error in a reply; absent fields are ``""``.

    Attributes:
        status: HTTP status; for an error inside a 200, the status in its code, else 502.
        message: One line.
        kind: ``type`` of the error.
        code: ``code`` of the error, or ``error_code`` of its details.
        param: Request field that caused it.
        head: Start of every message about it.
    """

    status: int
    message: str
    kind: str
    code: str
    param: str
    head: str

    @classmethod
    def read(cls, reply: HttpReply, config: EndpointConfig) -> "Complaint":
        """Read the error of a reply."""
        payload = reply.payload
        if is_stream(payload):  # the error is one of its events
            payload = next((each for each in payload if holds_error_object(each)), {})
        payload = payload if isinstance(payload, dict) else {}
        # FastAPI servers say "detail"; old vLLM puts the fields at the top level.
        error = payload.get("error") or payload.get("detail") or payload
        fields: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        details = fields.get("details")
        detail = details.get("error_code") if isinstance(details, dict) else None
        message = " ".join(str(fields.get("message") or reply.text).split())
        code = str(detail or fields.get("code") or "")
        status = _status(reply.status, code)
        message = message[:_LONGEST_READ]
        request_id = next((reply.headers[n] for n in _REQUEST_IDS if n in reply.headers), "")
        request_id = request_id[:_LONGEST_ID]
        return cls(
            status=status,
            message=message,
            kind=str(fields.get("type") or ""),
            code=code,
            param=str(fields.get("param") or "")[:_LONGEST_ID],
            head=(
                f"{reply.url} answered {status} to model {config.model!r}"
                f"{f' (request {request_id})' if request_id else ''}: "
                f"{message[:_LONGEST].rstrip('.') or 'it gives no reason'}."
            ),
        )

    def names(self, words: frozenset[str]) -> bool:
        """Return whether its code or kind is one of these."""
        return self.code in words or self.kind in words

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Return whether a pattern matches its code, kind or message."""
        return bool(pattern.search(f"{self.code} {self.kind} {self.message}"))

    @property
    def is_passing(self) -> bool:
        """Whether the status is one of a temporary failure."""
        return self.status in (408, 409, 429) or self.status >= 500


def holds_error(reply: HttpReply) -> bool:
    """Return whether a reply is an error: by its status, or, from some gateways, inside a 200."""
    if not 200 <= reply.status < 300:
        return True
    if is_stream(reply.payload):
        return any(map(holds_error_object, reply.payload))
    return holds_error_object(reply.payload)


def holds_error_object(payload: Any) -> bool:
    """Return whether JSON is an error object."""
    return isinstance(payload, dict) and bool(payload.get("error"))


def about_the_key(config: EndpointConfig, key: str) -> str:
    """Return the advice about a refused key."""
    if not key:
        return (
            f"No key was sent to {config.base_url}: set the environment variable "
            f"{config.api_key_env}, or name another in api_key_env."
        )
    place = "api_key" if config.api_key else f"the environment variable {config.api_key_env}"
    return (
        f"Check the key in {place}, that it belongs to {config.base_url} (base_url), "
        "and that it may use this model."
    )


def fault_of_status(
    complaint: Complaint, reply: HttpReply, config: EndpointConfig, key: str, next_move: str
) -> ModelError:
    """Return the error for a complaint's status."""
    head, status = complaint.head, complaint.status
    advice = reply.headers.get("x-should-retry")
    if advice == "true" or (advice != "false" and complaint.is_passing):
        wait_s = retry_after_s(reply.headers) or (_OVERLOADED_WAIT_S if status == 529 else None)
        return EndpointFault(head, wait_s, status)
    if complaint.is_passing:
        return RequestRefused(f"{head} It advises against trying again. Look at its log.")
    if status in (401, 403):
        return ModelRefused(f"{head} {about_the_key(config, key)}")
    if 300 <= status < 400:
        place = without_secrets(reply.headers.get("location", ""))
        next_move = f"It redirects to {place!r}: correct base_url."
    return ModelRefused(f"{head} {next_move}")


def _status(status: int, code: str) -> int:
    if status >= 300:
        return status
    inner = int(code) if code.isdecimal() else 0
    return inner if 400 <= inner < 600 else 502  # without a number it is a gateway's error


_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
# Finish reasons of an answer that the server abandoned.
_BROKEN = frozenset({"error", "abort"})
_SPOKEN = frozenset({"content", "refusal", "reasoning", "reasoning_content"})
_CALL = frozenset({"id", "type", "index", "function", "custom"})
_REASONING = ("reasoning", "reasoning_content", "reasoning_details")


def read_answer(
    payload: Any, config: EndpointConfig, request: Mapping[str, Any] = {}
) -> Completion:
    """Read an answer, also from a stream of events; see `to_completion`."""
    joined = join_events(payload, config) if is_stream(payload) else payload
    return to_completion(joined, config, request)


def to_completion(
    payload: Any, config: EndpointConfig, request: Mapping[str, Any] = {}, *, withheld: bool = False
) -> Completion:
    """Read an answer; a structured refusal becomes its text, with reason ``content_filter``."""
    payload = mapping(payload)
    usage = read_usage(payload.get("usage"), config)
    choice = _first_choice(payload, config, usage)
    message = mapping(choice.get("message"))
    finish = str(choice.get("finish_reason"))
    calls = read_tool_calls(message.get("tool_calls"))
    details = text(message.get("reasoning_details"))
    thoughts = (message.get("reasoning"), message.get("reasoning_content"), details)
    answer = Completion(
        text=text(message.get("content")),
        finish_reason=finish if finish in _FINISH_REASONS else "other",
        model=str(payload.get("model") or config.model),
        usage=usage,
        tool_calls=calls,
        reasoning=next((one for one in thoughts if one and isinstance(one, str)), ""),
        logprobs=tuple(read_logprobs(mapping(choice.get("logprobs")).get("content"))),
        native=_native(message, config.backend) if calls else None,
    )
    answer = without_marks(answer, request)
    refusal = message.get("refusal")
    if not answer.text and (withheld or (refusal and isinstance(refusal, str))):
        said = refusal if isinstance(refusal, str) else ""
        answer = replace(answer, text=said, finish_reason="content_filter")
    return refuse_empty(answer, finish, without_secrets(config.base_url))


def read_tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    """Read tool calls; arguments sent as an object become JSON text."""
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
    """Read token counts of either route; cached tokens are part of the input."""
    counts = mapping(counts)
    prompt = mapping(_either(counts, "prompt_tokens_details", "input_tokens_details"))
    answer = mapping(_either(counts, "completion_tokens_details", "output_tokens_details"))
    known_input = number(_either(counts, "prompt_tokens", "input_tokens"))
    known_output = number(_either(counts, "completion_tokens", "output_tokens"))
    total = count(counts.get("total_tokens"))
    output_tokens = known_output or 0
    # The sum alone is enough for token limits, but not for the cost.
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
    """Read the token counts of a reply without an answer, also from a stream."""
    usage = None
    for event in payload if is_stream(payload) else [payload]:
        usage = mapping(event).get("usage") or usage
    return read_usage(usage, config)


def read_logprobs(tokens: Any) -> Iterable[TokenLogprob]:
    """Read the log-probabilities of tokens; skip entries without a number."""
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
    """Join the events of a stream into a reply without streaming."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    spoken: dict[str, list[Any]] = {}
    calls: dict[int, dict[str, Any]] = {}
    payload: dict[str, Any] = {}
    finish = error = whole = None
    for event in map(mapping, events):
        for name in ("model", "usage"):
            payload[name] = event.get(name) or payload.get(name)
        for choice in map(mapping, sequence(event.get("choices"))):
            if count(choice.get("index")):
                continue
            finish = choice.get("finish_reason") or finish
            error = choice.get("error") or error
            whole = choice.get("message") or whole
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
    if not spoken and not calls:  # an event, or an item of a list, that is a whole answer
        message |= mapping(whole)
    choice = {"index": 0, "finish_reason": finish, "message": message, "error": error}
    return payload | {"choices": [choice]}


def _joined(pieces: Sequence[Any]) -> Any:
    """Join text pieces; return a piece that is not text alone, so that the reader rejects it."""
    strange = next((piece for piece in pieces if not is_text(piece)), None)
    return "".join(map(text, pieces)) if strange is None else strange


def _add_to_call(calls: dict[int, dict[str, Any]], piece: Mapping[str, Any]) -> None:
    """Add a piece to its tool call, found by index, else by id, else the latest."""
    call_id = piece.get("id")
    last = max(calls, default=0)
    place = number(piece.get("index"))
    place = last if place is None else place
    if call_id and calls.get(place, {}).get("id", call_id) != call_id:
        # Some servers send no index, or 0 for all calls.
        known = (index for index, call in calls.items() if call.get("id") == call_id)
        place = next(known, last + 1)
    call = calls.setdefault(place, {"function": {"name": "", "arguments": ""}})
    if call_id:
        call["id"] = call_id
    call |= {key: value for key, value in piece.items() if key not in _CALL}
    function = mapping(piece.get("function"))
    name, arguments = function.get("name"), function.get("arguments")
    if name and str(name) != call["function"]["name"]:  # some servers repeat it in every piece
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
    # A temporary failure of overloaded servers and gateways, so it is retried.
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
    """Keep the reasoning that a model expects back with its tool calls.

    Some models expect it inside the calls: Gemini signs its thoughts in ``extra_content``.
    """
    kept = {name: message[name] for name in _REASONING if message.get(name)}
    calls = [
        {name: value for name, value in mapping(call).items() if name not in _CALL}
        for call in sequence(message.get("tool_calls"))
    ]
    native = {"dialect": dialect, "content": kept, **({"calls": calls} if any(calls) else {})}
    return native if kept or any(calls) else None


# The status alone does not classify an error: 429 is also an exhausted account, and 400 a
# conversation over the context window. Source: OpenAI's error guide and SDK; vLLM, llama.cpp,
# Azure, DashScope.

_QUOTA = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "Arrearage",
    }
)
# Alibaba's rate limit has the code of an exhausted account elsewhere.
_PASSING_QUOTA = re.compile(r"allocated quota exceeded|rate increased too quickly", re.IGNORECASE)
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context length is only"
    r"|range of input length",
    re.IGNORECASE,
)
_BLOCKED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "invalid_prompt",
        "data_inspection_failed",
        "DataInspectionFailed",
        "ResponsibleAIPolicyViolation",
    }
)
# Chat templates (Gemma, Mistral, Llama 2) and servers that check roles say it in these ways.
_NO_SYSTEM = re.compile(
    r"must alternate|no user query found|(?:must|should) (?:start|begin) with an? ['\"]?user"
    r"|first message (?:must|should) .{0,20}\buser|system message (?:must|should) be (?:at|the)"
    r"|\b(?:system|developer)['\"`]?(?: (?:role|message|prompt|instruction)s?)?(?: is| are)?"
    r" (?:not (?:supported|allowed|enabled|permitted|accepted|available|one of|a valid)"
    r"|unsupported)"
    r"|(?:not|n't|cannot) (?:support|allow|accept|take|handle)\b.{0,20}?\b(?:system|developer)\b"
    r"|only .{0,20}\buser\b.{0,40}\broles?\b.{0,20}(?:support|allow|accept|valid)"
    r"|(?:unexpected|invalid|unknown|unsupported|unrecognized|got)(?: message| a)?(?: role)?"
    r"[:=]? ?['\"`(]?system\b|(?:input should be|permitted:) '(?:user|assistant)'"
    r"|system.{0,8}不支持|不支持.{0,8}system|角色信息不正确",
    re.IGNORECASE,
)
_RATE = re.compile(r"limit:?\s*(\d[\d,]*).*?requested:?\s*(\d[\d,]*)", re.IGNORECASE | re.DOTALL)
_SEED = re.compile(r"\bseed\b")


def fault_of_reply(reply: HttpReply, config: EndpointConfig, key: str = "") -> ModelError | None:
    """Return the error that a reply reports, with its usage; ``None`` if it is none.

    A temporary failure is an `EndpointFault`; if only this request is refused, it is a
    `RequestRefused` or its `ContextOverflow`; otherwise a `ModelRefused`.
    """
    if not holds_error(reply):
        return None
    complaint = Complaint.read(reply, config)
    fault = (
        _refusal_of_request(complaint)
        or _refusal_of_roles(complaint, config)
        or fault_of_status(complaint, reply, config, key, _next_move(complaint, config))
    )
    return charged(fault, usage_of(reply.payload, config))


def _refusal_of_request(complaint: Complaint) -> ModelRefused | None:
    """Return a refusal that a retry does not resolve, or ``None``."""
    head = complaint.head
    if complaint.matches(_OVERFLOW):
        return ContextOverflow(f"{head} Shorten the conversation, or lower max_tokens.")
    no_money = complaint.status == 402 or complaint.names(_QUOTA)
    if no_money and not complaint.matches(_PASSING_QUOTA):
        return ModelRefused(
            f"{head} The account has no money or quota left: top it up, or use another key."
        )
    if complaint.status == 413 or (complaint.status == 429 and _asks_too_much(complaint)):
        return RequestRefused(f"{head} This one request is larger than the limit: shorten it.")
    if complaint.names(_BLOCKED):
        return RequestRefused(
            f"{head} The endpoint's content policy blocked the prompt; it says nothing about the "
            "agent."
        )
    return None


def _refusal_of_roles(complaint: Complaint, config: EndpointConfig) -> ModelRefused | None:
    """Return the refusal of a chat template without a system role, of any status, or ``None``."""
    if config.system == "merge" or not complaint.matches(_NO_SYSTEM):
        return None
    return ModelRefused(
        f"{complaint.head} The chat template of this model takes no system message here. Set "
        "system: merge in the model's settings: it puts the system text before the first user "
        "message."
    )


def _asks_too_much(complaint: Complaint) -> bool:
    """Return whether a single request exceeds the limit per minute, so that waiting is useless."""
    found = _RATE.search(complaint.message)
    if not found:
        return False
    limit, requested = (int(number.replace(",", "")) for number in found.groups())
    return requested > limit


def _next_move(complaint: Complaint, config: EndpointConfig) -> str:
    if complaint.status == 404:
        return (
            f"Check the model name {config.model!r}, and base_url {config.base_url!r} "
            "(it usually ends with /v1)."
        )
    if complaint.param in ("max_tokens", "max_completion_tokens"):
        return "Set max_tokens_name to the name that this endpoint takes."
    if complaint.param == "seed" or _SEED.search(complaint.message):
        return "Set send_seed: false for this endpoint."
    if complaint.param:
        return f"Change {complaint.param!r} in the model's settings, or leave it out."
    return "Correct the model's settings."


@dataclass(frozen=True, slots=True)
class ChatDialect(Dialect[Config]):
    """Base of the chat completions dialects; servers differ in requests more than in replies."""

    def chat_request(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]],
        sampling: Sampling,
        fields: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Build the request fields that all servers share."""
        config, schema = self.config, sampling.json_schema
        decoding = {name: chosen(name, sampling, config) for name in ("temperature", "top_p")}
        reply = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
        form = {"type": "json_schema", "json_schema": reply}
        optional = {
            "stop": list(sampling.stop) or None,
            "tools": list(tools) or None,
            "logprobs": None if sampling.logprobs is None else True,
            "top_logprobs": sampling.logprobs,
            "response_format": None if schema is None else form,
            **fields,
            **without_none(decoding),
        }
        return {
            "model": config.model,
            "messages": [_written(message, config.backend) for message in messages],
            **without_none(optional),
            **config.extra_body,
        }

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error in a reply, or ``None``."""
        return fault_of_reply(reply, self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer; see `read_answer`."""
        return read_answer(payload, self.config, request)


def stream_fields(stream: bool) -> dict[str, Any]:
    """Return the fields of a stream with its usage, or none."""
    return {"stream": True, "stream_options": {"include_usage": True}} if stream else {}


def is_strict(schema: Any) -> bool:
    """Return whether a JSON Schema is closed everywhere, as OpenAI's strict mode requires."""
    if isinstance(schema, Sequence) and not isinstance(schema, str):
        return all(map(is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if "properties" in schema or schema.get("type") == "object":
        required = set(schema.get("required", ()))
        if schema.get("additionalProperties") is not False:
            return False
        if required != set(schema.get("properties", {})):
            return False
    return all(map(is_strict, schema.values()))


def _written(message: Message, dialect: str) -> Mapping[str, Any]:
    if "native" not in message:
        return message
    native = message["native"]
    plain: dict[str, Any] = {name: value for name, value in message.items() if name != "native"}
    if native.get("dialect") != dialect:
        return plain
    calls = message.get("tool_calls") or ()
    signed = zip(calls, native.get("calls") or (), strict=False)  # unanswered calls are dropped
    if extended := [{**call, **extra} for call, extra in signed]:
        plain["tool_calls"] = extended
    return {**plain, **native["content"]}
