"""A fault of the infrastructure, kept apart from every score."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from skillwright.core.codec import JsonRecord
from skillwright.core.errors import EnvError, ModelError, ModelRefused, ModelTimeout, ReplyInvalid


class FailureCause(StrEnum):
    """The boundary that a fault crossed."""

    MODEL = "model"
    """The policy's endpoint failed after its retries."""
    MODEL_REFUSED = "model_refused"
    """The endpoint refused the request (key, model name, context length)."""
    REPLY = "reply"
    """The model's answer did not have the form that was asked for."""
    ENVIRONMENT = "environment"
    """The environment raised, or broke its contract."""
    USER = "user"
    """A simulated user could not be reached."""
    TIMEOUT = "timeout"
    """A deadline passed."""


@dataclass(frozen=True, slots=True)
class Failure(JsonRecord):
    """Why an episode has no reward. It is retried, reported apart, and never a zero or a pass."""

    cause: FailureCause
    message: str

    @classmethod
    def of(cls, fault: BaseException) -> Self:
        """Charge an exception to the boundary that it crossed."""
        return cls(_cause(fault), str(fault) or type(fault).__name__)


def _cause(fault: BaseException) -> FailureCause:
    match fault:
        case ModelRefused():
            return FailureCause.MODEL_REFUSED
        case ReplyInvalid():
            return FailureCause.REPLY
        case ModelTimeout() | TimeoutError():
            return FailureCause.TIMEOUT
        case ModelError():
            return FailureCause.MODEL
        case EnvError():
            return FailureCause.ENVIRONMENT
        case _:
            return FailureCause.ENVIRONMENT
