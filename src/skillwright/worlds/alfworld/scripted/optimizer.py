"""The scripted optimizer of household skills: it answers every prompt of the learner."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skillwright.core import Message
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import derive_seed
from skillwright.models.scripted.prompts import (
    Reading,
    Reply,
    Retrospect,
    Unreadable,
    json_list_under,
    read_reading,
    read_retrospect,
)
from skillwright.models.scripted.teacher import Randomness, ScriptedModel, first_of, heading_of
from skillwright.worlds.alfworld.scripted.diagnosis import Diagnosis, diagnose, read_episodes
from skillwright.worlds.alfworld.scripted.edits import (
    Writer,
    are_alike,
    as_suggestions,
    as_whole_skill,
    decide,
    merge,
    merge_skills,
    merge_suggestions,
    rank,
    rank_suggestions,
    repair,
    rewrite,
    says,
)
from skillwright.worlds.alfworld.scripted.lessons import (
    FROM_FAILURES,
    FROM_SUCCESSES,
    LESSONS,
    Superstition,
    success_patterns,
    tempted_by,
)
from skillwright.worlds.scripted.skilltext import BAD_RULES, GOOD_RULES, Conduct, Rule, read_conduct

# What an analyst reads about earlier steps: what was tried, and the outcome.


_NEXT_STEP = re.compile(r"^(?=Step \d+: )", re.MULTILINE)
_STEP = re.compile(r"Step \d+: (\w+)")
_EDIT = re.compile(
    r"^- (?P<op>append|insert_after|replace|delete|[a-z]+_rules?|clarify|rewrite)"
    r'(?: "(?P<target>.*?)")?(?:: (?P<content>.*))?$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class EarlierStep:
    """One step."""

    action: str  # what the gate decided (``accept``, ``reject``, ...), or that it was not asked
    texts: tuple[str, ...]  # what the step's edits said, each on one line
    deleted: tuple[str, ...]  # lines that they were to take out

    @property
    def was_refused(self) -> bool:
        """A candidate was judged and did not replace the skill."""
        return self.action in {"reject", "undecided"}

    @property
    def lessons(self) -> frozenset[Rule]:
        """The rules about which it taught something good, or took out something harmful."""
        taught = {say.rule for text in self.texts for say in says(text) if not say.is_harmful}
        cleared = {say.rule for text in self.deleted for say in says(text) if say.is_harmful}
        return frozenset(taught | cleared)


@dataclass(frozen=True, slots=True)
class Memory:
    """The steps so far, oldest first."""

    steps: tuple[EarlierStep, ...] = ()

    def has_tried(self, text: str) -> bool:
        """Tell whether a step said the same, in these or other words."""
        return any(are_alike(text, tried) for step in self.steps for tried in step.texts)

    def used_words(self, text: str) -> bool:
        """Tell whether a step that was refused used exactly these words."""
        return any(text in tried for step in self.steps if step.was_refused for tried in step.texts)

    @property
    def spoilt_lessons(self) -> frozenset[Rule]:
        """Lessons of the last step that was judged, where it was refused.

        If they still seem needed, something else in that step may have been to blame.
        """
        judged = [step for step in self.steps if step.was_refused or step.action == "accept"]
        return judged[-1].lessons if judged and judged[-1].was_refused else frozenset()


def read_memory(text: str) -> Memory:
    """Read the steps as analysts are shown them."""
    blocks = [(_STEP.match(block), block) for block in _NEXT_STEP.split(text)]
    return Memory(tuple(_step(head[1], block) for head, block in blocks if head))


def _step(action: str, block: str) -> EarlierStep:
    edits = list(_EDIT.finditer(block))
    texts = tuple(edit["content"] for edit in edits if edit["content"])
    deleted = tuple(edit["target"] for edit in edits if edit["op"] == "delete" and edit["target"])
    return EarlierStep(action, texts, deleted)


# What an analyst answers after reading trajectories.


# How often chance is taken for a lesson: seldom while there is enough to learn.
_BELIEVES_BESIDE_LESSONS: Final = 0.2
_BELIEVES_FOR_WANT_OF_LESSONS: Final = 0.4
_BELIEVES_OF_SUCCESSES: Final = 0.3
_ENOUGH_LESSONS: Final = 2

_MOST_WITNESSES: Final = 3
_TURNS_OF_A_WITNESS: Final = 2
"""A superstition cites few trajectories, and not much of each."""

Evidence = Mapping[str, Sequence[int]]


def analyze_failures(user: str, seed: int) -> Reply:
    """Answer a failure analyst's prompt."""
    return _Analysis(read_reading(user), "failure", seed).of_failures()


def analyze_successes(user: str, seed: int) -> Reply:
    """Answer a success analyst's prompt."""
    return _Analysis(read_reading(user), "success", seed).of_successes()


