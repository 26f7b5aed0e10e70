"""The scripted optimizer of the retail agent: its lessons, and their signs in failed calls."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from skillwright.worlds.scripted import Lesson, LessonAnalyst
from skillwright.worlds.tau_bench.scripted.agent import RetailRule, read_rules

_SWAPS: Final = r"(modify_pending_order_items|exchange_delivered_order_items)"


def _has(text: str, but: str = "") -> Callable[[str], bool]:
    wanted, unwanted = re.compile(text, re.DOTALL), re.compile(but or r"(?!)", re.DOTALL)
    return lambda text: bool(wanted.search(text)) and not unwanted.search(text)


LESSONS: Final[Mapping[RetailRule, Lesson]] = {
    RetailRule.ASK_METHOD: Lesson(
        "used a payment method that the customer had not named",
        _has(r'"payment_method_id"', r"Which payment method"),
        (
            "Ask the customer which payment method to use, and use that one.",
            "Refund to, and charge, only the payment method that the customer names.",
        ),
    ),
    RetailRule.FINISH_ALL: Lesson(
        "said goodbye while the customer wanted more",
        _has(r"Goodbye\.", r"anything else"),
        (
            "Before you close, ask whether there is anything else, and do that too.",
            "Settle every request of the customer; never say goodbye after the first.",
        ),
    ),
    RetailRule.ASK_REASON: Lesson(
        "cancelled without asking why",
        _has(r"cancel_pending_order", r"What is the reason"),
        (
            "Ask for the reason before you cancel, and pass on the one that the customer gives.",
            "The reason of a cancellation is the customer's: ask for it.",
        ),
    ),
    RetailRule.ALL_AT_ONCE: Lesson(
        "changed one of several items, after which the order could not be changed again",
        _has(rf'(change|exchange) the .* and the .*{_SWAPS}[^\n]*"item_ids": \["\d+"\]'),
        (
            "Collect all items that are to be changed, and change them in one call.",
            "An order can be changed once: put every item into the same call.",
        ),
    ),
    RetailRule.LOOK_UP_ORDERS: Lesson(
        "gave up because the customer did not know the order number",
        _has(r"tell me the order number|without the order numbers"),
        (
            "If the customer does not know the order number, look through the profile's orders.",
            "Without an order number, look at each order in the customer's profile.",
        ),
    ),
    RetailRule.TELL_FIGURES: Lesson(
        "left a question without its figure",
        _has(r"find that in the email"),
        (
            "Answer questions with the exact figure: amount, price, tracking number.",
            "Tell the customer amounts, prices and tracking numbers in full.",
        ),
    ),
    RetailRule.NO_SUBSTITUTE: Lesson(
        "took a variant that was not wanted, or could not be had",
        # The rest: an item was swapped, or a price given, and nothing else explains the failure.
        _has(
            rf"\A(?=.*Which payment method)(?=.*anything else).*{_SWAPS}"
            r"|cheapest [\w ]+ costs.*The cheapest one costs"
        ),
        (
            "Offer only variants that are available, and substitute nothing unasked.",
            "Where a variant is not available, say so and let the customer choose another.",
        ),
    ),
}
"""Rule -> sign that it was missing, and lesson; the most common mistake first."""

SUPERSTITION: Final = (
    "If a request is refused, transfer the customer to a human agent at once.",
    "Hand customers over to a human agent immediately when something fails.",
)
"""Plausible advice that loses customers who wanted something else."""


class ScriptedRetailAnalyst(LessonAnalyst):
    """Reads calls of the built-in retail store and proposes edits of a skill.

    It recognizes rules in a skill as the agent does, in any wording.
    """

    _headings = ("# Analyst: failures", "# Analyst: successes")
    _turns_cited = 3
    _reasoning = "I read {} calls; {} kinds of mistake show in them."

    def __init__(self) -> None:
        super().__init__("scripted:retail_analyst", tuple(LESSONS.values()), SUPERSTITION)
        self._seed_name = "retail analyst"
        self._rules = {lesson.failure: rule for rule, lesson in LESSONS.items()}

    def _knows(self, skill: str, lesson: Lesson, wordings: Sequence[str]) -> bool:
        del wordings
        return self._rules[lesson.failure] in read_rules(skill)

    def _beliefs(self, skill: str) -> list[str]:
        del skill
        return list(self._superstitions)

    def _corrections(self, skill: str) -> list[str]:
        if RetailRule.TRANSFER_AT_ONCE not in read_rules(skill):
            return []
        return ["Do not transfer customers at once when something is refused."]
