"""Parse the shop's pages and the customer's instruction from a prompt."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

# Pages are parsed in both modes: parts between ``[SEP]``, and lines with marks around clickable
# texts. If the text has several pages, the last one counts.


Kind = Literal["search", "results", "item", "inner", "other"]

_ACTIONS: Final = re.compile(r"\n\nAvailable actions:\n(.*)\Z", re.DOTALL)
_SEPARATOR: Final = re.compile(r"\s*\[SEP\]\s*")
_MARK: Final = re.compile(r"\[(?:clicked )?button_?\]")
_CLICK: Final = re.compile(r"^click\[(.*)\]$", re.MULTILINE)
_AMOUNT: Final = re.compile(r"\$(\d+(?:\.\d+)?)")
_PAGE: Final = re.compile(r"Page (\d{1,6}) ")
# If the actions are not listed, options' names are recognized by this list.
_OPTION_NAMES: Final = frozenset(
    {
        "color",
        "size",
        "shoe size",
        "length",
        "dimensions",
        "scent",
        "flavor",
        "flavor name",
        "bundle",
    }
    | {"shade", "switch", "capacity", "volume", "pieces", "style", "material", "pattern name"}
)
_INSTRUCTION: Final = "Instruction:"


@dataclass(frozen=True, slots=True)
class Hit:
    """A product on a results page."""

    asin: str  # id, in lower case
    title: str  # in lower case
    price: float | None  # upper price, in dollars; ``None`` if not shown


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page; parts that it does not have are empty."""

    kind: Kind = "other"  # ``inner`` is a page about a product, such as its features
    instruction: str = ""
    number: int = 1  # number of a results page
    hits: tuple[Hit, ...] = ()  # products on a results page
    title: str = ""  # title of the product on an item's page, in lower case
    price: float | None = None  # price of that product, as `Hit.price`
    values: tuple[str, ...] = ()  # values of its options, in lower case
    inner: tuple[str, ...] = ()  # names of its inner pages, in lower case
    said: str = ""  # text of an inner page, in lower case


@lru_cache(maxsize=4096)
def read_page(text: str) -> Page:
    """Parse a page; any other text gives a page of the kind ``other``."""
    listed = _ACTIONS.search(text)
    shown = text[: listed.start()] if listed else text
    parts = _parts(shown)
    if _INSTRUCTION not in parts:
        return Page()
    start = len(parts) - 1 - parts[::-1].index(_INSTRUCTION)
    instruction, rest = "".join(parts[start + 1 : start + 2]), parts[start + 2 :]
    match rest:
        case ["Search", *_]:
            return Page("search", instruction)
        case ["Back to Search", first, *_] if _PAGE.match(first):
            return _results(instruction, rest)
        case ["Back to Search", "< Prev", *more] if "Buy Now" in more:
            clicks = frozenset(_CLICK.findall(listed[1])) if listed else frozenset()
            return _item(instruction, more, clicks)
        case ["Back to Search", "< Prev", *more]:
            return Page("inner", instruction, said=" ".join(more).lower())
    return Page(instruction=instruction)


def _parts(text: str) -> list[str]:
    split = _SEPARATOR.split(text) if "[SEP]" in text else _MARK.sub("", text).splitlines()
    return [part.strip() for part in split if part.strip()]


def _results(instruction: str, parts: Sequence[str]) -> Page:
    number = _PAGE.match(parts[1])
    listed = list(parts[parts.index("Next >") + 1 :]) if "Next >" in parts else []
    triples = zip(listed[::3], listed[1::3], listed[2::3], strict=False)
    hits = tuple(Hit(asin.lower(), title.lower(), _most(price)) for asin, title, price in triples)
    return Page("results", instruction, number=int(number[1]) if number else 1, hits=hits)


def _item(instruction: str, parts: Sequence[str], clicks: frozenset[str]) -> Page:
    priced = next((n for n, part in enumerate(parts) if part.startswith("Price: ")), 0)
    values = tuple(part.lower() for part in parts[: max(priced - 1, 0)])
    after = [part.lower() for part in parts[priced + 1 :]]
    return Page(
        "item",
        instruction,
        title=parts[priced - 1].lower() if priced else "",
        price=_most(parts[priced]),
        values=tuple(
            value for value in values if (value in clicks if clicks else value not in _OPTION_NAMES)
        ),
        inner=tuple(part for part in after if part != "buy now" and not part.startswith("rating")),
    )


