"""Render retrieved skills as the text that an agent reads, in training and evaluation alike.

    ### General skills
    - [g001] Search once: Visit each likely place once before going anywhere twice.
    ### Skills for heat tasks
    - [t014] Hold it first: Have the object in hand before you use it. (Apply when it must be hot.)
    ### Lessons
    - [l003] Empty hands: Avoid: heating what you do not hold. Instead: take it first. Check ...

Equal skills give equal bytes. Ids are in the text, so that agents can cite them.
"""

import logging
import re
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from textwrap import indent

from skillwright.bank.retrieve import Retrieved, Scored
from skillwright.core import BankSkill, ConfigError, SkillKind

NOTHING = "No skill of the bank is about this task."

CHARACTERS_PER_TOKEN = 4

_MOST_REMEMBERED = 65_536
_CONDITION = re.compile(r"(?:apply\s+)?when(?:ever)?\s+", re.IGNORECASE)
_OTHER_CONDITION = re.compile(
    r"(?:after|always|apply|as|at|before|during|for|if|in|on|once|only|to|unless|until|while|with)\b",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[.!?]$")

logger = logging.getLogger(__name__)

CountTokens = Callable[[str], int]


def approximate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per four characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class RenderBudget:
    """Limits of the text.

    Attributes:
        max_tokens: For the whole text.
        max_general_tokens: For its general skills.
        count: Returns the tokens of a text: an estimate, or a model's tokenizer.

    Raises:
        ConfigError: A limit is too low, or the general skills' limit exceeds the whole.
    """

    max_tokens: int = 2_000
    max_general_tokens: int = 1_200
    count: CountTokens = approximate_tokens

    def __post_init__(self) -> None:
        least = self.count(NOTHING)
        if self.max_tokens < least:
            raise ConfigError(
                f"max_tokens is {self.max_tokens}; the shortest text of a bank takes {least}"
            )
        if not 0 <= self.max_general_tokens <= self.max_tokens:
            raise ConfigError(
                f"max_general_tokens is {self.max_general_tokens}; it lies between 0 and "
                f"max_tokens ({self.max_tokens}), because general skills are dropped last"
            )


@dataclass(frozen=True, slots=True)
class Rendered:
    """The rendered text and the skills in it.

    Attributes:
        injected: The skills in the text, in order, with their scores.
        dropped: Retrieved skills that did not fit, in the order they were dropped.
        tokens: Length of the text in the budget's tokens.
    """

    text: str
    injected: tuple[Scored, ...]
    dropped: tuple[Scored, ...]
    tokens: int


def render(retrieved: Retrieved, budget: RenderBudget = RenderBudget()) -> Rendered:
    """Render retrieved skills within a budget.

    Skills are dropped, and logged, from the end of their part: general skills over their own
    budget, then task-specific skills while the text is too long, then lessons.

    Args:
        retrieved: Skills, best first in each part.
        budget: Limits of the text.
    """
    general, task = list(retrieved.general), list(retrieved.task_specific)
    lessons, dropped = list(retrieved.lessons), list[Scored]()
    fits = bisect(
        range(1, len(general) + 1),
        budget.max_general_tokens,
        key=lambda count: budget.count(_general_section(general[:count])),
    )
    dropped += reversed(general[fits:])
    del general[fits:]
    text = _text(retrieved.category, general, task, lessons)
    while budget.count(text) > budget.max_tokens and (task or lessons or general):
        dropped.append((task or lessons or general).pop())
        text = _text(retrieved.category, general, task, lessons)
    if dropped:
        logger.info(
            "skills over the budget of %d tokens were left out: %s",
            budget.max_tokens,
            ", ".join(one.skill.id for one in dropped),
        )
    injected = (*general, *task, *lessons)
    return Rendered(text, injected, tuple(dropped), budget.count(text))


def _text(category: str, general: list[Scored], task: list[Scored], lessons: list[Scored]) -> str:
    about = f"{words_of_category(category)} tasks" if category else "this task"
    sections = [
        _general_section(general),
        _section(f"### Skills for {about}", task),
        _section("### Lessons", lessons),
    ]
    return "\n".join(section for section in sections if section) or NOTHING


def _general_section(general: Sequence[Scored]) -> str:
    return _section("### General skills", general)


def _section(heading: str, skills: Sequence[Scored]) -> str:
    if not skills:
        return ""
    return "\n".join([heading, *(skill_line(one.skill) for one in skills)])


@lru_cache(maxsize=_MOST_REMEMBERED)
def skill_line(skill: BankSkill) -> str:
    """Format a skill on one line, with its details below, as agents and teachers read it."""
    line = _line(skill)
    return f"{line}\n{indent(skill.details, '  ')}" if skill.details else line


def _line(skill: BankSkill) -> str:
    start = f"- [{_flat(skill.id)}] {_flat(skill.name).rstrip('.:')}: "
    principle, failure = _sentence(skill.principle), skill.counterfactual
    if failure is not None:
        avoid = _sentence(failure.failure_point)
        instead = _sentence(failure.corrective_action)
        if instead.casefold() == principle.casefold():  # as in banks of SkillRL
            principle = ""
        parts = (f"Avoid: {avoid}" * bool(avoid), f"Instead: {instead}" * bool(instead), principle)
        return start + " ".join(part for part in parts if part)
    return start + principle + (f" ({_condition(skill)})" if _condition(skill) else "")


def _condition(skill: BankSkill) -> str:
    if skill.kind == SkillKind.GENERAL or not skill.applicability.strip():
        return ""
    text = _flat(skill.applicability)
    when = _CONDITION.match(text)
    if when:
        text = text[when.end() :]
    elif _OTHER_CONDITION.match(text):
        return _sentence(text if text.lower().startswith("apply") else f"Apply {_lowered(text)}")
    return _sentence(f"Apply when {_lowered(text)}")


def _sentence(text: str) -> str:
    flat = _flat(text)
    return flat if not flat or _ENDS.search(flat) else f"{flat.rstrip(',;:')}."


def _lowered(text: str) -> str:
    """Lowercase the first letter, unless the word is in capitals."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def _flat(text: str) -> str:
    return " ".join(text.split())


def words_of_category(category: str) -> str:
    """Return a category as words: ``pick two`` for ``pick_two``."""
    return _flat(category.replace("_", " "))
