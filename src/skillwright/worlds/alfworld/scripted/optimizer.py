"""The scripted optimizer of household skills."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.core.skill import protected_regions
from skillwright.models.scripted.prompts import (
    Reading,
    Reply,
    Retrospect,
    read_reading,
    read_retrospect,
)
from skillwright.models.scripted.teacher import Randomness
from skillwright.worlds.alfworld.scripted.diagnosis import Diagnosis, diagnose, read_episodes
from skillwright.worlds.alfworld.scripted.lessons import (
    FROM_FAILURES,
    FROM_SUCCESSES,
    LESSONS,
    Lesson,
    Superstition,
    success_patterns,
    tempted_by,
)
from skillwright.worlds.scripted.edits import are_alike, as_suggestions, as_whole_skill, edit, says
from skillwright.worlds.scripted.optimizer import ScriptedOptimizer
from skillwright.worlds.scripted.skilltext import (
    BAD_RULES,
    GOOD_RULES,
    Conduct,
    Rule,
    Stance,
    read_conduct,
    read_habits,
    read_stances,
)

_NEXT_STEP = re.compile(r"^(?=Step \d+: )", re.MULTILINE)
_STEP = re.compile(r"Step \d+: (\w+)")
_EDIT = re.compile(
    r"^- (?P<op>append|insert_after|replace|delete|[a-z]+_rules?|clarify|rewrite)"
    r'(?: "(?P<target>.*?)")?(?:: (?P<content>.*))?$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class EarlierStep:
    """One earlier step."""

    action: str  # the gate's decision (``accept``, ``reject``, ...), or why there was none
    texts: tuple[str, ...]  # texts of the step's edits, each on one line
    deleted: tuple[str, ...]  # lines that they deleted

    @property
    def was_refused(self) -> bool:
        """Whether a candidate was judged and rejected."""
        return self.action in {"reject", "undecided"}

    @property
    def lessons(self) -> frozenset[Rule]:
        """The rules that it taught, if good, or removed, if harmful."""
        taught = {say.rule for text in self.texts for say in says(text) if not say.is_harmful}
        cleared = {say.rule for text in self.deleted for say in says(text) if say.is_harmful}
        return frozenset(taught | cleared)


@dataclass(frozen=True, slots=True)
class Memory:
    """The earlier steps, oldest first."""

    steps: tuple[EarlierStep, ...] = ()

    def has_tried(self, text: str) -> bool:
        """Tell whether a step said the same, in any wording."""
        return any(are_alike(text, tried) for step in self.steps for tried in step.texts)

    def used_words(self, text: str) -> bool:
        """Tell whether a rejected step used exactly these words."""
        return any(text in tried for step in self.steps if step.was_refused for tried in step.texts)

    @property
    def spoilt_lessons(self) -> frozenset[Rule]:
        """Lessons of the last judged step, if it was rejected.

        If they still seem needed, something else in that step may have been the cause.
        """
        judged = [step for step in self.steps if step.was_refused or step.action == "accept"]
        return judged[-1].lessons if judged and judged[-1].was_refused else frozenset()


def read_memory(text: str) -> Memory:
    """Read the steps in an analyst's prompt."""
    blocks = [(_STEP.match(block), block) for block in _NEXT_STEP.split(text)]
    return Memory(tuple(_step(head[1], block) for head, block in blocks if head))


def _step(action: str, block: str) -> EarlierStep:
    edits = list(_EDIT.finditer(block))
    texts = tuple(edit["content"] for edit in edits if edit["content"])
    deleted = tuple(edit["target"] for edit in edits if edit["op"] == "delete" and edit["target"])
    return EarlierStep(action, texts, deleted)


# Probabilities of a false lesson: low while there is enough to learn.
_BELIEVES_BESIDE_LESSONS: Final = 0.2
_BELIEVES_FOR_WANT_OF_LESSONS: Final = 0.4
_BELIEVES_OF_SUCCESSES: Final = 0.3
_ENOUGH_LESSONS: Final = 2

_MOST_WITNESSES: Final = 3
_TURNS_OF_A_WITNESS: Final = 2
"""A false lesson cites few trajectories, and few turns of each."""

Evidence = Mapping[str, Sequence[int]]


def analyze_failures(user: str, seed: int) -> Reply:
    """Answer a failure analyst's prompt."""
    return _Analysis(read_reading(user), "failure", seed).of_failures()


def analyze_successes(user: str, seed: int) -> Reply:
    """Answer a success analyst's prompt."""
    return _Analysis(read_reading(user), "success", seed).of_successes()


