"""Reads JSON of other programs: a missing or wrong value is read as an empty one."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import quote

from skillwright.core import Completion, ModelError, ModelTimeout, RequestRefused, Usage
from skillwright.models.prices import Prices

# How a call to an endpoint fails, besides the errors that every package shares.
#
# Below ModelError of core:
# ├── EndpointFault           the attempt failed; the next one may succeed, and is made
# │   └── GarbledReply            it answered, but with something that is no answer
# ├── ModelTimeout (core)     no answer in time; tried again too
# │   └── TurnTooLate             its turn comes after its deadline; nothing was sent
# ├── ModelRefused (core)     asking again cannot help
# │   └── RequestRefused (core)   nor does it for this request, but others may be answered
# │       └── ContextOverflow     the conversation does not fit the model's window
# └── ReplyInvalid (core)     an answer came, but not in the form that was asked for


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


Fault = TypeVar("Fault", bound=ModelError)

_MOST = 10**12  # of anything in one call; a database can still add up millions of these


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> Sequence[Any]:
    """Return a JSON array, or an empty one."""
    return value if isinstance(value, list) else ()


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def count(value: Any) -> int:
    """Return a number of things, from 0 to what a database holds; ``3.0`` is one too."""
    whole = number(value)
    return whole if whole is not None else 0


def number(value: Any) -> int | None:
    """Return a number of things as `count` does, or ``None`` where it is none at all."""
    found = amount(value)
    if found is None or found != int(found):
        return None
    return min(int(value), _MOST)


def amount(value: Any) -> float | None:
    """Return a number that is neither negative nor endless, or ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is converted: a whole number may be too long for a float.
    return float(min(value, _MOST)) if 0 <= value < float("inf") else None


def text(content: Any) -> str:
    """Return content that is a string, null, or a list of parts with ``text``."""
    if isinstance(content, str):
        return content
    parts = (mapping(part).get("text") for part in sequence(content))
    return "".join(part for part in parts if isinstance(part, str))


def is_text(content: Any) -> bool:
    """Tell whether content is what an answer may be: a string, null, or a list of parts."""
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str | None) for part in content
    )


def refuse_empty(answer: Completion, reason: Any, where: str) -> Completion:
    """Return an answer, unless it is empty and the endpoint does not say why.

    A model may stop at once or think up to its limit. Where neither is said, the endpoint gave up,
    and an empty answer would be scored as if the model had given it.

    Raises:
        GarbledReply: It has neither text nor a tool call, and no known reason; with what was
            charged for it all the same.
    """
    calls = any(call.name for call in answer.tool_calls)
    known = answer.finish_reason in ("stop", "length", "content_filter")
    if known or calls or answer.text.strip():
        return answer
    fault = GarbledReply(
        f"{where} answered without text for model {answer.model[:80]!r}, and ended for no reason "
        f"that is known ({str(reason)[:80]!r}). Look at the server's log."
    )
    raise charged(fault, answer.usage)


def cost_usd(usage: Usage, prices: Prices | None, hour_writes: int = 0) -> float | None:
    """Return what a call cost, in US dollars; ``None`` without prices."""
    if prices is None:
        return None
    tier = prices.of_prompt(usage.input_tokens)
    fresh_price = tier.input_usd_per_mtok
    cached_price = tier.cached_input_usd_per_mtok
    write_price = tier.cache_write_usd_per_mtok
    write_price = fresh_price if write_price is None else write_price
    hour_price = tier.cache_write_1h_usd_per_mtok
    hour_price = write_price if hour_price is None else hour_price
    hour_writes = min(hour_writes, usage.cache_write_tokens)
    fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens)
    return (
        fresh * fresh_price
        + usage.cached_tokens * (fresh_price if cached_price is None else cached_price)
        + (usage.cache_write_tokens - hour_writes) * write_price
        + hour_writes * hour_price
        + usage.output_tokens * tier.output_usd_per_mtok
    ) / 1e6


def charged(fault: Fault, usage: Usage) -> Fault:
    """Say on a fault what was charged for it; nothing is known where no tokens are reported."""
    known = usage.input_tokens + usage.output_tokens or usage.cost_usd
    fault.usage = replace(usage, calls=0, failed_calls=0) if known else Usage()
    return fault


logger = logging.getLogger(__name__)

MOST_ADDED = 1_000_000
"""Tokens that an endpoint adds to a request's, none of them shorter than a byte."""
MOST_WRITTEN = 1_000_000
"""Tokens of one answer with its reasoning."""
MOST_USD = 10_000.0
"""What no call costs, nor a run of a program."""


class Doubt:
    """Believes what is plausible, and says once of an endpoint or program that it is not."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._was_said = False

    def believed(self, usage: Usage, most_input: int, most_output: int) -> Usage:
        """Return what a call used, or only that it was made."""
        tokens = usage.input_tokens <= most_input and usage.output_tokens <= most_output
        if tokens and (usage.cost_usd or 0.0) <= MOST_USD:
            return usage
        if not self._was_said:
            self._was_said = True
            logger.warning(
                "%s reports %d tokens read, %d written and a cost of %s USD for one call, which "
                "cannot be. Such numbers are left out, and what these calls cost is unknown.",
                self._where,
                usage.input_tokens,
                usage.output_tokens,
                usage.cost_usd,
            )
        return Usage(calls=usage.calls, failed_calls=usage.failed_calls, cost_usd=None)

    def believed_of_call(self, usage: Usage, sent: bytes) -> Usage:
        """Return the usage of a call, given the bytes that were sent; see `believed`."""
        return self.believed(usage, len(sent) + MOST_ADDED, MOST_WRITTEN)
