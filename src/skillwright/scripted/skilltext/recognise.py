"""What a whole skill tells its reader to do."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from skillwright.scripted.skilltext.lexicon import FEW
from skillwright.scripted.skilltext.readers import READERS
from skillwright.scripted.skilltext.rules import Conduct, Rule, Stance
from skillwright.scripted.skilltext.sentences import blocks, sentences
from skillwright.scripted.skilltext.statements import Statement, is_foreign

_NUMBERS: Final = {
    "two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "handful": 5, "six": 6,
}  # fmt: skip
_FEWEST = 2


@lru_cache(maxsize=512)
def read_stances(text: str) -> tuple[Stance, ...]:
    """Return what a text says about the rules, sentence by sentence, in order."""
    found: list[Stance] = []
    for said in _advice(text):
        for rule, reader in READERS:
            wanted = reader(said)
            if wanted is not None:
                number = _number(said.text) if rule is Rule.FEW_PLACES else 0
                found.append(Stance(rule, wanted, said.sentence.source, number))
    return tuple(found)


def _advice(text: str) -> Iterator[Statement]:
    for block in blocks(text):
        foreign = is_foreign(block)
        for sentence in sentences(block):
            said = Statement(sentence)
            if said.is_advice and (said.is_about_tasks or not foreign):
                yield said


@lru_cache(maxsize=512)
def read_conduct(text: str) -> Conduct:
    """Return the rules that hold once the whole text is read.

    Precedence: a later sentence overrides an earlier one about the same rule.
    """
    return Conduct({stance.rule: stance for stance in read_stances(text)})


def _number(text: str) -> int:
    found = FEW.search(text)
    words = re.findall(r"[a-z]+|\d", found[0]) if found else []
    numbers = [int(word) if word.isdigit() else _NUMBERS.get(word, 0) for word in words]
    return max([_FEWEST, *numbers])
