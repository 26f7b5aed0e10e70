"""OpenAI's responses: tools for reasoning models, without storage at OpenAI."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import Completion, Message, ModelError, ModelRefused, Sampling, ToolCall
from skillwright.core.jsonio import dumps
from skillwright.models.dialects.chat_completions import (
    fault_of_reply,
    is_strict,
    read_logprobs,
    read_usage,
)
from skillwright.models.dialects.openai_chat import OpenAIDialect
from skillwright.models.http.client import HttpReply
from skillwright.models.http.endpoint import chosen
from skillwright.models.http.wire import (
    EndpointFault,
    GarbledReply,
    charged,
    is_text,
    mapping,
    refuse_empty,
    sequence,
    text,
    without_marks,
    without_none,
)

_NAME = "openai_responses"
_UNFINISHED = frozenset({"failed", "cancelled", "queued", "in_progress"})
_PASSING = frozenset({"server_error", "rate_limit_exceeded", "vector_store_timeout"})
_FINISH_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class OpenAIResponses(OpenAIDialect):
    """OpenAI's responses route."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Build a request; seeds are dropped, as the route has none."""
        if sampling.stop:
            raise ModelRefused(
                "nothing was sent: OpenAI's responses route has no stop texts. Use transport: "
                "chat_completions, or end the answer in another way."
            )
        config = self.config
        effort = config.reasoning_effort
        wanted = ["reasoning.encrypted_content"]
        if sampling.logprobs is not None:
            wanted.append("message.output_text.logprobs")
        optional = {
            "temperature": chosen("temperature", sampling, config),
            "top_p": chosen("top_p", sampling, config),
            "max_output_tokens": chosen("max_tokens", sampling, config),
            "reasoning": {"effort": effort} if effort else None,
            # The default of ``strict`` is true here and false in chat completions.
            "tools": [
                {"type": "function", "strict": False, **mapping(tool.get("function"))}
                for tool in tools
            ]
            or None,
            "top_logprobs": sampling.logprobs,
            "text": _form(sampling.json_schema),
        }
        return {
            "model": config.model,
            "input": [item for message in messages for item in _items(message)],
            "store": False,
            "include": wanted,
            **without_none(optional),
            **config.extra_body,
        }

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error in a reply; a failed response has status 200."""
        if not 200 <= reply.status < 300:
            return fault_of_reply(reply, self.config, key)
        error = mapping(mapping(reply.payload).get("error"))
        if not error:
            return None
        code = str(error.get("code") or "")
        status = 503 if code in _PASSING else 400
        if not code or code.isdecimal():  # a gateway's error, which carries its own status
            status = reply.status
        return fault_of_reply(replace(reply, status=status), self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer; a refusal becomes its text."""
        payload = mapping(payload)
        output = [mapping(item) for item in sequence(payload.get("output"))]
        incomplete = mapping(payload.get("incomplete_details")).get("reason")
        status, usage = payload.get("status"), read_usage(payload.get("usage"), self.config)
        if str(status) in _UNFINISHED:
            fault = EndpointFault(
                f"{self.config.base_url} gave up its answer of model {self.config.model!r} half "
                f"way (status {status!r}), and does not say why."
            )
            raise charged(fault, usage)
        if not all(map(_is_item, output)) or (not output and not incomplete):
            fault = GarbledReply(
                f"{self.config.base_url} answered without output for model {self.config.model!r} "
                f"(keys: {', '.join(payload)[:200] or 'none'}). Check that base_url speaks "
                "OpenAI's responses; most other servers want transport: chat_completions."
            )
            raise charged(fault, usage)
        messages = [item for item in output if item.get("type") == "message"]
        parts = [mapping(part) for item in messages for part in sequence(item.get("content"))]
        said = "".join(text([part]) for part in parts if part.get("type") == "output_text")
        refusals = (part.get("refusal") for part in parts)
        refusal = "".join(each for each in refusals if isinstance(each, str))
        calls = tuple(_calls(output))
        finish = _FINISH_REASONS.get(str(incomplete), "tool_calls" if calls else "stop")
        whole = status == "completed" or (status is None and bool(said or calls))
        if str(incomplete) not in _FINISH_REASONS and (incomplete or not whole):
            finish = "other"
        if refusal and not said:
            said, finish = refusal, "content_filter"
        answer = Completion(
            text=said,
            finish_reason=finish,
            model=str(payload.get("model") or self.config.model),
            usage=usage,
            tool_calls=calls,
            reasoning=_reasoning(output),
            logprobs=tuple(each for part in parts for each in read_logprobs(part.get("logprobs"))),
            native={"dialect": _NAME, "content": output} if calls else None,
        )
        answer = without_marks(answer, request)
        return refuse_empty(answer, incomplete or status, self.config.base_url)


def _items(message: Message) -> Iterable[Mapping[str, Any]]:
    native = message.get("native") or {}
    if native.get("dialect") == _NAME:
        yield from _as_sent(native["content"], message.get("tool_calls") or ())
        return
    if message["role"] == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.get("tool_call_id", ""),
            "output": message["content"],
        }
        return
    calls = message.get("tool_calls") or ()
    if message["content"] or not calls:
        yield {"role": message["role"], "content": message["content"]}
    for call in calls:
        yield {"type": "function_call", **_call(call)}


def _as_sent(
    output: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return an answer's items with the calls of the conversation.

    Items from the first unanswered call on are dropped, and so is reasoning without its call or
    text, which the route refuses.
    """
    items: list[Mapping[str, Any]] = []
    left = list(calls)
    for item in output:
        if item.get("type") == "function_call":
            if not left:
                break
            items.append({**item, **_call(left.pop(0))})
        else:
            items.append(item)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"call_id": call["id"], "name": function["name"], "arguments": function["arguments"]}


def _form(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if schema is None:
        return None
    form = {"type": "json_schema", "name": "reply", "schema": schema, "strict": is_strict(schema)}
    return {"format": form}


def _is_item(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    return isinstance(kind, str) and (kind != "message" or is_text(item.get("content")))


def _calls(output: Iterable[Mapping[str, Any]]) -> Iterable[ToolCall]:
    for item in output:
        if item.get("type") == "function_call":
            call_id = item.get("call_id") or item.get("id") or ""
            given = item.get("arguments")
            arguments = given if isinstance(given, str) else dumps(given) if given else ""
            yield ToolCall(str(call_id), str(item.get("name") or ""), arguments)


def _reasoning(output: Iterable[Mapping[str, Any]]) -> str:
    thoughts = (item for item in output if item.get("type") == "reasoning")
    shown = (text(item.get("content")) or text(item.get("summary")) for item in thoughts)
    return "\n\n".join(filter(None, shown))
