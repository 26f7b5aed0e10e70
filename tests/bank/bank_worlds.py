"""Small banks, embedders that count, and strategies that draw both."""

import numpy as np
from hypothesis import strategies as st

from skillwright.bank.embedding.embedders import unit_rows
from skillwright.core import BankSkill, Counterfactual, SkillKind, SkillStatus

FAILURE = Counterfactual("heating what you do not hold", "it looked near", "take it first")


def skill(skill_id, kind=SkillKind.TASK_SPECIFIC, category="heat", **fields):
    """A skill with as little said as a skill may say."""
    general, lesson = kind == SkillKind.GENERAL, kind == SkillKind.LESSON
    return BankSkill(
        **{
            "id": skill_id,
            "name": f"Name of {skill_id}",
            "principle": f"Principle of {skill_id}.",
            "applicability": "When it applies.",
            "kind": kind,
            "category": "" if general else category,
            "counterfactual": FAILURE if lesson else None,
            **fields,
        }
    )


class Drawn:
    """An embedder that gives each text a direction of its own, and counts what it is asked."""

    delta = 0.1

    def __init__(self, identity="drawn", dimensions=8):
        self.identity, self.dimensions = identity, dimensions
        self.queries, self.skills = [], []

    def encode_queries(self, texts):
        self.queries.append(list(texts))
        return self._rows(texts)

    def encode_skills(self, texts):
        self.skills.append(list(texts))
        return self._rows(texts)

    def _rows(self, texts):
        seeds = [[ord(letter) for letter in text] for text in texts]
        rows = [np.random.default_rng(seed).standard_normal(self.dimensions) for seed in seeds]
        return unit_rows(np.array(rows).reshape(len(texts), self.dimensions))


CATEGORIES = ("heat", "cool", "clean")
SCOPES = ("", "", "", "household 1", "household 2")


@st.composite
def skills(draw, least=0, most=40):
    """Skills of all kinds, categories, scopes and statuses, with unique ids."""
    count = draw(st.integers(least, most))
    found = []
    for number in range(count):
        kind = draw(st.sampled_from(SkillKind))
        category = "" if kind == SkillKind.GENERAL else draw(st.sampled_from(("", *CATEGORIES)))
        found.append(
            skill(
                f"s{number:03}",
                kind,
                category,
                scope=draw(st.sampled_from(SCOPES)),
                # Few principles, so that there are ties.
                principle=f"Principle {draw(st.integers(0, 12))}.",
                name="A name",
                status=draw(st.sampled_from((SkillStatus.ACTIVE,) * 4 + tuple(SkillStatus))),
            )
        )
    return tuple(draw(st.permutations(found)))
