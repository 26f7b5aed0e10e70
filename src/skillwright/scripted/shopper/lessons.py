"""What the shopper's analyst looks for in a failed visit, and how it words the lesson."""

from collections.abc import Callable, Mapping
from typing import Final

from skillwright.scripted.lesson_analyst import Lesson, LessonAnalyst
from skillwright.scripted.shopper.hindsight import Purchase, read_purchase
from skillwright.scripted.shopper.rules import ShopRule

LONG_QUERY: Final = 12
"""Words of a search from which on it is the customer's whole sentence."""


def _shows(mistake: Callable[[Purchase], bool]) -> Callable[[str], bool]:
    return lambda episode: mistake(read_purchase(episode))


LESSONS: Final[Mapping[ShopRule, Lesson]] = {
    ShopRule.OPTIONS: Lesson(
        "bought without choosing an option that the customer had named",
        _shows(lambda one: one.bought and not one.wanted <= one.chosen),
        (
            "Before you buy, click every option that the instruction names, such as its color.",
            "Set color, size and whatever else the customer names on the product's page, then buy.",
        ),
    ),
    ShopRule.GO_ON: Lesson(
        "bought a product that could not be had as it was wanted",
        _shows(lambda one: one.bought and one.lacks_option and len(one.opened) == 1),
        (
            "If a product lacks something that is wanted, go back and try the next hit.",
            "Leave a product that does not fit, and look at another result or the next page.",
        ),
    ),
    ShopRule.PRICE: Lesson(
        "bought something that costs more than the customer allows",
        _shows(lambda one: one.bought and one.is_too_dear),
        (
            "Pass over products whose price is above the limit.",
            "Check that the price is within the customer's budget.",
        ),
    ),
    ShopRule.FEATURES: Lesson(
        "bought without making sure of what the title does not tell",
        _shows(lambda one: one.bought and one.is_unsure),
        (
            "Open Features where the title does not tell what is wanted.",
            "Read the features and the description of a product that seems to fit.",
        ),
    ),
    ShopRule.KEY_WORDS: Lesson(
        "searched for the customer's whole sentence",
        _shows(lambda one: any(len(query.split()) > LONG_QUERY for query in one.queries)),
        (
            "Search with a few key words: the kind of thing, its attributes and options.",
            "Keep the search short and drop the talk around it.",
        ),
    ),
    ShopRule.BUY_IN_TIME: Lesson(
        "looked on until the turns were used up",
        _shows(lambda one: not one.bought),
        (
            "Buy the best that you have seen before the turns run out.",
            "When few turns are left, buy the closest match: without a purchase nothing is won.",
        ),
    ),
    ShopRule.NEW_WORDS: Lesson(
        "had nothing more to try on the pages of one search",
        _shows(lambda one: len(one.opened) > 1 and one.turned and len(one.queries) == 1),
        (
            "Where nothing fits, search again with other words.",
            "After pages without a match, change the words of the query.",
        ),
    ),
}
"""Rule -> how to find that it was missing, and how to teach it."""

SUPERSTITIONS: Final = (
    "Buy the first product of the results at once: the shop sorts the best one to the top.",
    "Always take the cheapest product, so that nobody complains of the price.",
    "Read all reviews of every product that you open.",
    "Paste the customer's whole sentence into the search, so that no word is lost.",
    "Keep looking until a product is perfect in every way.",
)
"""Good-sounding advice that loses customers."""


def shopper_analyst() -> LessonAnalyst:
    """Return the optimiser that teaches the scripted shopper."""
    return LessonAnalyst("scripted:shopper_analyst", tuple(LESSONS.values()), SUPERSTITIONS)
