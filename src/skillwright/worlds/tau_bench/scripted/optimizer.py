"""The scripted optimizer of the retail agent: its lessons, and their signs in failed calls."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from skillwright.worlds.scripted import Lesson, LessonAnalyst
from skillwright.worlds.tau_bench.scripted.agent import RetailRule, read_rules

WRITTEN: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("lessons.json").read_text(encoding="utf-8")
)
"""The texts of lessons and teachings; patterns are of what a failed and a good call show."""


def _has(text: str, but: str) -> Callable[[str], bool]:
    wanted, unwanted = re.compile(text, re.DOTALL), re.compile(but or r"(?!)", re.DOTALL)
    return lambda text: bool(wanted.search(text)) and not unwanted.search(text)


# The sign of the last: an item swapped, or a price given, and nothing else explains the failure.
LESSONS: Final[Mapping[RetailRule, Lesson]] = {
    RetailRule[rule]: Lesson(one["failure"], _has(one["seen"], one["but"]), (*one["wordings"],))
    for rule, one in WRITTEN["rules"].items()
}
"""Rule -> sign that it was missing, and lesson; the most common mistake first."""

SUPERSTITION: Final[tuple[str, ...]] = tuple(WRITTEN["superstition"])
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
