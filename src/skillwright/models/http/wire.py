"""Tolerant readers of foreign JSON, and the errors and costs of calls to endpoints."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote

from skillwright.core import (
    Completion,
    ModelError,
    ModelRefused,
    ModelTimeout,
    RequestRefused,
    Usage,
)
from skillwright.core.marks import visible
from skillwright.models.prices import Prices

# The errors of a call to an endpoint:
#
# Below ModelError of core:
# ├── EndpointFault           the attempt failed and is retried
# │   └── GarbledReply            the reply holds no answer
# ├── ModelTimeout (core)     no answer in time; retried
# │   └── TurnTooLate             the turn would come after the deadline; nothing was sent
# ├── ModelRefused (core)     a retry does not help
# │   ├── WebPage                 not JSON but HTML; retried where the endpoint has answered before
# │   └── RequestRefused (core)   other requests may succeed
# │       └── ContextOverflow     the conversation exceeds the context window
# └── ReplyInvalid (core)     the answer does not have the requested form


BUSY = frozenset({429, 503, 529})
"""Statuses of a busy endpoint."""


class EndpointFault(ModelError):
    """An attempt failed, and a retry may succeed: overload, reset, rate limit.

    Args:
        message: URL without secrets, cause and advice.
        retry_after_s: Wait that the endpoint asks for.
        status: HTTP status that the error means, as some endpoints send errors inside a 200; 0 for
            the reply's own.
    """

    def __init__(self, message: str, retry_after_s: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.status = status

    @property
    def is_busy(self) -> bool:
        """Whether the endpoint is overloaded."""
        return self.status in BUSY


class GarbledReply(EndpointFault):
    """An endpoint answered with invalid JSON, or with JSON without an answer."""


class WebPage(ModelRefused):
    """An endpoint answered with a web page."""


class TurnTooLate(ModelTimeout):
    """A call's turn, or the pause that the endpoint asks for, ends after its deadline."""

    failed_calls = 0


class ContextOverflow(RequestRefused):
    """Prompt and answer together exceed the context window."""


HIDDEN = "***"

_SHORTEST = 6  # a shorter key is a word such as "EMPTY" and no secret
_BEGINNING = 8  # characters that identify a longer key


def hide_key(fault: ModelError, key: str) -> None:
    """Redact a key in a fault's message."""
    fault.args = (hidden(str(fault), key), *fault.args[1:])


def hidden(text: str, key: str) -> str:
    """Redact a key in a text, also if only its beginning is left."""
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

_MOST = 10**12  # per call; a database can still sum millions of these


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; anything else becomes an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> Sequence[Any]:
    """Return a JSON array; anything else becomes an empty one."""
    return value if isinstance(value, list) else ()


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def count(value: Any) -> int:
    """Return a whole number from 0 to `_MOST`; 0 for anything else."""
    whole = number(value)
    return whole if whole is not None else 0


def number(value: Any) -> int | None:
    """Return a whole number (also ``3.0``) from 0 to `_MOST`; ``None`` for anything else."""
    found = amount(value)
    if found is None or found != int(found):
        return None
    return min(int(value), _MOST)


def amount(value: Any) -> float | None:
    """Return a finite number of at least 0, or ``None``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before the conversion: an integer may be too large for a float.
    return float(min(value, _MOST)) if 0 <= value < float("inf") else None


def text(content: Any) -> str:
    """Return the text of content: a string, null, or parts with ``text``."""
    if isinstance(content, str):
        return content
    parts = (mapping(part).get("text") for part in sequence(content))
    return "".join(part for part in parts if isinstance(part, str))


def is_text(content: Any) -> bool:
    """Return whether content is valid for an answer: a string, null, or parts."""
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str | None) for part in content
    )


def without_marks(answer: Completion, request: Mapping[str, Any]) -> Completion:
    """Return an answer without reasoning and template marks in its text; see `visible`."""

    @cache
    def prompt() -> str:
        asked = [*sequence(request.get("messages")), *sequence(request.get("input"))]
        others = [one for one in map(mapping, asked) if one.get("role") != "assistant"]
        return json.dumps([request.get("system"), others], ensure_ascii=False, default=str)

    found = visible(
        answer.text,
        lambda mark: mark in prompt(),
        cut_off=answer.finish_reason == "length",
        has_reasoning=bool(answer.reasoning),
    )
    return replace(
        answer,
        text=found.text,
        reasoning=answer.reasoning or found.reasoning,
        marks="left" if found.left else "cut" if found.cut else "",
    )


def refuse_empty(answer: Completion, reason: Any, where: str) -> Completion:
    """Return an answer, or raise `GarbledReply` if it is empty for no known reason.

    A model may stop at once, or think up to its token limit. For other reasons the endpoint gave
    up, and the empty answer must not be scored.
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
    """Return the cost of a call in US dollars; ``None`` without prices."""
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
    """Add the usage to a fault; without token counts it is unknown."""
    known = usage.input_tokens + usage.output_tokens or usage.cost_usd
    fault.usage = replace(usage, calls=0, failed_calls=0) if known else Usage()
    return fault


logger = logging.getLogger(__name__)

MOST_ADDED = 1_000_000
"""Tokens that an endpoint may add to a request; each request token has at least a byte."""
MOST_WRITTEN = 1_000_000
"""Tokens of an answer with its reasoning."""
MOST_USD = 10_000.0
"""Upper limit for the cost of a call or a program run."""


class UsageCheck:
    """Discards implausible usage, and warns once per endpoint or program."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._was_said = False

    def plausible(self, usage: Usage, most_input: int, most_output: int) -> Usage:
        """Return the usage; only its call counts if tokens or cost exceed what is possible."""
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

    def plausible_of_call(self, usage: Usage, sent: bytes) -> Usage:
        """Check the usage of a call by its request's bytes; see `plausible`."""
        return self.plausible(usage, len(sent) + MOST_ADDED, MOST_WRITTEN)
