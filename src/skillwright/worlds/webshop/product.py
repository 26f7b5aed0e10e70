"""Products, goals, prices and price limits."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Final, Literal

from skillwright.core.jsonio import digest
from skillwright.core.seeds import SEED_BITS, derive_seed

GoalKind = Literal["human", "synthetic"]
GOAL_KINDS: Final[tuple[GoalKind, ...]] = ("human", "synthetic")

CRUMB: Final = "\u203a"
UNKNOWN_PRICE: Final = 100.0


@dataclass(frozen=True)
class Wish:
    """A person's request for a product, without a price.

    Attributes:
        text: The instruction, without its final period.
        attributes: Required attributes.
        options: Required option values, in the order of their names.
    """

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Product:
    """One product.

    Attributes:
        asin: Id of at most ten characters.
        bullets: Features, one sentence each.
        prices: No price (unknown), one, or the bounds of a range, in dollars.
        options: Values by the name of the option, both in lower case.
        category: Department, such as ``fashion``.
        query: The search query in the original's data.
        crumbs: Path of departments, joined by `CRUMB`.
        attributes: Known attributes, not shown to the customer.
        wishes: Requests by people for this product.
        template: Text and attributes of its synthetic goals.
    """

    asin: str
    title: str
    description: str = ""
    bullets: tuple[str, ...] = ()
    prices: tuple[float, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    category: str = ""
    query: str = ""
    crumbs: str = ""
    attributes: tuple[str, ...] = ()
    wishes: tuple[Wish, ...] = ()
    template: Wish | None = None

    @cached_property
    def price_text(self) -> str:
        """The price as text: ``$x``, or ``$x to $y``."""
        prices = self.prices or (UNKNOWN_PRICE,)
        return " to ".join(f"${price}" for price in prices)

    @cached_property
    def searched_text(self) -> str:
        """The indexed text: title, description, first bullet and options."""
        groups = ", and ".join(
            f"{name}: {', '.join(values)}" for name, values in self.options.items()
        )
        parts = (self.title, self.description, *self.bullets[:1], groups)
        return " ".join(part for part in parts if part).lower()


@dataclass(frozen=True)
class Goal:
    """A customer's goal; only the instruction is shown.

    Attributes:
        key: Key in the catalogue: ``asin/kind/number``.
        asin: The product for which it was written.
        category: The product's department.
        query: The product's search query.
        name: The product's title.
        product_category: The product's crumbs.
        instruction_text: The instruction, with the price.
        attributes: Required attributes.
        price_upper: Maximum price, in dollars.
        goal_options: Required ``(name, value)`` pairs; the name is empty in goals by people.
        weight: Sampling weight; 1 for goals by people.
    """

    key: str
    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: tuple[str, ...]
    price_upper: float
    goal_options: tuple[tuple[str, str], ...] = ()
    weight: float = 1.0

    @cached_property
    def id(self) -> str:
        """Digest of everything that affects the reward; equal goals have equal ids."""
        content = asdict(self)
        del content["key"], content["weight"]
        return digest(content)[:16]


# Prices and price limits are drawn by hash, so that they are equal in every process. The original
# draws them from an unseeded generator.


LIMITS: Final = tuple(10.0 * tens for tens in range(1, 100))
_NEXT_LIMITS: Final = 4
NO_LIMIT: Final = 1_000_000.0


def parse_pricing(text: object) -> tuple[float, ...]:
    """Parse a price such as ``$9.99`` or ``$9.99$19.99`` as written; ``()`` if it is none."""
    if not isinstance(text, str):
        return ()
    numbers = [re.sub(r"[^\d.]", "", part) for part in text.split("$")[1:]]
    prices = [float(number) for number in numbers if re.fullmatch(r"\d+(\.\d*)?|\.\d+", number)]
    return tuple(filter(math.isfinite, prices))[:2]


def drawn_price(asin: str, prices: Sequence[float], seed: int) -> float:
    """Return a price in dollars: a single one, or a uniform draw from a range, in cents."""
    if len(prices) < 2:
        return prices[0] if prices else UNKNOWN_PRICE
    one, other = prices[0], prices[1]
    share = derive_seed("webshop-price", seed, asin) / float(2**SEED_BITS)
    return round(one + (other - one) * share, 2)


def price_limit(asin: str, price: float, seed: int) -> float:
    """Return a goal's price limit, in dollars.

    It is the larger of two different multiples of 10 among the next four above ``price`` and below
    1,000; `NO_LIMIT` if there are fewer than two.
    """
    above = [limit for limit in LIMITS if limit > price][:_NEXT_LIMITS]
    if len(above) < 2:
        return NO_LIMIT
    # Of the pairs of n limits, k have limit k as the larger one.
    larger = [limit for index, limit in enumerate(above) for _ in range(index)]
    return larger[derive_seed("webshop-limit", seed, asin) % len(larger)]


def limit_text(limit: float) -> str:
    """Return an instruction's text about the price limit, or ``""`` without a limit."""
    return "" if limit >= NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(text.split())
