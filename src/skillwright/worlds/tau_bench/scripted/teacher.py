"""The retail teacher: skills from calls of the built-in store of tau_bench."""

import re
from collections.abc import Mapping
from typing import Any, Final

from skillwright.models.scripted.teacher import Insight, InsightTeacher, Teaching
from skillwright.worlds.tau_bench.scripted.agent import RetailRule
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS, SUPERSTITION, WRITTEN


class RetailTeacher(InsightTeacher):
    """Writes skills from calls of the built-in store; now and then from chance patterns."""

    def __init__(self) -> None:
        super().__init__("scripted:retail_teacher", _is_call, INSIGHTS, _FALLBACK, _BELIEFS)


def _is_call(text: str) -> bool:
    return "] tool call: " in text or "] agent to user: " in text


def _insight(name: str, one: Mapping[str, Any]) -> Insight:
    rule, pattern = RetailRule[name], re.compile(one["kept"], re.DOTALL)
    lesson = LESSONS[rule]
    teaching = Teaching(rule, "", one["name"], lesson.wordings, one["when"], *one["mistake"])
    return Insight(
        teaching, lambda text: bool(lesson.seen_in(text)), lambda text: bool(pattern.search(text))
    )


INSIGHTS: Final = tuple(_insight(rule, one) for rule, one in WRITTEN.items())

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