class _Analysis:
    """One analyst's work; trajectories with another outcome are ignored."""

    def __init__(self, reading: Reading, outcome: str, seed: int) -> None:
        shown = [one for one in reading.trajectories if one.outcome == outcome]
        self._episodes = read_episodes(shown)
        self._read = len(shown)
        self._reading = reading
        self._memory: Memory = read_memory(reading.earlier)
        self._conduct: Conduct = read_conduct(reading.skill)
        self._found = diagnose(self._episodes) if outcome == "failure" else []
        # The seed depends on what was understood, so irrelevant words in a transcript change
        # nothing.
        understood = [
            reading.skill,
            reading.earlier,
            reading.budget,
            [
                (episode.id, [visit.arrival for visit in episode.visits])
                for episode in self._episodes
            ],
            [(one.rule, dict(one.shown)) for one in self._found],
        ]
        rng = Randomness(derive_seed("analyst", outcome, seed, digest(understood)))
        self._rng = rng
        self._writer = Writer(reading.skill, rng)

    def of_failures(self) -> dict[str, Any]:
        """Name the mistakes, and propose what would have prevented them."""
        found = [one for one in self._found if self._is_mistake(one)]
        lessons = [one for one in found if self._is_needed(one.rule)]
        few = len(lessons) < _ENOUGH_LESSONS
        chance = _BELIEVES_FOR_WANT_OF_LESSONS if few else _BELIEVES_BESIDE_LESSONS
        is_free = self._reading.budget > min(len(lessons), 1)  # the first lesson has priority
        belief = self._belief(FROM_FAILURES, chance) if is_free else []
        room = self._reading.budget - len(belief)
        edits = [self._lesson(one) for one in lessons[:room]] + belief
        return {
            "reasoning": self._reasoning([LESSONS[one.rule].failure for one in found], edits),
            "failure_summary": [_named(one) for one in found],
            "patch": {"edits": edits},
        }

    def of_successes(self) -> dict[str, Any]:
        """Report what worked. The only edit that successes lead to is a random false lesson."""
        patterns = success_patterns(self._episodes)
        missing = sum(not self._conduct.follows(rule) for rule in GOOD_RULES)
        few = missing < _ENOUGH_LESSONS
        chance = _BELIEVES_FOR_WANT_OF_LESSONS if few else _BELIEVES_OF_SUCCESSES
        edits = self._belief(FROM_SUCCESSES, chance) if self._reading.budget else []
        return {
            "reasoning": self._reasoning(patterns, edits),
            "success_patterns": patterns,
            "patch": {"edits": edits},
        }

    def _is_mistake(self, one: Diagnosis) -> bool:
        """Tell whether a bad rule's effect comes from the skill, or a good rule's lapse counts."""
        return one.rule not in BAD_RULES or self._conduct.follows(one.rule)

    def _is_needed(self, rule: Rule) -> bool:
        """Tell whether the skill lacks a good rule, or still has a bad one."""
        return self._conduct.follows(rule) == (rule in BAD_RULES)

    def _lesson(self, one: Diagnosis) -> Reply:
        lesson = LESSONS[one.rule]
        unused = [text for text in lesson.wordings if not self._memory.used_words(text)]
        sentence = self._rng.pick(f"word {one.rule}", unused or lesson.wordings)
        return {**self._writer.teach(lesson, sentence), "evidence": _cited(one.shown)}

    def _belief(self, among: Sequence[Superstition], chance: float) -> list[Reply]:
        """Return the false lesson that the analyst believes, or nothing."""
        if self._is_careful or self._rng.chance("believe") >= chance:
            return []
        options = {
            one.name: (one, witnesses)
            for one in among
            if (witnesses := tempted_by(one, self._episodes)) and self._is_new_belief(one)
        }
        if not options:
            return []
        one, witnesses = options[self._rng.pick("belief", options)]
        sentence = self._rng.pick("word belief", one.wordings)
        shown = {
            episode.id: [visit.arrival for visit in episode.visits[:_TURNS_OF_A_WITNESS]]
            for episode in witnesses[:_MOST_WITNESSES]
        }
        return [{**self._writer.believe(sentence, one.name), "evidence": _cited(shown)}]

    @property
    def _is_careful(self) -> bool:
        """Whether the last step was rejected with lessons still missing: try them alone."""
        return any(map(self._is_needed, self._memory.spoilt_lessons))

    def _is_new_belief(self, one: Superstition) -> bool:
        if one.rule is not None:
            stance = self._conduct.stances.get(one.rule)
            if stance and stance.wanted == one.wanted:
                return False
        known = (text for text in one.wordings if text in self._reading.skill)
        return not any(known) and not any(map(self._memory.has_tried, one.wordings))

    def _reasoning(self, seen: Sequence[str], edits: Sequence[Reply]) -> str:
        if not self._episodes:
            return f"None of {self._read} trajectories is one that I can read; I propose nothing."
        named = "; ".join(text.rstrip(".") for text in seen) or "nothing that a rule would change"
        close = "The edits address it." if edits else "The skill needs no edit for that."
        return f"I read {len(self._episodes)} trajectories. What they show: {named}. {close}"


