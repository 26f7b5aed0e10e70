"""The error object of a reply, whatever server wrote it, and the words that are told of it."""

import re
from dataclasses import dataclass
from typing import Any

from skillwright.core import ModelError, ModelRefused, RequestRefused
from skillwright.models.http.client import HttpReply, is_stream, without_secrets
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.faults import EndpointFault
from skillwright.models.http.retry import retry_after_s

_LONGEST = 500
_LONGEST_ID = 100
_OVERLOADED_WAIT_S = 5.0  # everybody's load: one's own first retry would add to it
_REQUEST_IDS = ("x-request-id", "request-id")


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an endpoint complains of; absent fields are ``""``.

    Attributes:
        status: The HTTP status; for an error inside a 200 the number that it carries, else 502.
        message: One line.
        kind: Its ``type``.
        code: Its ``code``, or the ``error_code`` of its details.
        param: The field of the request that it blames.
        head: The beginning of every message about it.
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
        message = message[:_LONGEST]
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
                f"{message.rstrip('.') or 'it gives no reason'}."
            ),
        )

    def names(self, words: frozenset[str]) -> bool:
        """Tell whether its code or its kind is one of these."""
        return self.code in words or self.kind in words

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Tell whether a pattern is found in anything that it says."""
        return bool(pattern.search(f"{self.code} {self.kind} {self.message}"))

    @property
    def is_passing(self) -> bool:
        """Whether its status alone is one that another attempt may cure."""
        return self.status in (408, 409, 429) or self.status >= 500


def holds_error(reply: HttpReply) -> bool:
    """Tell whether a reply is an error: by its status, or, behind some gateways, inside a 200."""
    if not 200 <= reply.status < 300:
        return True
    if is_stream(reply.payload):
        return any(map(holds_error_object, reply.payload))
    return holds_error_object(reply.payload)


def holds_error_object(payload: Any) -> bool:
    """Tell whether JSON is an error; a part of an answer that stands beside it is none."""
    return isinstance(payload, dict) and bool(payload.get("error"))


def about_the_key(config: EndpointConfig, key: str) -> str:
    """Say what to do about a key that an endpoint refuses."""
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
    """Return the error that a complaint is by its status, where nothing else tells."""
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
    return inner if 400 <= inner < 600 else 502  # an error without a number is the gateway's
