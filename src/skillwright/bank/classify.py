"""The category of a goal in words, of which no environment knows more.

An environment names the category of its own tasks by rules, and never guesses. Whoever types a goal
writes as people do ("heat the apple"); then the skills that it is most like decide.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final, Literal

from skillwright.bank.bank import Bank
from skillwright.bank.embedding.lexical import LexicalEmbedder
from skillwright.bank.seeds import SEED_BANKS
from skillwright.bank.source import category_of
from skillwright.core import BankSkill, Task

NEIGHBOURS: Final = 3
"""Skills of a category that are asked how like a goal they are."""
LEAST: Final = 0.1
"""The mean similarity that they must exceed; what is less names no category."""


@dataclass(frozen=True, slots=True)
class Named:
    """A category, and how it was found.

    Attributes:
        category: ``""`` where none is near.
        by: ``rules`` of an environment, ``similarity`` to the skills of a bank, or ``""``.
    """

    category: str = ""
    by: Literal["rules", "similarity", ""] = ""


def classify(goal: str, bank: Bank, env: str = "") -> Named:
    """Name the category of a goal.

    Args:
        goal: In words.
        bank: Its skills decide where no rule does.
        env: The environment whose rules hold; ``""`` tries those of all that have a seed bank, of
            which only a category that the bank has counts.

    Raises:
        DataError: There is no such environment.
    """
    skills = [skill for skill in bank.active if skill.category]
    known = {skill.category for skill in skills}
    for name in (env,) if env else SEED_BANKS:
        category = category_of(Task("query", name, description=goal))
        if category and (env or category in known):
            return Named(category, "rules")
    return _nearest(goal, skills)


def _nearest(goal: str, skills: list[BankSkill]) -> Named:
    if not skills:
        return Named()
    # Whatever says which skills are told: the words of a goal name its category, and an embedder
    # of meanings takes "heat" and "cool" for nearly the same.
    embedder = LexicalEmbedder()
    scores = (
        embedder.encode_skills([one.text for one in skills]) @ embedder.encode_queries([goal])[0]
    )
    by_category: defaultdict[str, list[float]] = defaultdict(list)
    for skill, score in zip(skills, scores.tolist(), strict=True):
        by_category[skill.category].append(score)
    means = {
        category: sum(sorted(found, reverse=True)[:NEIGHBOURS]) / NEIGHBOURS
        for category, found in sorted(by_category.items())
    }
    best = max(means, key=means.__getitem__)
    return Named(best, "similarity") if means[best] > LEAST else Named()
