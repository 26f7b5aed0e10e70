"""What an OpenAI-shaped error reply means: try again, or refuse with the next move.

The status alone does not tell: 429 is also what an exhausted account gets, and 400 a
conversation over the context window. Source: OpenAI's error guide and SDK; vLLM, llama.cpp,
Azure, DashScope.
"""

import re

from skillwright.core import ModelError, ModelRefused, RequestRefused
from skillwright.models.dialects.chat_reply import usage_of
from skillwright.models.dialects.complaint import Complaint, fault_of_status, holds_error
from skillwright.models.http.client import HttpReply
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.faults import ContextOverflow
from skillwright.models.http.wire import charged

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
# Alibaba's word for a limit per minute comes with the code that means no money elsewhere.
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
_RATE = re.compile(r"limit:?\s*(\d[\d,]*).*?requested:?\s*(\d[\d,]*)", re.IGNORECASE | re.DOTALL)
_SEED = re.compile(r"\bseed\b")


def fault_of_reply(reply: HttpReply, config: EndpointConfig, key: str = "") -> ModelError | None:
    """Turn an error reply into the error to raise.

    Returns:
        `EndpointFault` where another attempt may succeed; `RequestRefused` or its
        `ContextOverflow` where only this request is refused; else `ModelRefused`. ``None`` where
        the reply is no error. It carries what was charged for it all the same.
    """
    if not holds_error(reply):
        return None
    complaint = Complaint.read(reply, config)
    fault = _refusal_of_request(complaint) or fault_of_status(
        complaint, reply, config, key, _next_move(complaint, config)
    )
    return charged(fault, usage_of(reply.payload, config))


def _refusal_of_request(complaint: Complaint) -> ModelRefused | None:
    """Return the refusal that waiting does not cure and that no setting of the key explains."""
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


def _asks_too_much(complaint: Complaint) -> bool:
    """Tell whether one request is larger than the limit per minute, which no waiting cures."""
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
