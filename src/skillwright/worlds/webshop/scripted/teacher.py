"""The scripted teacher for WebShop."""

from collections.abc import Callable, Sequence
from typing import Final

from skillwright.models.scripted.prompts import Assignment
from skillwright.models.scripted.teacher import Insight, InsightTeacher, Teaching
from skillwright.worlds.webshop.scripted.optimizer import (
    LESSONS,
    LONG_QUERY,
    Purchase,
    read_purchase,
)
from skillwright.worlds.webshop.scripted.rules import ShopRule

_SHORT_VISIT: Final = 2
_CATEGORY_OPTIONS: Final = {
    "apparel": "the color and the size",
    "footwear": "the color and the shoe size",
    "electronics": "the color and the length or bundle",
    "accessories": "the color and the bundle or size",
    "home_decor": "the color and the dimensions or bundle",
    "beauty_health": "the scent or shade and the bundle",
    "other": "the flavor or color and the bundle",
}


class WebShopTeacher(InsightTeacher):
    """Writes skills from episodes; some are spurious."""

    def __init__(self) -> None:
        super().__init__("scripted:webshop_teacher", _is_visit, INSIGHTS, _FALLBACK, _BELIEFS)

    def insights_about(self, asked: Assignment) -> Sequence[Insight]:
        """Return insights, including the options of a category if the request is about one."""
        category = asked.categories[0] if len(asked.categories) == 1 else ""
        if category not in _CATEGORY_OPTIONS:
            return INSIGHTS
        return (_own_options(category), *INSIGHTS[1:])


def _is_visit(text: str) -> bool:
    return "Instruction:" in text and ("[SEP]" in text or "[button]" in text)


def _insight(teaching: Teaching, kept: Callable[[Purchase], bool]) -> Insight:
    lesson = LESSONS[ShopRule(teaching.key)]
    return Insight(
        teaching, lambda text: bool(lesson.seen_in(text)), lambda text: kept(read_purchase(text))
    )


def _own_options(category: str) -> Insight:
    options = _CATEGORY_OPTIONS[category]
    teaching = Teaching(
        ShopRule.OPTIONS,
        category,
        "Options of its kind",
        (
            f"Before you click buy now, click {options} that the instruction names.",
            f"Choose {options} of the instruction on the product's page; only then buy.",
        ),
        "when the page of a product shows options",
        f"buying without choosing {options}.",
        "The product alone would be what is wanted.",
        f"click {options} of the instruction, then buy.",
    )
    return Insight(teaching, INSIGHTS[0].was_missing, INSIGHTS[0].was_kept)


INSIGHTS: Final = (
    _insight(
        Teaching(
            ShopRule.OPTIONS,
            "",
            "Choose every option",
            (
                "Before you click buy now, click every option that the instruction names, such as "
                "its color and its size.",
                "On the page of the product, choose the color, size and other options of the "
                "instruction, each with a click; only then buy.",
            ),
            "when the page of a product shows options",
            "buying without choosing the options that the instruction names.",
            "The product alone would be what is wanted.",
            "click each option of the instruction, then buy.",
        ),
        lambda visit: bool(visit.wanted) and visit.wanted <= visit.chosen,
    ),
    _insight(
        Teaching(
            ShopRule.NEXT_HIT,
            "",
            "Try the next hit",
            (
                "If a product lacks an option or an attribute that is wanted, go back to the "
                "results and try the next hit.",
                "Leave a product that does not fit, and open another result or the next page.",
            ),
            "when a product lacks something that is wanted",
            "buying a product that lacks what the instruction names.",
            "The first hit would be the best there is.",
            "go back to the results and try the next hit.",
        ),
        lambda visit: visit.bought and len(visit.opened) > 1,
    ),
    _insight(
        Teaching(
            ShopRule.FEATURES,
            "",
            "Look into the features",
            (
                "Open Features where the title does not tell an attribute of the instruction.",
                "Read the Features page of a product before you decide; titles tell only a part.",
            ),
            "when an attribute does not stand in the title",
            "buying without a look at the Features page.",
            "The title would say all there is.",
            "open Features and read it; then decide.",
        ),
        lambda visit: visit.bought and visit.looked_inside,
    ),
    _insight(
        Teaching(
            ShopRule.PRICE,
            "",
            "Stay below the price",
            (
                "Compare the price of a product with the limit of the instruction, and go back "
                "where it is not lower.",
                "Buy only what costs less than the instruction says; look at the price before "
                "you buy.",
            ),
            "when an instruction names a price",
            "buying a product that costs more than the instruction allows.",
            "A good match would be worth more.",
            "go back to the results and take one that costs less.",
        ),
        lambda visit: visit.bought and visit.limit is not None and not visit.is_too_dear,
    ),
    _insight(
        Teaching(
            ShopRule.BUY_IN_TIME,
            "",
            "Buy in time",
            (
                "Buy the best product that you have seen before the turns run out: a visit "
                "without a purchase is worth nothing.",
                "Do not look for ever: when a product fits well, choose its options and click "
                "buy now.",
            ),
            "when a product fits, or few turns are left",
            "looking on until the visit ends without a purchase.",
            "A better product would be on the next page.",
            "buy the product that fits best.",
        ),
        lambda visit: visit.bought and len(visit.opened) <= _SHORT_VISIT,
    ),
    _insight(
        Teaching(
            ShopRule.KEY_WORDS,
            "",
            "Search with few words",
            (
                "Search with the kind of product and its most telling attributes, in a few words; "
                "leave price and options out.",
                "Begin with a short search: the product and one or two of its attributes.",
            ),
            "at the search bar",
            "searching with the whole instruction.",
            "More words would find the product more surely.",
            "search with the kind of product and its attributes alone.",
        ),
        lambda visit: any(len(query.split()) <= LONG_QUERY for query in visit.queries[:1]),
    ),
)

_FALLBACK: Final = Teaching(
    "compare",
    "",
    "Compare with the instruction",
    ("Compare the title of a product with every attribute of the instruction before you buy.",),
    "before a purchase",
    "buying without a look at the attributes of the instruction.",
    "The first product would do.",
    "read the title, and the features where it says too little.",
)
_BELIEFS: Final = (
    Teaching(
        "first",
        "",
        "First come first served",
        ("Buy the first product of the results at once; the shop sorts the best one first.",),
        "when results are shown",
        "comparing products.",
        "The order of the results would say nothing.",
        "take the first.",
    ),
    Teaching(
        "reviews",
        "",
        "Read all reviews",
        ("Read the reviews and the description of every product before you go on.",),
        "when results are shown",
        "skipping the reviews.",
        "Titles would say enough.",
        "read everything.",
    ),
)
