"""Put a lesson or a false lesson into an edit of a skill."""

from typing import Final

from skillwright.core.skill import protected_regions
from skillwright.models.scripted.prompts import Reply
from skillwright.models.scripted.teacher import Randomness
from skillwright.worlds.alfworld.scripted.lessons import LESSONS, Lesson
from skillwright.worlds.scripted.edits import edit
from skillwright.worlds.scripted.skilltext import (
    Rule,
    Stance,
    read_conduct,
    read_habits,
    read_stances,
)

_INSERTS: Final = 0.6
_REPLACES_WEAK_LINE: Final = 0.25
_MISQUOTES: Final = 0.04
_MISQUOTED: Final = ("## General rules", "- Think before you act.")


class Writer:
    """Writes the edits of one answer, so that no two of them need the same line."""

    def __init__(self, skill: str, rng: Randomness) -> None:
        self._skill = skill
        self._rng = rng
        self._spent: set[str] = set()  # lines that an edit deletes, headings that one adds

    def teach(self, lesson: Lesson, sentence: str) -> Reply:
        """Write a lesson in place of a line that says the opposite, or below a similar one."""
        opposite = self._opposite(lesson.rule)
        if opposite:
            return self._instead_of(opposite, lesson, sentence)
        if self._skill and self._rng.chance(f"misquote {lesson.rule}") < _MISQUOTES:
            quoted = self._rng.pick(f"misquote {lesson.rule}", _MISQUOTED)
            if quoted not in self._skill:
                return edit("insert_after", quoted, f"- {sentence}")
        weak = [line for line in self._skill.splitlines() if self._is_weak(line)]
        if weak and self._rng.chance(f"replace {lesson.rule}") < _REPLACES_WEAK_LINE:
            line = self._rng.pick(f"replace {lesson.rule}", weak)
            self._spent.add(line)
            return edit("replace", line, f"- {sentence}")
        return self._add(lesson.topic, f"- {sentence}", lesson.rule)

    def believe(self, sentence: str, kind: str) -> Reply:
        """Write a false lesson at any place."""
        anchors = [stance.source for stance in read_stances(self._skill)]
        usable = [line for line in dict.fromkeys(anchors) if self._is_usable(line)]
        if usable and self._rng.chance(f"insert {kind}") < _INSERTS:
            return edit("insert_after", self._rng.pick(kind, usable), f"- {sentence}")
        return edit("append", "", f"- {sentence}")

    def _add(self, topic: str, line: str, rule: Rule) -> Reply:
        like = [
            stance.source
            for stance in read_stances(self._skill)
            if LESSONS[stance.rule].topic == topic and self._is_usable(stance.source)
        ]
        if like and self._rng.chance(f"insert {rule}") < _INSERTS:
            return edit("insert_after", like[-1], line)
        heading = f"## {topic}"
        if heading in self._spent or heading in self._skill.splitlines():
            return edit("append", "", line)
        self._spent.add(heading)
        return edit("append", "", f"{heading}\n{line}")

    def _opposite(self, rule: Rule) -> Stance | None:
        """Return the skill's harmful statement about a rule, if any."""
        stance = read_conduct(self._skill).stances.get(rule)
        return stance if stance and stance.is_harmful else None

    def _instead_of(self, stance: Stance, lesson: Lesson, sentence: str) -> Reply:
        # A line that is good for something else stays; a later line overrides it.
        others = [one for one in read_stances(self._skill) if one.source == stance.source]
        if not self._is_usable(stance.source) or not all(one.is_harmful for one in others):
            return edit("append", "", f"- {sentence}")
        self._spent.add(stance.source)
        if lesson.pattern:
            return edit("replace", stance.source, f"- {sentence}")
        return edit("delete", self._with_gap(stance.source), "")

    def _with_gap(self, line: str) -> str:
        """Return a line with the blank lines after it, or before it if it is the last."""
        before, _, after = self._skill.partition(line)
        gap = after[: len(after) - len(after.lstrip("\n"))]
        return f"{line}{gap}" if gap else before[len(before.rstrip("\n")) :] + line

    def _is_weak(self, line: str) -> bool:
        """Tell whether a line is a bullet that teaches nothing."""
        tells = read_stances(line) or read_habits(line)
        return line.startswith("- ") and not tells and self._is_usable(line)

    def _is_usable(self, line: str) -> bool:
        """Tell whether an edit may target a line: it is unique and not protected."""
        at = self._skill.find(line)
        guarded = any(span.start <= at < span.end for span in protected_regions(self._skill))
        return at >= 0 and self._skill.count(line) == 1 and not guarded and line not in self._spent
