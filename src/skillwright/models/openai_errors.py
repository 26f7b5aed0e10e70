"""What an OpenAI-shaped error reply means: try again, or refuse with the next move.

The status alone does not tell: 429 is also what an exhausted account gets, and 400 is also what a
conversation over the context window gets. Source: OpenAI's error guide and SDK; vLLM, llama.cpp
and Azure for their variants.
"""

import re
from dataclasses import dataclass
from typing import Any

from skillwright.core import ModelError, ModelRefused, RequestRefused
from skillwright.models.config import OpenAIChatConfig
from skillwright.models.faults import ContextOverflow, EndpointFault
from skillwright.models.http import HttpReply
from skillwright.models.retry import retry_after_s

_QUOTA = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    }
)
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context length is only",
    re.IGNORECASE,
)
_BLOCKED = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})
_RATE = re.compile(r"limit:?\s*(\d[\d,]*).*?requested:?\s*(\d[\d,]*)", re.IGNORECASE | re.DOTALL)
_SEED = re.compile(r"\bseed\b")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class _Complaint:
    """The error object of a reply, whatever server wrote it; absent fields are ``""``."""

    message: str
    kind: str
    code: str
    param: str

    @classmethod
    def read(cls, reply: HttpReply, key: str) -> "_Complaint":
        payload = reply.payload if isinstance(reply.payload, dict) else {}
        # FastAPI servers say "detail"; old vLLM puts the fields at the top level.
        error = payload.get("error") or payload.get("detail") or payload
        fields: dict[str, Any] = error if isinstance(error, dict) else {"message": str(error)}
        message = " ".join(str(fields.get("message") or reply.text).split())
        if key:  # before the cut, which could leave a part of it
            message = message.replace(key, "***")
        return cls(
            message=message[:_LONGEST],
            kind=str(fields.get("type") or ""),
            code=str(fields.get("code") or ""),
            param=str(fields.get("param") or ""),
        )

    def names(self, words: frozenset[str]) -> bool:
        return self.code in words or self.kind in words


def holds_error(reply: HttpReply) -> bool:
    """Tell whether a reply is an error: by its status, or, behind some gateways, inside a 200."""
    if not 200 <= reply.status < 300:
        return True
    payload = reply.payload
    return isinstance(payload, dict) and bool(payload.get("error")) and not payload.get("choices")


def error_of(reply: HttpReply, config: OpenAIChatConfig, key: str = "") -> ModelError:
    """Turn an error reply into the error to raise.

    Args:
        reply: One that `holds_error`.
        config: Names the model, the endpoint and the variable of the key in the message.
        key: Taken out of what the server says, should it repeat it.

    Returns:
        `EndpointFault` where another attempt may succeed; `RequestRefused` or its
        `ContextOverflow` where only this request is refused; else `ModelRefused`.
    """
    complaint = _Complaint.read(reply, key)
    status = _status(reply, complaint)
    request_id = reply.headers.get("x-request-id")
    head = (
        f"{reply.url} answered {status} to model {config.model!r}"
        f"{f' (request {request_id})' if request_id else ''}: "
        f"{complaint.message.rstrip('.') or 'it gives no reason'}."
    )
    if _over_window(complaint):
        return ContextOverflow(f"{head} Shorten the conversation, or lower max_tokens.")
    if status == 402 or complaint.names(_QUOTA):
        return ModelRefused(
            f"{head} The account has no money or quota left: top it up, or use another key."
        )
    if status == 413 or (status == 429 and _asks_too_much(complaint)):
        return RequestRefused(f"{head} This one request is larger than the limit: shorten it.")
    if complaint.names(_BLOCKED):
        return RequestRefused(
            f"{head} The endpoint's content policy blocked the prompt; it says nothing about the "
            "agent."
        )
    advice = reply.headers.get("x-should-retry")
    if advice == "true" or (advice != "false" and _is_passing(status)):
        return EndpointFault(head, retry_after_s(reply.headers))
    if _is_passing(status):
        return RequestRefused(f"{head} It advises against trying again. Look at its log.")
    if status in (401, 403):
        return ModelRefused(f"{head} {_about_the_key(config, key)}")
    return ModelRefused(f"{head} {_next_move(status, complaint, reply, config)}")


def _status(reply: HttpReply, complaint: _Complaint) -> int:
    if reply.status >= 300:
        return reply.status
    inner = int(complaint.code) if complaint.code.isdecimal() else 0
    return inner if 400 <= inner < 600 else 502  # an error without a number is the gateway's


def _over_window(complaint: _Complaint) -> bool:
    text = f"{complaint.code} {complaint.kind} {complaint.message}"
    return bool(_OVERFLOW.search(text))


def _asks_too_much(complaint: _Complaint) -> bool:
    """Tell whether one request is larger than the limit per minute, which no waiting cures."""
    found = _RATE.search(complaint.message)
    if not found:
        return False
    limit, requested = (int(number.replace(",", "")) for number in found.groups())
    return requested > limit


def _is_passing(status: int) -> bool:
    return status in (408, 409, 429) or status >= 500


def _about_the_key(config: OpenAIChatConfig, key: str) -> str:
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


def _next_move(
    status: int, complaint: _Complaint, reply: HttpReply, config: OpenAIChatConfig
) -> str:
    if 300 <= status < 400:
        place = reply.headers.get("location", "").partition("?")[0]
        return f"It redirects to {place!r}: correct base_url."
    if status == 404:
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
