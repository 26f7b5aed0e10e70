"""How a call to an endpoint fails, beside the errors that every room shares.

ModelError (core)
├── EndpointFault           the attempt failed; the next one may succeed, and is made
│   └── GarbledReply            it answered, but with something that is no answer
├── ModelTimeout (core)     no answer in time; tried again too
│   └── TurnTooLate             its turn comes after its deadline; nothing was sent
├── ModelRefused (core)     asking again cannot help
│   └── RequestRefused (core)   nor does it for this request, but others may be answered
│       └── ContextOverflow     the conversation does not fit the model's window
└── ReplyInvalid (core)     an answer came, but not in the form that was asked for
"""

from urllib.parse import quote

from skillwright.core import ModelError, ModelTimeout, RequestRefused

BUSY = frozenset({429, 503, 529})
"""Statuses with which an endpoint says that it is asked for too much."""


class EndpointFault(ModelError):
    """An attempt failed in a way that another attempt may cure: overload, reset, rate limit.

    Args:
        message: The URL without secrets, the cause, and the next move.
        retry_after_s: How long the endpoint asks to wait, where it says so.
        status: What it means as an HTTP status, where it says so: some endpoints send their errors
            inside a 200. 0: nothing but the reply's own status is known.
    """

    def __init__(self, message: str, retry_after_s: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.status = status

    @property
    def is_busy(self) -> bool:
        """Whether the endpoint says that it is asked for too much."""
        return self.status in BUSY


class GarbledReply(EndpointFault):
    """An endpoint answered with broken JSON, or with JSON that holds no answer."""


class TurnTooLate(ModelTimeout):
    """A call's turn, or the pause that the endpoint asks for, ends after the call's deadline."""

    failed_calls = 0


class ContextOverflow(RequestRefused):
    """The prompt and the answer do not fit the model's context window together."""


# Takes a key out of what an endpoint says: some repeat it, in any field of a reply or header.


HIDDEN = "***"

_SHORTEST = 6  # a key of fewer characters is a word, such as "EMPTY", and no secret
_BEGINNING = 8  # characters of a longer key that give it away


def hide_key(fault: ModelError, key: str) -> None:
    """Take a key out of the message of a fault."""
    fault.args = (hidden(str(fault), key), *fault.args[1:])


def hidden(text: str, key: str) -> str:
    """Return a text without a key, also where a cut has left only the beginning of it."""
    if len(key) < _SHORTEST:
        return text
    for form in {key, quote(key, ""), key.replace("/", "\\/")}:
        text = _without(text, form)
    return text


def _without(text: str, key: str) -> str:
    least = min(_BEGINNING, len(key))
    start = text.find(key[:least])
    while start >= 0:
        end = start + least
        while end < len(text) and end - start < len(key) and text[end] == key[end - start]:
            end += 1
        text = text[:start] + HIDDEN + text[end:]
        start = text.find(key[:least], start + len(HIDDEN))
    return text
