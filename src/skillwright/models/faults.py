"""How a call to an endpoint fails, beside the errors that every room shares.

ModelError (core)
├── EndpointFault           the attempt failed; the next one may succeed, and is made
├── ModelTimeout (core)     no answer in time; tried again too
├── ModelRefused (core)     asking again cannot help
│   └── RequestRefused (core)   nor does it for this request, but others may be answered
│       └── ContextOverflow     the conversation does not fit the model's window
└── ReplyInvalid (core)     an answer came, but not in the form that was asked for
"""

from skillwright.core import ModelError, RequestRefused


class EndpointFault(ModelError):
    """An attempt failed in a way that another attempt may cure: overload, reset, rate limit.

    Args:
        message: The URL without secrets, the cause, and the next move.
        retry_after_s: How long the endpoint asks to wait, where it says so.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ContextOverflow(RequestRefused):
    """The prompt and the answer do not fit the model's context window together."""
