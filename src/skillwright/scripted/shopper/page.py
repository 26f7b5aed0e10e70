"""The shop's pages, read back from the text that an agent is shown.

Both ways of showing them are read: parts between ``[SEP]``, and lines with marks around what can be
clicked. Where earlier pages stand before the present one, the last one counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

Kind = Literal["search", "results", "item", "inner", "other"]

_ACTIONS: Final = re.compile(r"\n\nAvailable actions:\n(.*)\Z", re.DOTALL)
_SEPARATOR: Final = re.compile(r"\s*\[SEP\]\s*")
_MARK: Final = re.compile(r"\[(?:clicked )?button_?\]")
_CLICK: Final = re.compile(r"^click\[(.*)\]$", re.MULTILINE)
_AMOUNT: Final = re.compile(r"\$(\d+(?:\.\d+)?)")
_PAGE: Final = re.compile(r"Page (\d{1,6}) ")
# Where the actions are not listed, only usage tells an option's name from its values.
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
_TOLD: Final = "Instruction:"


@dataclass(frozen=True, slots=True)
class Hit:
    """A product on a results page."""

    asin: str  # its id, in lower case
    title: str  # in lower case
    price: float | None  # the most that it may cost, in dollars; ``None`` where that is not shown


@dataclass(frozen=True, slots=True)
class Page:
    """One page; what it does not have is empty."""

    kind: Kind = "other"  # which page: ``inner`` is one of a product's own, such as its features
    instruction: str = ""  # what the customer wants
    number: int = 1  # of a results page
    hits: tuple[Hit, ...] = ()  # what a results page lists
    title: str = ""  # of the product on an item's page, in lower case
    price: float | None = None  # of that product, as `Hit.price`
    values: tuple[str, ...] = ()  # the values of its options, in lower case
    inner: tuple[str, ...] = ()  # the names of its inner pages, in lower case
    said: str = ""  # what an inner page says, in lower case


@lru_cache(maxsize=4096)
def read_page(text: str) -> Page:
    """Read what an agent is shown; what is no page of the shop is of the kind ``other``."""
    listed = _ACTIONS.search(text)
    shown = text[: listed.start()] if listed else text
    parts = _parts(shown)
    if _TOLD not in parts:
        return Page()
    start = len(parts) - 1 - parts[::-1].index(_TOLD)
    told, rest = "".join(parts[start + 1 : start + 2]), parts[start + 2 :]
    match rest:
        case ["Search", *_]:
            return Page("search", told)
        case ["Back to Search", first, *_] if _PAGE.match(first):
            return _results(told, rest)
        case ["Back to Search", "< Prev", *more] if "Buy Now" in more:
            clicks = frozenset(_CLICK.findall(listed[1])) if listed else frozenset()
            return _item(told, more, clicks)
        case ["Back to Search", "< Prev", *more]:
            return Page("inner", told, said=" ".join(more).lower())
    return Page(instruction=told)


def _parts(text: str) -> list[str]:
    split = _SEPARATOR.split(text) if "[SEP]" in text else _MARK.sub("", text).splitlines()
    return [part.strip() for part in split if part.strip()]


def _results(told: str, parts: Sequence[str]) -> Page:
    number = _PAGE.match(parts[1])
    listed = list(parts[parts.index("Next >") + 1 :]) if "Next >" in parts else []
    triples = zip(listed[::3], listed[1::3], listed[2::3], strict=False)
    hits = tuple(Hit(asin.lower(), title.lower(), _most(price)) for asin, title, price in triples)
    return Page("results", told, number=int(number[1]) if number else 1, hits=hits)


def _item(told: str, parts: Sequence[str], clicks: frozenset[str]) -> Page:
    priced = next((n for n, part in enumerate(parts) if part.startswith("Price: ")), 0)
    values = tuple(part.lower() for part in parts[: max(priced - 1, 0)])
    after = [part.lower() for part in parts[priced + 1 :]]
    return Page(
        "item",
        told,
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
