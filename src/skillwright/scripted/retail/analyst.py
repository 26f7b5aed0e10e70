"""A scripted optimizer for the retail agent: it reads failed calls and names what was missing."""

from collections.abc import Sequence

from skillwright.scripted.lesson_analyst import Lesson, LessonAnalyst
from skillwright.scripted.retail.lessons import LESSONS, SUPERSTITION
from skillwright.scripted.retail.rules import RetailRule, read_rules


class ScriptedRetailAnalyst(LessonAnalyst):
    """Reads calls of the built-in retail store and proposes edits of a skill.

    What a skill teaches it reads as the agent does, in whatever words.
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
