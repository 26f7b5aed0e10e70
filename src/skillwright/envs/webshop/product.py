"""A product as the shop sells it, and a goal as a customer states it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Final, Literal

from skillwright.core.jsonio import digest

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
        key: Where it stands in its catalogue: ``asin/kind/number``.
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
