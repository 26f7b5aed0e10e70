"""A visit as whoever reads it afterwards sees it: what was bought, and what was known of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillwright.core.action import action_in
from skillwright.scripted.shopper.page import Page, read_page
from skillwright.scripted.shopper.wish import read_wish

_LINE: Final = re.compile(r"^\[\d{1,6}\] (action|result): (.*(?:\n(?:    .*)?)*)", re.MULTILINE)
_TASK: Final = re.compile(r"<task>(.*?)</task>", re.DOTALL)
_INDENT: Final = re.compile(r"\n {4}")
_QUERY: Final = re.compile(r"search\[(.*)\]", re.DOTALL)
_CLICK: Final = re.compile(r"click\[(.*)\]", re.DOTALL)
_CHOSEN: Final = re.compile(r"options\s*\[SEP\]\s*(\{.*?\})|^\s*options\n\s*(\{.*?\})", re.M)


@dataclass(frozen=True, slots=True)
class Purchase:
    """What came of a visit; what its text does not tell is empty."""

    queries: tuple[str, ...] = ()  # what was searched for
    opened: tuple[str, ...] = ()  # products that were opened, by what was clicked
    turned: bool = False  # another page of results was opened
    bought: bool = False  # something was bought
    limit: float | None = None  # what it might cost; ``None`` where the customer names no price
    # the most that the last product costs; ``None`` where none was opened
    price: float | None = None
    wanted: frozenset[str] = frozenset()  # values of its options that the customer names
    chosen: frozenset[str] = frozenset()  # values that were chosen at the purchase
    lacks_option: bool = False  # the customer names something that none of its options is
    looked_inside: bool = False  # one of its own pages was read
    is_unsure: bool = False  # neither its title nor a page that was read tells all that is wanted

    @property
    def is_too_dear(self) -> bool:
        """The last product costs more than the limit."""
        return self.limit is not None and self.price is not None and self.price > self.limit


@lru_cache(maxsize=1024)
def read_purchase(episode: str) -> Purchase:
    """Read an episode as analysts and teachers are shown it."""
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
    """Return what the inner pages said since the last list of results."""
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
