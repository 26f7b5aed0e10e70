"""What the built-in shop sells: forty-two kinds of things in seven categories.

No two attributes of a kind are alike by the reward's measure, and no two values of an option
are; the tests say so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from skillwright.envs.webshop.product import CRUMB
from skillwright.envs.webshop.words import words


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of thing."""

    nouns: tuple[str, ...]  # what it is called; titles and customers use one or the other
    category: str  # which of the seven
    crumbs: str  # its place among the departments
    low: float  # the least that one costs, in dollars
    high: float  # the most
    attributes: tuple[str, ...]  # what one can be; each product is four of them
    option_names: tuple[str, ...] = ()  # its options, names of `OPTION_POOLS`


OPTION_POOLS: Final[Mapping[str, Sequence[str]]] = {
    "color": words(
        "black white navy red olive teal burgundy beige gray pink yellow purple brown orange "
        "charcoal lavender"
    ),
    "size": ("small", "medium", "large", "2xl", "3xl"),
    "shoe size": ("6", "7.5", "8", "9.5", "10", "11.5"),
    "length": ("3 feet", "6 feet", "10 feet"),
    "dimensions": ("2x3", "4x6", "5x8", "8x10", "9x12"),
    "scent": ("citrus", "cedar", "vanilla", "unscented", "jasmine", "eucalyptus"),
    "flavor": ("peanut butter", "cranberry", "honey", "ginger", "cinnamon", "blueberry"),
    "bundle": ("single", "twin pack", "family box", "value case"),
    "shade": ("nude", "coral", "plum", "bronze", "ruby", "mauve"),
    "switch": ("tactile", "linear", "clicky"),
    "capacity": ("32gb", "64gb", "128gb", "256gb"),
    "volume": ("12 oz", "20 oz", "32 oz", "40 oz"),
    "pieces": ("100", "250", "500", "2000"),
}


def _kinds(text: str) -> Iterator[Kind]:
    """Read kinds, headed by ``# category, department``.

    Each is a line ``nouns | aisle | low-high | options``, and below it the attributes.
    """
    category = department = ""
    for paragraph in re.split(r"\n+(?=# |.*\|)", text.strip()):
        if paragraph.startswith("# "):
            category, department = _listed(paragraph.removeprefix("# "))
            continue
        head, _, attributes = paragraph.partition("\n")
        nouns, aisle, prices, options = (part.strip() for part in head.split("|"))
        low, high = prices.split("-")
        yield Kind(
            nouns=_listed(nouns),
            category=category,
            crumbs=f" {CRUMB} ".join((department, aisle, _listed(nouns)[0].title())),
            low=float(low),
            high=float(high),
            attributes=_listed(attributes.replace("\n", " ")),
            option_names=_listed(options),
        )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


KINDS: Final = tuple(
    _kinds((files("skillwright.envs.webshop") / "kinds.txt").read_text(encoding="utf-8"))
)
