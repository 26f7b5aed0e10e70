"""What an error reply of Anthropic's messages means, by its type and code, not its words."""

import re
from dataclasses import replace

from skillwright.core import ModelError, ModelRefused, RequestRefused
from skillwright.models.dialects.claude_config import ClaudeChatConfig
from skillwright.models.dialects.complaint import Complaint, fault_of_status, holds_error
from skillwright.models.http.client import HttpReply
from skillwright.models.http.faults import ContextOverflow
from skillwright.models.http.retry import retry_after_s

# A prompt over the window has no code of its own.
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
    """Turn an error reply into the error to raise; an error event of a stream is one too.

    Returns:
        `EndpointFault` where another attempt may succeed; `RequestRefused` or its
        `ContextOverflow` where only this request is refused; else `ModelRefused`. ``None`` where
        the reply is no error.
    """
    if not holds_error(reply):
        return None
    complaint = Complaint.read(reply, config)
    # Inside a stream, whose own status was 200, the type is all that there is.
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
    """Tell whether a 429 is a cap, which only Anthropic shows so: gateways forget the header."""
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