def _named(one: Diagnosis) -> dict[str, Any]:
    lesson = LESSONS[one.rule]
    return {
        "failure_type": lesson.failure,
        "count": len(one.shown),
        "description": lesson.cause,
        "ids": list(one.shown),
    }


def _cited(shown: Evidence) -> list[dict[str, Any]]:
    return [{"id": name, "turns": list(turns)} for name, turns in shown.items()]


_MOST_LESSONS: Final = 3
_FAILING: Final = ("regressed", "persistent_fail")


def slow_update(user: str, seed: int) -> Reply:
    """Answer a slow-update prompt: teach what failing games lack, and keep earlier guidance."""
    retro = read_retrospect(user)
    conduct = read_conduct(retro.skill)
    lacking = [one for one in _mistakes(retro) if _is_lacking(one, conduct)][:_MOST_LESSONS]
    rng = Randomness(derive_seed("slow update", seed, digest([retro.skill, retro.previous])))
    lessons = [f"- {rng.pick(f'word {one.rule}', LESSONS[one.rule].wordings)}" for one in lacking]
    named = "; ".join(LESSONS[one.rule].failure for one in lacking)
    return {
        "reasoning": f"What fails still: {named or 'nothing that a rule would change'}.",
        "slow_update_content": "\n".join([*retro.earlier.split("\n"), *lessons]).strip(),
    }


def remember(user: str) -> Reply:
    """Answer a meta-skill prompt: name the persisting mistakes and the lessons."""
    retro = read_retrospect(user)
    before, now = read_conduct(retro.previous), read_conduct(retro.skill)
    learned = [r for r in LESSONS if r not in BAD_RULES and now.follows(r) > before.follows(r)]
    notes = [
        *(f"- This still happens: {LESSONS[one.rule].failure}." for one in _mistakes(retro)),
        *(f"- The last epoch taught against this: {LESSONS[rule].failure}." for rule in learned),
    ]
    return {
        "reasoning": f"{len(retro.trajectories)} games were played under both skills.",
        "meta_skill_content": "\n".join(notes),
    }


def _mistakes(retro: Retrospect) -> Sequence[Diagnosis]:
    """Find the mistakes under the current skill, regressions first."""
    found: dict[str, Diagnosis] = {}
    for category in _FAILING:
        shown = [one for one in retro.trajectories if one.outcome == category]
        for one in diagnose(read_episodes(shown)):
            found.setdefault(one.rule, one)
    return list(found.values())


def _is_lacking(one: Diagnosis, conduct: Conduct) -> bool:
    return conduct.follows(one.rule) == (one.rule in BAD_RULES)


def execution_notes(user: str) -> list[str]:
    """Return reminders of what failed games did not do although the skill says it."""
    reading = read_reading(user)
    conduct = read_conduct(reading.skill)
    failed = [one for one in reading.trajectories if one.outcome == "failure"]
    found = diagnose(read_episodes(failed))
    lapses = [d.rule for d in found if d.rule not in BAD_RULES and conduct.follows(d.rule)]
    return [f"Remember: {LESSONS[rule].wordings[0]}" for rule in lapses]


class ScriptedAnalyst(ScriptedOptimizer):
    """Reads household trajectories and proposes edits of a skill.

    Like a language model it sometimes proposes a false lesson, or quotes a line that is not there.
    """

    identity = "scripted:analyst"
    prose = (
        "I am a scripted analyst. I read trajectories of household tasks and propose, merge and "
        "rank edits of a skill; I cannot tell what this message asks for."
    )

    def execution_notes(self, user: str) -> list[str]:
        """Return reminders of what failed games did not do although the skill says it."""
        return execution_notes(user)

    def answer(self, heading: str, user: str, seed: int) -> Reply:
        """Answer a prompt of the learner."""
        match heading:
            case "# Analyst: failures":
                return analyze_failures(user, seed)
            case "# Analyst: successes":
                return analyze_successes(user, seed)
            case "# Analyst: failures, suggestions":
                return as_suggestions(analyze_failures(user, seed))
            case "# Analyst: successes, suggestions":
                return as_suggestions(analyze_successes(user, seed))
            case "# Analyst: failures, whole skill":
                return as_whole_skill(user, analyze_failures(user, seed))
            case "# Analyst: successes, whole skill":
                return as_whole_skill(user, analyze_successes(user, seed))
            case "# Slow update":
                return slow_update(user, seed)
            case "# Meta skill":
                return remember(user)
            case _:
                return super().answer(heading, user, seed)


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
