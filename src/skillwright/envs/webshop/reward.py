"""The reward of a purchase, in fractions until the end, so that success means r == 1.

    r = r_type * (attributes met + options met + price met) / (attributes + options + 1)

Source: WebShop (arXiv:2207.01206), ``get_reward`` of its engine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from skillwright.envs.webshop.colours import COLOURS, plain_colour
from skillwright.envs.webshop.nouns import nouns
from skillwright.envs.webshop.product import CRUMB, Goal, Product
from skillwright.envs.webshop.similarity import are_alike

NO_NOUNS_SCORE: Final = Fraction(1, 5)
_SHARED_CRUMBS: Final = 2


@dataclass(frozen=True, slots=True)
class Grade:
    """How well a purchase meets a goal.

    Attributes:
        attributes_hit: Attributes of the goal that the product has.
        attributes: Attributes of the goal.
        options_hit: Options of the goal that were chosen.
        options: Options of the goal.
        price_ok: Whether it costs at most what the goal allows.
        title_score: The share of the goal's nouns that the product's title has, in [0, 1].
        query_match: Whether both were found by the same search.
        category_match: Whether both share two crumbs or more.
    """

    attributes_hit: int
    attributes: int
    options_hit: int
    options: int
    price_ok: bool
    title_score: Fraction
    query_match: bool
    category_match: bool

    @property
    def r_type(self) -> Fraction:
        """Whether it is the kind of thing that was asked for: 1, 1/2, 1/10 or 0."""
        if self.title_score == 0:
            return Fraction(0)
        if self.title_score < Fraction(1, 10):
            return Fraction(1, 10)
        is_match = self.query_match or self.category_match or self.title_score > NO_NOUNS_SCORE
        return Fraction(1) if is_match else Fraction(1, 2)

    @property
    def reward(self) -> Fraction:
        """The reward, in [0, 1]."""
        met = self.attributes_hit + self.options_hit + self.price_ok
        return self.r_type * Fraction(met, self.attributes + self.options + 1)

    @property
    def success(self) -> bool:
        """Whether the goal is met in full."""
        return self.reward == 1

    def parts(self) -> dict[str, Any]:
        """Return the parts of the reward as numbers; a part that the goal has none of is left out.

        ``r_type``, ``r_att``, ``r_option``, ``r_price``, the weights ``w_att``, ``w_option`` and
        ``w_price``, ``query_match``, ``category_match``, ``title_score``.
        """
        total = self.attributes + self.options + 1
        parts: dict[str, Any] = {"r_type": float(self.r_type)}
        if self.attributes:
            parts["r_att"] = self.attributes_hit / self.attributes
            parts["w_att"] = self.attributes / total
        if self.options:
            parts["r_option"] = self.options_hit / self.options
            parts["w_option"] = self.options / total
        return {
            **parts,
            "r_price": float(self.price_ok),
            "w_price": 1 / total,
            "query_match": self.query_match,
            "category_match": self.category_match,
            "title_score": float(self.title_score),
        }


def grade(
    product: Product, goal: Goal, price: float, chosen: Mapping[str, str], tagger: str
) -> Grade:
    """Grade a purchase.

    Args:
        product: What was bought.
        goal: What was wanted.
        price: What the product costs, in dollars.
        chosen: The options that were chosen, value by name.
        tagger: How nouns are found: ``rule`` or ``spacy``.
    """
    return Grade(
        attributes_hit=_attributes_hit(product, goal.attributes),
        attributes=len(goal.attributes),
        options_hit=_options_hit(goal.goal_options, chosen.values()),
        options=len(goal.goal_options),
        price_ok=price <= goal.price_upper,
        title_score=title_score(product.title, goal.name, tagger),
        query_match=product.query == goal.query,
        category_match=share_crumbs(product.crumbs, goal.product_category),
    )


def title_score(bought: str, wanted: str, tagger: str) -> Fraction:
    """Return the share of the nouns of ``wanted`` that ``bought`` has; 1/5 where it has none."""
    desired = nouns(wanted, tagger)
    if not desired:
        return NO_NOUNS_SCORE
    return Fraction(len(set(desired) & set(nouns(bought, tagger))), len(desired))


def share_crumbs(one: str, other: str) -> bool:
    """Tell whether two places in the departments have two different crumbs or more in common."""
    return len(_crumbs(one) & _crumbs(other)) >= _SHARED_CRUMBS


def _crumbs(text: str) -> set[str]:
    return {crumb.strip() for crumb in text.split(CRUMB)}


def _attributes_hit(product: Product, wanted: Iterable[str]) -> int:
    texts = (product.title.lower(), " ".join(product.bullets).lower(), product.description.lower())
    return sum(
        any(are_alike(has, attribute) for has in product.attributes)
        or any(attribute in text for text in texts)
        for attribute in wanted
    )


def _options_hit(wanted: Iterable[tuple[str, str]], chosen: Iterable[str]) -> int:
    have = [plain_colour(value) for value in chosen]
    return sum(any(are_alike(value, compared_text(*option)) for value in have) for option in wanted)


def compared_text(name: str, value: str) -> str:
    """Return what the choices are compared with for one option of a goal.

    A synthetic goal's options have names, and the original compares with name and value together:
    they are a colour only if one of them is the colour's whole name.
    """
    if not name:
        return plain_colour(value)
    return next((colour for colour in COLOURS if colour in (name, value)), str((name, value)))
