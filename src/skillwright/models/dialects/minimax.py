"""MiniMax: chat completions with its own thinking setting, and errors inside a 200."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import Completion, Message, ModelError, ModelRefused, RequestRefused, Sampling
from skillwright.models.dialects.chat_completions import (
    ChatDialect,
    about_the_key,
    fault_of_reply,
    to_completion,
)
from skillwright.models.dialects.config import MiniMaxChatConfig
from skillwright.models.http.client import HttpReply
from skillwright.models.http.endpoint import chosen
from skillwright.models.http.retry import retry_after_s
from skillwright.models.http.wire import ContextOverflow, EndpointFault, mapping

_PASSING = frozenset({1000, 1001, 1002, 1024, 1033, 1039})
_BUSY = frozenset({1002, 1039})  # calls and tokens per minute
_KEY = frozenset({1004, 2049})
_NO_MONEY = {
    1008: "The account's balance is used up: top it up, or use another key.",
    2056: "The plan's allowance is used up until it resets: wait, or use another key.",
}
_BLOCKED = frozenset({1026, 1027})
_INVISIBLE = 1042


@dataclass(frozen=True, slots=True)
class MiniMaxChat(ChatDialect[MiniMaxChatConfig]):
    """MiniMax's chat completions."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Build a request; seeds are dropped, as MiniMax has none."""
        config = self.config
        _refuse_what_is_missing(sampling)
        fields = {
            "max_completion_tokens": chosen("max_tokens", sampling, config),
            "reasoning_split": True,
            "thinking": None if config.thinking == "server_default" else {"type": config.thinking},
        }
        return self.chat_request(messages, tools, sampling, fields)

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error in a reply; many have status 200 and a code."""
        base = mapping(mapping(reply.payload).get("base_resp"))
        code = base.get("status_code")
        if not isinstance(code, int) or code == 0:
            return fault_of_reply(reply, self.config, key)
        reason = " ".join(str(base.get("status_msg") or "it gives no reason").split())[:500]
        head = f"{reply.url} answered code {code} to model {self.config.model!r}: {reason}."
        return _fault_of_code(code, head, reply, self.config, key)

    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer, and keep its reasoning, which the model expects back."""
        withheld = bool(mapping(payload).get("output_sensitive"))
        answer = to_completion(payload, self.config, request, withheld=withheld)
        choices = mapping(payload).get("choices") or [{}]
        details = mapping(mapping(choices[0]).get("message")).get("reasoning_details")
        if not details:
            return answer
        kept = {"dialect": self.config.backend, "content": {"reasoning_details": details}}
        return replace(answer, native={**(answer.native or {}), **kept})


def _refuse_what_is_missing(sampling: Sampling) -> None:
    missing = {
        "temperature 0: set one above it, such as 0.01": sampling.temperature == 0,
        "log-probabilities": sampling.logprobs is not None,
        "JSON Schemas: ask for the form in the prompt": sampling.json_schema is not None,
    }
    for what, wanted in missing.items():
        if wanted:
            raise ModelRefused(f"nothing was sent: MiniMax takes no {what}.")


def _fault_of_code(
    code: int, head: str, reply: HttpReply, config: MiniMaxChatConfig, key: str
) -> ModelError:
    if code in _PASSING:
        return EndpointFault(head, retry_after_s(reply.headers), 429 if code in _BUSY else 0)
    if code in _KEY:
        other = "cn_zh" if config.region == "global_en" else "global_en"
        return ModelRefused(
            f"{head} {about_the_key(config, key)} A key works in its own region: perhaps "
            f"region: {other}."
        )
    if code in _NO_MONEY:
        return ModelRefused(f"{head} {_NO_MONEY[code]}")
    if code in _BLOCKED:
        return RequestRefused(
            f"{head} The endpoint's content policy blocked it; it says nothing about the agent."
        )
    if "context" in head.lower() and "window" in head.lower():
        return ContextOverflow(f"{head} Shorten the conversation, or lower max_tokens.")
    if code == _INVISIBLE:
        return RequestRefused(f"{head} Clean the text of the conversation.")
    return ModelRefused(f"{head} Correct the model's settings.")
