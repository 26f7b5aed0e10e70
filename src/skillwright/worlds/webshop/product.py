"""A product as the shop sells it, and a goal as a customer states it."""

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
    """What a person wrote who was shown a product, before a price is added.

    Attributes:
        text: The instruction, without its final period.
        attributes: What the product must be.
        options: Values to be chosen, in the order of their names.
    """

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Product:
    """One product.

    Attributes:
        asin: Its id: at most ten characters.
        title: Its name.
        description: Prose; often long, sometimes empty.
        bullets: Features, one sentence each.
        prices: No price (unknown), one, or the ends of a range, in dollars.
        options: Values that can be chosen, by the name of the option; both in lower case.
        category: Its department, such as ``fashion``.
        query: The search that it was found by.
        crumbs: Its place among the departments, joined by `CRUMB`.
        attributes: What it is known to be; not shown to the customer.
        wishes: What people asked for who wanted it.
        template: The text of its synthetic goals, and the attributes these ask for.
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
        """The price as pages show it: ``$x``, or ``$x to $y``."""
        prices = self.prices or (UNKNOWN_PRICE,)
        return " to ".join(f"${price}" for price in prices)

    @cached_property
    def searched_text(self) -> str:
        """What the search engine indexes: title, description, first bullet and options."""
        groups = ", and ".join(
            f"{name}: {', '.join(values)}" for name, values in self.options.items()
        )
        parts = (self.title, self.description, *self.bullets[:1], groups)
        return " ".join(part for part in parts if part).lower()


@dataclass(frozen=True)
class Goal:
    """What a customer wants; only the instruction is shown.

    Attributes:
        key: Where it is in its catalogue: ``asin/kind/number``.
        asin: The product that it was written for.
        category: That product's department.
        query: That product's search.
        name: That product's title.
        product_category: That product's crumbs.
        instruction_text: What the customer says, with the price.
        attributes: What the product must be.
        price_upper: The most it may cost, in dollars.
        goal_options: ``(name, value)`` pairs to be chosen; people name no option, so that the name
            is empty in their goals.
        weight: How often it is drawn, against the others: 1 for goals by people.
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
        """A digest of all that the reward looks at: equal goals have equal ids everywhere."""
        content = asdict(self)
        del content["key"], content["weight"]
        return digest(content)[:16]


# Prices and price limits, drawn by hash: the same in every process, in any order.
#
# The original draws them from an unseeded generator, so that its goals differ between processes.


LIMITS: Final = tuple(10.0 * tens for tens in range(1, 100))
_NEXT_LIMITS: Final = 4
NO_LIMIT: Final = 1_000_000.0


def parse_pricing(text: object) -> tuple[float, ...]:
    """Read a price such as ``$9.99`` or ``$9.99$19.99``; what is none gives ``()``.

    Returns:
        No price, one, or the two ends of a range, in the order in which they are written.
    """
    if not isinstance(text, str):
        return ()
    numbers = [re.sub(r"[^\d.]", "", part) for part in text.split("$")[1:]]
    prices = [float(number) for number in numbers if re.fullmatch(r"\d+(\.\d*)?|\.\d+", number)]
    return tuple(filter(math.isfinite, prices))[:2]


def drawn_price(asin: str, prices: Sequence[float], seed: int) -> float:
    """Return what a product costs: one price as it is, a uniform draw from a range.

    Returns:
        Dollars, to the cent where they are drawn.
    """
    if len(prices) < 2:
        return prices[0] if prices else UNKNOWN_PRICE
    one, other = prices[0], prices[1]
    share = derive_seed("webshop-price", seed, asin) / float(2**SEED_BITS)
    return round(one + (other - one) * share, 2)


def price_limit(asin: str, price: float, seed: int) -> float:
    """Return the most that a goal's customer would pay.

    The larger of two different ones among the next four multiples of 10 dollars above ``price``
    and below 1,000; `NO_LIMIT` where there are fewer than two.
    """
    above = [limit for limit in LIMITS if limit > price][:_NEXT_LIMITS]
    if len(above) < 2:
        return NO_LIMIT
    # Of the pairs of n limits, k have limit k as the larger one.
    larger = [limit for index, limit in enumerate(above) for _ in range(index)]
    return larger[derive_seed("webshop-limit", seed, asin) % len(larger)]


def limit_text(limit: float) -> str:
    """Return what an instruction says about the price; nothing where there is no limit."""
    return "" if limit >= NO_LIMIT else f", and price lower than {limit:.2f} dollars"


# Lists of words, written as text with spaces between them.


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(text.split())
