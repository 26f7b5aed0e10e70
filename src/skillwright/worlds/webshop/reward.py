"""The reward of a purchase, computed in exact fractions, so that success means r == 1.

    r = r_type * (attributes met + options met + price met) / (attributes + options + 1)

Source: WebShop (arXiv:2207.01206), ``get_reward`` of its engine.
"""

import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.worlds.webshop.product import CRUMB, Goal, Product, words

# The token-set ratio of two texts, from 0 to 100, as a fraction.
#
# Source: rapidfuzz (``fuzz.token_set_ratio``), by the Indel distance. The original uses thefuzz
# 0.19, which normalizes texts and rounds the ratio; `are_alike` does the same.


_ZERO: Final = Fraction(0)
_WHOLE: Final = Fraction(100)
_DROPPED: Final = dict.fromkeys(range(128, 256))


def token_set_similarity(one: str, other: str) -> Fraction:
    """Return the token-set ratio of two texts without normalization; 0 if either has no word.

    Returns:
        A fraction in [0, 100].
    """
    words, others = set(one.split()), set(other.split())
    if not words or not others:
        return _ZERO
    shared = " ".join(sorted(words & others))
    left, right = " ".join(sorted(words - others)), " ".join(sorted(others - words))
    if shared and not (left and right):
        return _WHOLE
    gap = len(shared) + 1 if shared else 0
    best = _ratio(_indel_distance(left, right), 2 * gap + len(left) + len(right))
    if shared:
        for rest in (left, right):
            best = max(best, _ratio(1 + len(rest), len(shared) + gap + len(rest)))
    return best


@lru_cache(maxsize=65_536)
def are_alike(one: str, other: str) -> bool:
    """Tell whether the rounded ratio of two texts, without case and punctuation, exceeds 85."""
    return round(token_set_similarity(_plain(one), _plain(other))) > 85


def _plain(text: str) -> str:
    """Normalize a text as the original does: drop characters 128 to 255 and punctuation."""
    return re.sub(r"\W", " ", text.translate(_DROPPED)).lower().strip()


def _ratio(distance: int, length: int) -> Fraction:
    return _WHOLE - Fraction(100 * distance, length) if length else _WHOLE


def _indel_distance(one: str, other: str) -> int:
    return len(one) + len(other) - 2 * _common_subsequence(one, other)


def _common_subsequence(one: str, other: str) -> int:
    """Return the length of the longest common subsequence, by a bit-parallel algorithm."""
    places: dict[str, int] = {}
    for index, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << index
    full = (1 << len(one)) - 1
    row = full
    for character in other:
        matched = row & places.get(character, 0)
        row = (row + matched) | (row - matched)
        row &= full
    return len(one) - row.bit_count()


# The original's list of colors, by which the reward reduces options: an option is replaced by the
# first color in the list that it contains, also inside words (``red`` in ``wired``).


COLORS: Final = words(
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown "
    "burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee "
    "cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia "
    "gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender "
    "lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor "
    "mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red "
    "rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower "
    "tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
)


def plain_color(option: str) -> str:
    """Return the first color that ``option`` contains, or ``option`` itself."""
    return next((color for color in COLORS if color in option), option)


# The nouns of a title, by spaCy's small English model or by a rule: every word of two or more
# letters is a noun, unless it is in the list below. Titles consist of names and nouns, so the rule
# rather counts too many words. The title scores differ, so every result records the tagger.


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
    """Resolve ``auto`` to an available tagger; return any other name unchanged."""
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
    """Return the nouns of a title in lower case and in order, repetitions included."""
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


NO_NOUNS_SCORE: Final = Fraction(1, 5)
_SHARED_CRUMBS: Final = 2


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of a purchase.

    Attributes:
        attributes_hit: Number of the goal's attributes that the product has.
        attributes: Number of the goal's attributes.
        options_hit: Number of the goal's options that were chosen.
        options: Number of the goal's options.
        price_ok: Whether the price is within the limit.
        title_score: Share of the goal's nouns in the product's title, in [0, 1].
        query_match: Whether product and goal have the same query.
        category_match: Whether product and goal share two crumbs or more.
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
        """Factor for the product's type: 1, 1/2, 1/10 or 0."""
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
        """Return the parts of the reward as numbers, without parts that the goal does not have.

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
        product: The product that was bought.
        goal: The customer's goal.
        price: Price of the product, in dollars.
        chosen: Chosen options, value by name.
        tagger: The noun tagger: ``rule`` or ``spacy``.
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
    """Return the share of the nouns of ``wanted`` in ``bought``; 1/5 if ``wanted`` has none."""
    desired = nouns(wanted, tagger)
    if not desired:
        return NO_NOUNS_SCORE
    return Fraction(len(set(desired) & set(nouns(bought, tagger))), len(desired))


def share_crumbs(one: str, other: str) -> bool:
    """Tell whether two paths of departments have at least two crumbs in common."""
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
    have = [plain_color(value) for value in chosen]
    return sum(any(are_alike(value, compared_text(*option)) for value in have) for option in wanted)


def compared_text(name: str, value: str) -> str:
    """Return the text with which choices are compared for one option of a goal.

    A synthetic goal's options have names, and the original compares with name and value together;
    this text is reduced to a color only if name or value is exactly a color.
    """
    if not name:
        return plain_color(value)
    return next((color for color in COLORS if color in (name, value)), str((name, value)))
