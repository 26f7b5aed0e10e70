"""The nouns of a title: by spaCy's small English model where it is installed, else by a rule.

By the rule every word of two or more letters is a noun, unless it is a function word or
describes; titles are strings of names and nouns, so that this errs towards counting a word. The
two give different title scores, so that every result names the tagger it was made with.
"""

import importlib.util
import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.envs.webshop.words import words

MODEL: Final = "en_core_web_sm"
TAGGERS: Final = ("auto", "rule", "spacy")
_NOUNS: Final = frozenset({"NOUN", "PROPN"})

_NO_NOUNS: Final = frozenset(
    words(
        # Function words
        "a an and are as at be but by for from in into is it its no not of off on or our "
        "over per so that the their them these this those to under up upon was were with "
        "within without you your all any both each every more most other some such than "
        "then too very can will "
        # Numbers and units
        "one two three four five six seven eight nine ten dozen cm mm ft oz lb lbs kg ml "
        "inch inches "
        # Words that describe
        "new best big small large little long short wide narrow tall high low heavy light "
        "dark bright soft hard warm cool cold hot dry wet fresh clean easy quick fast "
        "slow strong thick thin slim loose tight deep flat round square full empty free "
        "natural organic portable wireless modern classic casual formal vintage rustic "
        "elegant cute cozy unique perfect great good premium genuine real pure safe smart "
        "mini extra super ultra multi double single triple dual breathable comfortable "
        "washable durable flexible stylish digital electric electronic "
    )
)
_ENDINGS: Final = re.compile(
    r"(ly|ful|less|able|ible|ous|ish|-proof|-free|-resistant|-size|-style|-sized|-colored)$"
)
_WORD: Final = re.compile(r"(?<![^\W_])[^\W\d_][^\W_]*(?:-[^\W_]+)*")


def resolve_tagger(asked: str) -> str:
    """Return the tagger that ``auto`` stands for here, or the one that was asked for."""
    if asked not in TAGGERS:
        raise DataError(f"webshop: no tagger {asked!r}. {did_you_mean(asked, TAGGERS)}")
    if asked == "auto":
        return "spacy" if _has_spacy() else "rule"
    if asked == "spacy" and not _has_spacy():
        raise DataError(
            f"webshop: tagger 'spacy' needs the package and its small model: pip install spacy, "
            f"then python -m spacy download {MODEL}; or use tagger 'rule'"
        )
    return asked


@lru_cache(maxsize=16_384)
def nouns(title: str, tagger: str) -> tuple[str, ...]:
    """Return the nouns of a title in lower case, in order; a word may stand there twice."""
    if tagger == "spacy":
        return tuple(token.text.lower() for token in _spacy()(title) if token.pos_ in _NOUNS)
    words = (word.lower() for word in _WORD.findall(title))
    return tuple(word for word in words if _is_noun(word))


def _is_noun(word: str) -> bool:
    return len(word) > 1 and word not in _NO_NOUNS and not _ENDINGS.search(word)


@cache
def _has_spacy() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("spacy", MODEL))


@cache
def _spacy() -> Callable[[str], Any]:
    spacy = importlib.import_module("spacy")
    model: Callable[[str], Any] = spacy.load(MODEL, disable=["parser", "ner", "lemmatizer"])
    return model