def _most(price: str) -> float | None:
    amounts = [float(amount) for amount in _AMOUNT.findall(price)]
    return max(amounts) if amounts else None


# The customer's requirements, parsed from the instruction: product, attributes, options, limit.


_LIMIT: Final = re.compile(
    r",?\s*(?:and )?(?:price|cost)s?(?: is| of)? (?:lower|less|below|under|cheaper)(?: than)? "
    r"\$?(\d+(?:\.\d+)?)(?: dollars)?"
)
# Small talk ends before the last of these.
_BEGINS: Final = re.compile(
    r"\b(?:want|need|buy|find me|looking for|interested in|would like|like to have)\b(?! something)"
    r"(?: to buy)?|:\s"
)
# Options in instructions from templates: "with color: pink, and size: small".
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
    """The customer's requirements; texts are in lower case."""

    raw: str  # all words of the instruction
    thing: tuple[str, ...]  # words that name the kind of product
    attributes: tuple[str, ...]  # required attributes
    options: tuple[str, ...]  # phrases about its options, such as ``in red`` or ``size 8``
    limit: float | None  # price limit, in dollars; ``None`` without one
    is_plain: bool = False  # whether the attributes precede the product

    @property
    def key_words(self) -> tuple[str, ...]:
        """The product and its attributes in the order of the instruction, without stop words."""
        words = [word for one in self.attributes for word in _content(one)]
        return (*words, *self.thing) if self.is_plain else (*self.thing, *words)

    @property
    def queries(self) -> tuple[str, ...]:
        """Distinct keyword queries, best first."""
        words = self.key_words
        whole = (*words, *(word for one in self.options for word in _content(one)))
        tried = (whole, words, words[:_FIRST_WORDS], self.thing)
        return tuple(dict.fromkeys(" ".join(one) for one in tried if one))

    def unmet_options(self, values: Iterable[str]) -> list[str]:
        """Return the phrases about options that no value satisfies."""
        known = list(values)
        return [one for one in self.options if not any(names(one, value) for value in known)]

    def fitting(self, values: Iterable[str]) -> list[str]:
        """Return the required values, in the order of the instruction's phrases."""
        known = list(values)
        wanted = self.options or (self.raw,)
        fits = dict.fromkeys(v for one in wanted for v in known if names(one, v))
        # "light brown" does not match "brown".
        return [one for one in fits if not any(one != v and names(v, one) for v in fits)]

    def unmet_attributes(self, text: str) -> list[str]:
        """Return the attributes that a text does not mention."""
        return [one for one in self.attributes if not names(text, one)]

    def is_affordable(self, price: float | None) -> bool:
        """Tell whether a price is within the limit, or not shown."""
        return self.limit is None or price is None or price <= self.limit


@lru_cache(maxsize=1024)
def read_wish(instruction: str) -> Wish:
    """Parse an instruction; if its form is unknown, all words name the product."""
    text = instruction.lower()
    found = _LIMIT.search(text)
    wish = text[: found.start()] + text[found.end() :] if found else text
    named = [one[1] for one in _NAMED_OPTION.finditer(wish)]
    wish = _NAMED_OPTION.sub("", wish)
    begins = [one.end() for one in _BEGINS.finditer(wish)]
    wish = wish[begins[-1] :] if begins else wish
    about, *options = (part.strip(" .") for part in re.split(r"[,;]\s+", wish))
    thing, *described = _ABOUT.split(about, maxsplit=1)
    words = _content(thing)
    attributes = [one.strip() for part in described for one in part.split(" and ") if one.strip()]
    return Wish(
        raw=" ".join(_WORD.findall(text)),
        thing=words if attributes else words[-_NAME_WORDS:],
        attributes=tuple(attributes) or words[:-_NAME_WORDS],
        options=(*(one for one in options if one), *named),
        limit=float(found[1]) if found else None,
        is_plain=not attributes,
    )


def names(text: str, part: str) -> bool:
    """Tell whether a text contains a phrase as whole words."""
    return bool(part) and bool(re.search(rf"(?<![\w-]){re.escape(part)}(?![\w-]|\.\d)", text))


def _content(text: str) -> tuple[str, ...]:
    return tuple(word for word in _WORD.findall(text) if word not in _EMPTY)
