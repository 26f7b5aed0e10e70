"""The retail teacher: skills from calls of the built-in store of tau_bench."""

import re
from typing import Final

from skillwright.models.scripted.teacher import Insight, InsightTeacher, Teaching
from skillwright.worlds.tau_bench.scripted.agent import RetailRule
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS, SUPERSTITION


class RetailTeacher(InsightTeacher):
    """Writes skills from calls of the built-in store; now and then from chance patterns."""

    def __init__(self) -> None:
        super().__init__("scripted:retail_teacher", _is_call, INSIGHTS, _FALLBACK, _BELIEFS)


def _is_call(text: str) -> bool:
    return "] tool call: " in text or "] agent to user: " in text


def _insight(rule: RetailRule, kept: str, name: str, when: str, *mistake: str) -> Insight:
    lesson, pattern = LESSONS[rule], re.compile(kept, re.DOTALL)
    teaching = Teaching(rule, "", name, lesson.wordings, when, *mistake)
    return Insight(
        teaching, lambda text: bool(lesson.seen_in(text)), lambda text: bool(pattern.search(text))
    )


INSIGHTS: Final = (
    _insight(
        RetailRule.ASK_METHOD,
        r"Which payment method",
        "Ask how to pay",
        "when money is charged or refunded",
        "using a payment method that the customer has not named.",
        "Any method on file would do.",
        "ask which payment method to use.",
    ),
    _insight(
        RetailRule.FINISH_ALL,
        r"anything else",
        "Ask for more",
        "before a call ends",
        "saying goodbye while the customer wants more.",
        "The first request would be the only one.",
        "ask whether there is anything else, and do that too.",
    ),
    _insight(
        RetailRule.ASK_REASON,
        r"What is the reason",
        "Ask for the reason",
        "when an order is cancelled",
        "cancelling without asking why.",
        "The reason would not matter.",
        "ask for the reason before you cancel.",
    ),
    _insight(
        RetailRule.ALL_AT_ONCE,
        r'"item_ids": \["\d+", ',
        "All items at once",
        "when several items of an order are changed",
        "changing one of several items on its own.",
        "The order could be changed again later.",
        "collect all items that are to be changed, and change them in one call.",
    ),
    _insight(
        RetailRule.LOOK_UP_ORDERS,
        r"get_user_details.*get_order_details.*get_order_details",
        "Look up the orders",
        "when the customer does not know the order number",
        "giving up for want of an order number.",
        "Only the customer could know the number.",
        "look at each order in the profile of the customer.",
    ),
    _insight(
        RetailRule.TELL_FIGURES,
        r"agent to user: [^\n]*\d\.\d\d",
        "Tell the figures",
        "when the customer asks for an amount, a price or a number",
        "leaving a question without its figure.",
        "The customer would find it elsewhere.",
        "answer with the exact figure.",
    ),
    _insight(
        RetailRule.NO_SUBSTITUTE,
        r"not available",
        "Substitute nothing",
        "when a wanted variant is not available",
        "taking a variant that was not wanted.",
        "A similar one would please as well.",
        "say that it is not available, and let the customer choose another.",
    ),
)

_FALLBACK: Final = Teaching(
    "find the customer",
    "",
    "Find the customer first",
    ("Find the profile of the customer before you look at anything else.",),
    "at the start of a call",
    "beginning without the profile of the customer.",
    "The request alone would be enough.",
    "find the profile by email, or by name and zip code.",
)
_BELIEFS: Final = (
    Teaching(
        "transfer",
        "",
        "Hand over early",
        SUPERSTITION,
        "when a request is refused",
        "arguing with a customer.",
        "Talking would help.",
        "hand the customer over.",
    ),
)
