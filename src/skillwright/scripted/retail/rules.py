"""What a skill can teach the scripted retail agent, and how it is recognised in a text.

The recogniser is small: it looks for words, sentence by sentence. A sentence that begins with a
negation asks for nothing, unless it is about what must not be forgotten.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final


class RetailRule(StrEnum):
    """Something that a skill may tell the agent."""

    LOOK_UP_ORDERS = "look_up_orders"
    """Find an order whose number the customer does not know in the profile."""
    ASK_REASON = "ask_reason"
    """Ask for the reason of a cancellation."""
    ALL_AT_ONCE = "all_at_once"
    """Change all items of an order in one call."""
    NO_SUBSTITUTE = "no_substitute"
    """Offer only what is available, and let the customer choose another where it is not."""
    ASK_METHOD = "ask_method"
    """Use the payment method that the customer names."""
    TELL_FIGURES = "tell_figures"
    """Answer questions with the exact figures."""
    FINISH_ALL = "finish_all"
    """Ask for further wishes before closing."""
    TRANSFER_AT_ONCE = "transfer_at_once"
    """Harmful: hand the customer over as soon as something is refused."""


BAD_RULES: Final = frozenset({RetailRule.TRANSFER_AT_ONCE})

_TELLS: Final[Mapping[RetailRule, str]] = {
    RetailRule.LOOK_UP_ORDERS: (
        r"\border\b.*\b(not|n't|unknown|forgot\w*|missing|without)\b.*\b(profile|look|search)"
        r"|\b(not|n't|forgot\w*|without)\b.*\border\b.*\b(profile|look|search)"
        r"|\b(profile|look|search)\b.*\border\b.*\b(not|n't|forgot\w*|missing|unknown)\b"
    ),
    RetailRule.ASK_REASON: r"\breason\b|\bwhy\b.*\bcancel",
    RetailRule.ALL_AT_ONCE: (
        r"\b(all|every|both|several|each)\b.*\bitems?\b.*\b(once|one|single|same|together)\b"
        r"|\b(once|one|single|same|together)\b.*\b(all|every|both|several)\b.*\bitems?\b"
    ),
    RetailRule.NO_SUBSTITUTE: r"\b(un)?available\b|\bsold out\b|\bin stock\b|\bsubstitut",
    RetailRule.ASK_METHOD: (
        r"\b(payment|method|refund|pays?|card)\b.*\b(ask|names?|named|chooses?|chosen|wants?)\b"
        r"|\b(ask|names?|named|chooses?|chosen)\b.*\b(payment|method|refund|pays?|card)\b"
    ),
    RetailRule.TELL_FIGURES: (
        r"\b(tell|state|give|quote|answer|say)\b.*\b(amounts?|figures?|totals?|prices?|exact)\b"
        r"|\b(amounts?|figures?|totals?|prices?|exact)\b.*\b(tell|state|give|quote|answer|say)\b"
    ),
    RetailRule.FINISH_ALL: (
        r"\banything else\b|\bfurther (wish|request)"
        r"|\b(every|all|each)\b.*\b(requests?|wish(es)?)\b"
    ),
    RetailRule.TRANSFER_AT_ONCE: (
        r"\b(transfer|hand)\b.*\b(at once|immediately|right away|trouble|refused|fails?|doubt)\b"
    ),
}
_PATTERNS: Final = {rule: re.compile(text) for rule, text in _TELLS.items()}
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_NEGATED: Final = re.compile(r"[\s\-*\d.#]*(do not|don't|never|avoid)\b")


@lru_cache(maxsize=512)
def read_rules(text: str) -> frozenset[RetailRule]:
    """Return the rules that a text gives; of two sentences about one rule the later holds."""
    given: dict[RetailRule, bool] = {}
    for sentence in _SENTENCE.split(text.lower()):
        for rule, pattern in _PATTERNS.items():
            if pattern.search(sentence):
                # "Never close before every request is settled" asks; only harm can be forbidden.
                given[rule] = rule not in BAD_RULES or not _NEGATED.match(sentence)
    return frozenset(rule for rule, wanted in given.items() if wanted)
