"""What a customer wants, read from the instruction: the thing, its attributes, options, a limit."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_LIMIT: Final = re.compile(
    r",?\s*(?:and )?(?:price|cost)s?(?: is| of)? (?:lower|less|below|under|cheaper)(?: than)? "
    r"\$?(\d+(?:\.\d+)?)(?: dollars)?"
)
# Talk comes before one of these; where there are several, the last begins the wish.
_BEGINS: Final = re.compile(
    r"\b(?:want|need|buy|find me|looking for|interested in|would like|like to have)\b(?! something)"
    r"(?: to buy)?|:\s"
)
# As instructions that were made of a template put it: "with color: pink, and size: small".
_NAMED_OPTION: Final = re.compile(r",? (?:with|and) ([\w -]{1,40}: [^,]{1,80})(?=,|$)")
_ABOUT: Final = re.compile(r"\b(?:that|which) (?:is|are|has|have)\b|\bwith\b|\bmade of\b")
_WORD: Final = re.compile(r"[^\W_]+(?:[.'-][^\W_]+)*")
_EMPTY: Final = frozenset(
    re.findall(
        r"\S+",
        "a an the and or of in on for to is are be it that which with my me i i'm some size color "
        "colour new",
    )
)
_FIRST_WORDS: Final = 4
_NAME_WORDS: Final = 2


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted; texts are in lower case."""

    raw: str  # all words of the instruction
    thing: tuple[str, ...]  # the words that name the kind of thing
    attributes: tuple[str, ...]  # what it has to be
    options: tuple[str, ...]  # phrases about its options, such as ``in red`` or ``size 8``
    limit: float | None  # what it may cost, in dollars; ``None`` for any price
    is_plain: bool = False  # the attributes stand before the thing

    @property
    def key_words(self) -> tuple[str, ...]:
        """The thing and its attributes in the order of the instruction, without empty words."""
        words = [word for one in self.attributes for word in _content(one)]
        return (*words, *self.thing) if self.is_plain else (*self.thing, *words)

    @property
    def queries(self) -> tuple[str, ...]:
        """Searches in key words, the best first, each once."""
        words = self.key_words
        whole = (*words, *(word for one in self.options for word in _content(one)))
        tried = (whole, words, words[:_FIRST_WORDS], self.thing)
        return tuple(dict.fromkeys(" ".join(one) for one in tried if one))

    def unmet_options(self, values: Iterable[str]) -> list[str]:
        """Return the phrases about options that none of the values fulfils."""
        known = list(values)
        return [one for one in self.options if not any(names(one, value) for value in known)]

    def fitting(self, values: Iterable[str]) -> list[str]:
        """Return the values that are wanted, in the order of the instruction's phrases."""
        known = list(values)
        told = self.options or (self.raw,)
        fits = dict.fromkeys(v for one in told for v in known if names(one, v))
        # Who wants light brown does not want brown.
        return [one for one in fits if not any(one != v and names(v, one) for v in fits)]

    def unmet_attributes(self, text: str) -> list[str]:
        """Return the attributes that a text does not tell."""
        return [one for one in self.attributes if not names(text, one)]

    def is_affordable(self, price: float | None) -> bool:
        """Tell whether a price is within the limit; one that is not shown is."""
        return self.limit is None or price is None or price <= self.limit


@lru_cache(maxsize=1024)
def read_wish(instruction: str) -> Wish:
    """Read an instruction; of one that is put in other ways everything is the thing."""
    told = instruction.lower()
    found = _LIMIT.search(told)
    wish = told[: found.start()] + told[found.end() :] if found else told
    named = [one[1] for one in _NAMED_OPTION.finditer(wish)]
    wish = _NAMED_OPTION.sub("", wish)
    begins = [one.end() for one in _BEGINS.finditer(wish)]
    wish = wish[begins[-1] :] if begins else wish
    about, *options = (part.strip(" .") for part in re.split(r"[,;]\s+", wish))
    thing, *told_of = _ABOUT.split(about, maxsplit=1)
    words = _content(thing)
    attributes = [one.strip() for part in told_of for one in part.split(" and ") if one.strip()]
    return Wish(
        raw=" ".join(_WORD.findall(told)),
        thing=words if attributes else words[-_NAME_WORDS:],
        attributes=tuple(attributes) or words[:-_NAME_WORDS],
        options=(*(one for one in options if one), *named),
        limit=float(found[1]) if found else None,
        is_plain=not attributes,
    )


def names(text: str, part: str) -> bool:
    """Tell whether a text has a part as whole words."""
    return bool(part) and bool(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-]|\.\d)", text))


def _content(text: str) -> tuple[str, ...]:
    return tuple(word for word in _WORD.findall(text) if word not in _EMPTY)
