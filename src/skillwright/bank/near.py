"""When two skills say the same in other words."""

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from skillwright.bank.embedding.embedder import Embedder
from skillwright.core import BankSkill

IsNear = Callable[[BankSkill, BankSkill], bool]
"""Tells whether two skills of the same kind, category and scope say the same."""

SIMILAR_TEXT = 0.85
SIMILAR_MEANING = 0.9

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


class EncodesSkills(Protocol):
    """What is needed of an embedder here."""

    def encode_skills(self, texts: list[str]) -> Any:
        """Return unit rows, float32, shape ``[n, d]``."""
        ...


def only_equal(one: BankSkill, other: BankSkill) -> bool:
    """Call no two skills near; equal ones are found without a test."""
    return False


def near_in_text(one: BankSkill, other: BankSkill) -> bool:
    """Tell whether two skills have the same name and nearly the same text, and equal numbers."""
    if _normalised(one.name) != _normalised(other.name):
        return False
    first, second = _normalised(one.text), _normalised(other.text)
    if _NUMBER.findall(first) != _NUMBER.findall(second):
        return False
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # the cheapest first
    return all(ratio() >= SIMILAR_TEXT for ratio in bounds)


def block_of(is_near: IsNear, skill: BankSkill) -> str:
    """Return what near skills have in common, so that skills of other blocks are not compared."""
    if is_near is near_in_text:
        numbers = _NUMBER.findall(_normalised(skill.text))
        return " ".join([_normalised(skill.name), *numbers])
    return skill.id if is_near is only_equal else ""


def near_in_meaning(embedder: EncodesSkills, threshold: float = SIMILAR_MEANING) -> IsNear:
    """Return a test that also calls skills near whose embeddings have at least this cosine.

    Args:
        embedder: Encodes each text once, as long as the test is kept.
        threshold: A cosine; scales differ between embedders, so calibrate it.
    """
    vectors: dict[str, Any] = {}

    def vector(text: str) -> Any:
        if text not in vectors:
            vectors[text] = np.asarray(embedder.encode_skills([text]))[0]
        return vectors[text]

    def is_near(one: BankSkill, other: BankSkill) -> bool:
        if near_in_text(one, other):
            return True
        return bool(float(vector(one.text) @ vector(other.text)) >= threshold)

    return is_near


def nearness(embedder: Embedder) -> IsNear:
    """Return when two skills say the same: by meaning where a model can tell, else by text."""
    return near_in_text if embedder.identity.startswith("lexical") else near_in_meaning(embedder)


@lru_cache(maxsize=65_536)
def _normalised(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