class _Analysis:
    """One analyst's work; trajectories with another outcome are passed over."""

    def __init__(self, reading: Reading, outcome: str, seed: int) -> None:
        shown = [one for one in reading.trajectories if one.outcome == outcome]
        self._episodes = read_episodes(shown)
        self._read = len(shown)
        self._reading = reading
        self._memory: Memory = read_memory(reading.earlier)
        self._conduct: Conduct = read_conduct(reading.skill)
        self._found = diagnose(self._episodes) if outcome == "failure" else []
        # The seed comes from what was understood, so stray words in a transcript change nothing.
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
        is_free = self._reading.budget > min(len(lessons), 1)  # the first lesson goes before
        belief = self._belief(FROM_FAILURES, chance) if is_free else []
        room = self._reading.budget - len(belief)
        edits = [self._lesson(one) for one in lessons[:room]] + belief
        return {
            "reasoning": self._reasoning([LESSONS[one.rule].failure for one in found], edits),
            "failure_summary": [_named(one) for one in found],
            "patch": {"edits": edits},
        }

    def of_successes(self) -> dict[str, Any]:
        """Confirm what worked; what nobody did wrong needs no rule, but chance may seem one."""
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
        """What a bad rule asks for is a mistake of the skill, else a slip of the agent."""
        return one.rule not in BAD_RULES or self._conduct.follows(one.rule)

    def _is_needed(self, rule: Rule) -> bool:
        """The skill does not give a good rule yet, or still gives a bad one."""
        return self._conduct.follows(rule) == (rule in BAD_RULES)

    def _lesson(self, one: Diagnosis) -> Reply:
        lesson = LESSONS[one.rule]
        unused = [text for text in lesson.wordings if not self._memory.used_words(text)]
        sentence = self._rng.pick(f"word {one.rule}", unused or lesson.wordings)
        return {**self._writer.teach(lesson, sentence), "evidence": _cited(one.shown)}

    def _belief(self, among: Sequence[Superstition], chance: float) -> list[Reply]:
        """Return the superstition that the analyst falls for, or nothing."""
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
        """The last step was refused with lessons that are still missing: they get a clean try."""
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


# What an optimizer writes at an epoch's end, from the same tasks under two skills.


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
    """Answer a meta-skill prompt: name the mistakes that persist, and what was learned."""
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
    """Find what went wrong under the current skill, regressions first."""
    found: dict[str, Diagnosis] = {}
    for category in _FAILING:
        shown = [one for one in retro.trajectories if one.outcome == category]
        for one in diagnose(read_episodes(shown)):
            found.setdefault(one.rule, one)
    return list(found.values())


def _is_lacking(one: Diagnosis, conduct: Conduct) -> bool:
    return conduct.follows(one.rule) == (one.rule in BAD_RULES)


# Slips of the agent that no rule would change, because the skill has the rule.


HEADING = "\n# Execution notes\n"
"""What is in an analyst's prompt that asks for notes."""


def execution_notes(user: str) -> list[str]:
    """Remind of what failed games did not do although the skill says it."""
    reading = read_reading(user)
    conduct = read_conduct(reading.skill)
    failed = [one for one in reading.trajectories if one.outcome == "failure"]
    found = diagnose(read_episodes(failed))
    lapses = [d.rule for d in found if d.rule not in BAD_RULES and conduct.follows(d.rule)]
    return [f"Remember: {LESSONS[rule].wordings[0]}" for rule in lapses]


def consolidate(user: str) -> Reply:
    """Answer a consolidation prompt: of notes that say the same, the first stays."""
    _, notes = json_list_under("Notes", user)
    kept: list[str] = []
    for note in notes:
        if isinstance(note, str) and not any(are_alike(note, one) for one in kept):
            kept.append(note)
    return {"reasoning": f"{len(notes)} notes say {len(kept)} things.", "notes": kept}


# A scripted optimizer model: it answers every prompt of the learner.


_BY_SEED: Final[Mapping[str, Callable[[str, int], Reply]]] = {
    "# Analyst: failures": analyze_failures,
    "# Analyst: successes": analyze_successes,
    "# Analyst: failures, suggestions": lambda user, seed: as_suggestions(
        analyze_failures(user, seed)
    ),
    "# Analyst: successes, suggestions": lambda user, seed: as_suggestions(
        analyze_successes(user, seed)
    ),
    "# Analyst: failures, whole skill": lambda user, seed: as_whole_skill(
        user, analyze_failures(user, seed)
    ),
    "# Analyst: successes, whole skill": lambda user, seed: as_whole_skill(
        user, analyze_successes(user, seed)
    ),
    "# Slow update": slow_update,
}
_BY_PROMPT: Final[Mapping[str, Callable[[str], Reply]]] = {
    "# Merge: failures": merge,
    "# Merge: successes": merge,
    "# Merge: final": merge,
    "# Rank edits": rank,
    "# Merge: failures, suggestions": merge_suggestions,
    "# Merge: successes, suggestions": merge_suggestions,
    "# Merge: final, suggestions": merge_suggestions,
    "# Rank suggestions": rank_suggestions,
    "# Rewrite the skill": rewrite,
    "# Merge: failures, whole skills": merge_skills,
    "# Merge: successes, whole skills": merge_skills,
    "# Merge: final, whole skills": merge_skills,
    "# Edit budget": decide,
    "# Repair anchors": repair,
    "# Consolidate notes": consolidate,
    "# Meta skill": remember,
}
_PROSE: Final = (
    "I am a scripted analyst. I read trajectories of household tasks and propose, merge and rank "
    "edits of a skill; I cannot tell what this message asks for."
)


class ScriptedAnalyst(ScriptedModel):
    """Reads household trajectories and proposes edits of a skill, as a language model would.

    It is no better than a language model: now and then it takes chance for a lesson, or quotes a
    line that is not there.
    """

    identity = "scripted:analyst"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the JSON that the prompt asks for, or prose where it asks for none."""
        system, user = first_of(messages, "system"), first_of(messages, "user")
        try:
            answer = _answer(heading_of(system), user, seed)
            if HEADING in system:
                answer["appendix_notes"] = execution_notes(user)
        except Unreadable:
            return _PROSE
        return dumps(answer, indent=1)


def _answer(heading: str, user: str, seed: int) -> Reply:
    if heading in _BY_SEED:
        return _BY_SEED[heading](user, seed)
    if heading in _BY_PROMPT:
        return _BY_PROMPT[heading](user)
    raise Unreadable(heading)
