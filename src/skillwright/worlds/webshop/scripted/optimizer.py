"""The scripted optimizer for the shopper: the mistakes that it recognizes, and its lessons."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillwright.core.agent import action_in
from skillwright.worlds.scripted import Lesson, LessonAnalyst
from skillwright.worlds.webshop.scripted.page import Page, read_page, read_wish
from skillwright.worlds.webshop.scripted.rules import ShopRule

# Facts about an episode, read from its transcript.


_LINE: Final = re.compile(r"^\[\d{1,6}\] (action|result): (.*(?:\n(?:    .*)?)*)", re.MULTILINE)
_TASK: Final = re.compile(r"<task>(.*?)</task>", re.DOTALL)
_INDENT: Final = re.compile(r"\n {4}")
_QUERY: Final = re.compile(r"search\[(.*)\]", re.DOTALL)
_CLICK: Final = re.compile(r"click\[(.*)\]", re.DOTALL)
_CHOSEN: Final = re.compile(r"options\s*\[SEP\]\s*(\{.*?\})|^\s*options\n\s*(\{.*?\})", re.M)


@dataclass(frozen=True, slots=True)
class Purchase:
    """Facts about an episode; those that its text does not show are empty."""

    queries: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()  # clicked products
    turned: bool = False  # whether another page of results was opened
    bought: bool = False  # whether a product was bought
    limit: float | None = None  # price limit, in dollars; ``None`` without one
    # highest price of the last product; ``None`` if none was opened
    price: float | None = None
    wanted: frozenset[str] = frozenset()  # values of its options that the customer requires
    chosen: frozenset[str] = frozenset()  # values chosen at the purchase
    lacks_option: bool = False  # whether it has no option for one of the requirements
    looked_inside: bool = False  # whether one of its inner pages was read
    is_unsure: bool = False  # whether title and read pages do not mention all requirements

    @property
    def is_too_dear(self) -> bool:
        """Whether the last product costs more than the limit."""
        return self.limit is not None and self.price is not None and self.price > self.limit


@lru_cache(maxsize=1024)
def read_purchase(episode: str) -> Purchase:
    """Read an episode in the format of analysts' and teachers' prompts."""
    task = _TASK.search(episode)
    turns = [(kind, _INDENT.sub("\n", text).strip()) for kind, text in _LINE.findall(episode)]
    actions = [action_in(text).lower() for kind, text in turns if kind == "action"]
    pages = [read_page(task[1]) if task else Page()]
    pages += [read_page(text) for kind, text in turns if kind == "result"]
    wish = read_wish(next((page.instruction for page in pages if page.instruction), ""))
    items = [page for page in pages if page.kind == "item"]
    last = items[-1] if items else Page()
    inside = _said_of_the_last(pages)
    said = " ".join([last.title, *inside])
    ids = {hit.asin for page in pages for hit in page.hits}
    clicks = [found[1] for action in actions if (found := _CLICK.fullmatch(action))]
    return Purchase(
        queries=tuple(found[1] for action in actions if (found := _QUERY.fullmatch(action))),
        opened=tuple(one for one in clicks if one in ids),
        turned="next >" in clicks,
        bought=bool(turns) and "Purchased" in turns[-1][1],
        limit=wish.limit,
        price=last.price,
        wanted=frozenset(wish.fitting(last.values)),
        chosen=_chosen(episode),
        lacks_option=bool(items) and bool(wish.unmet_options(last.values)),
        looked_inside=bool(inside),
        is_unsure=bool(items) and bool(wish.unmet_attributes(said)),
    )


def _said_of_the_last(pages: list[Page]) -> list[str]:
    """Return the texts of inner pages since the last list of results."""
    lists = [n for n, page in enumerate(pages) if page.kind == "results"]
    return [page.said for page in pages[lists[-1] if lists else 0 :] if page.kind == "inner"]


def _chosen(episode: str) -> frozenset[str]:
    found = _CHOSEN.findall(episode)
    try:
        chosen = json.loads("".join(found[-1])) if found else {}
    except ValueError:
        return frozenset()
    values = chosen.values() if isinstance(chosen, Mapping) else ()
    return frozenset(str(one).lower() for one in values)


# The mistakes that the optimizer recognizes, and its lessons about them.


LONG_QUERY: Final = 12
"""Minimum words of a query that counts as the customer's whole sentence."""


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
    ShopRule.NEXT_HIT: Lesson(
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
"""Rule -> test for episodes that needed it, and the text that teaches it."""

SUPERSTITIONS: Final = (
    "Buy the first product of the results at once: the shop sorts the best one to the top.",
    "Always take the cheapest product, so that nobody complains of the price.",
    "Read all reviews of every product that you open.",
    "Paste the customer's whole sentence into the search, so that no word is lost.",
    "Keep looking until a product is perfect in every way.",
)
"""Plausible advice that lowers the reward."""


def shopper_analyst() -> LessonAnalyst:
    """Return the scripted optimizer for the shopper."""
    return LessonAnalyst("scripted:shopper_analyst", tuple(LESSONS.values()), SUPERSTITIONS)
