"""The retail teacher: skills from calls of the built-in store of tau_bench."""

import re
from collections.abc import Mapping
from typing import Any, Final

from skillwright.models.scripted.teacher import Insight, InsightTeacher, Teaching
from skillwright.worlds.tau_bench.scripted.agent import RetailRule
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS, WRITTEN


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


INSIGHTS: Final = tuple(_insight(rule, one) for rule, one in WRITTEN["rules"].items())


def _teaching(key: str, category: str, name: str, wordings: list[str], *texts: str) -> Teaching:
    return Teaching(key, category, name, tuple(wordings), *texts)


_FALLBACK: Final = _teaching(*WRITTEN["fallback"])
_BELIEFS: Final = tuple(_teaching(*one) for one in WRITTEN["beliefs"])
