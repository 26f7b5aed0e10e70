"""The scripted optimizer for the shopper: the mistakes that it recognizes, and its lessons."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

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


WRITTEN: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("teachings.json").read_text(encoding="utf-8")
)
"""The texts of lessons and teachings."""

_MISTAKES: Final[Mapping[ShopRule, Callable[[Purchase], bool]]] = {
    ShopRule.OPTIONS: lambda one: one.bought and not one.wanted <= one.chosen,
    ShopRule.NEXT_HIT: lambda one: one.bought and one.lacks_option and len(one.opened) == 1,
    ShopRule.PRICE: lambda one: one.bought and one.is_too_dear,
    ShopRule.FEATURES: lambda one: one.bought and one.is_unsure,
    ShopRule.KEY_WORDS: lambda one: any(len(query.split()) > LONG_QUERY for query in one.queries),
    ShopRule.BUY_IN_TIME: lambda one: not one.bought,
    ShopRule.NEW_WORDS: lambda one: len(one.opened) > 1 and one.turned and len(one.queries) == 1,
}
LESSONS: Final[Mapping[ShopRule, Lesson]] = {
    rule: Lesson(of["failure"], _shows(mistake), (*of["wordings"],))
    for rule, mistake in _MISTAKES.items()
    for of in [WRITTEN["lessons"][rule]]
}
"""Rule -> test for episodes that needed it, and the text that teaches it."""

SUPERSTITIONS: Final[tuple[str, ...]] = tuple(WRITTEN["superstitions"])
"""Plausible advice that lowers the reward."""


def shopper_analyst() -> LessonAnalyst:
    """Return the scripted optimizer for the shopper."""
    return LessonAnalyst("scripted:shopper_analyst", tuple(LESSONS.values()), SUPERSTITIONS)
