"""Scripted shopping agents: one follows its skill, one is an expert."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from skillwright.core import Message
from skillwright.core.agent import action_in
from skillwright.models.scripted.teacher import ScriptedModel, skill_in
from skillwright.worlds.webshop.scripted.page import Hit, Page, Wish, read_page, read_wish
from skillwright.worlds.webshop.scripted.rules import GOOD_RULES, ShopRule, read_rules

# The state of an episode, read from the conversation.


DEFAULT_TURNS: Final = 15
_TURNS: Final = re.compile(r"You have (\d{1,6}) turns")
_SEARCH: Final = re.compile(r"search\[(.*)\]", re.DOTALL)
_CLICK: Final = re.compile(r"click\[(.*)\]", re.DOTALL)


@dataclass(slots=True)
class Seen:
    """A product that was opened."""

    page: Page  # its page when last seen
    text: str  # its title and the texts of its inner pages
    read: set[str] = field(default_factory=set)  # opened inner pages
    chosen: set[str] = field(default_factory=set)  # values chosen since it was opened

    def shortcomings(self, wish: Wish) -> int:
        """Count the requirements that are not known to be met."""
        missing = wish.unmet_options(self.page.values) + wish.unmet_attributes(self.text)
        return len(missing) + (not wish.is_affordable(self.page.price))


@dataclass(slots=True)
class Visit:
    """The state before a turn."""

    page: Page  # the current page
    wish: Wish  # the customer's requirements
    searches: int = 0  # number of searches
    left: int = DEFAULT_TURNS  # remaining turns, including this one
    products: dict[str, Seen] = field(default_factory=dict)  # opened products, by id
    current: str = ""  # id of the open product, or ""

    def unseen(self) -> list[Hit]:
        """Return the page's hits that were not opened."""
        return [hit for hit in self.page.hits if hit.asin not in self.products]

    def follow(self, action: str, page: Page) -> None:
        """Update the state after an action."""
        click = _CLICK.fullmatch(action)
        if _SEARCH.fullmatch(action):
            self.searches += 1
        clicked = click[1].lower() if click else ""
        if page.kind == "item":
            self._at_item(clicked, page)
        elif page.kind == "inner" and self.current in self.products:
            product = self.products[self.current]
            product.read.add(clicked)
            product.text += f" {page.said}"
        elif page.kind in {"results", "search"}:
            self.current = ""
        self.page = page

    def _at_item(self, clicked: str, page: Page) -> None:
        if any(clicked == hit.asin for hit in self.page.hits):
            self.current = clicked
            known = self.products.get(clicked)
            text, read = (known.text, known.read) if known else (page.title, set())
            self.products[clicked] = Seen(page, text, read)
        elif not self.current:
            self.current = page.title
            self.products[page.title] = Seen(page, page.title)
        elif clicked in page.values:
            self.products[self.current].chosen.add(clicked)


def read_visit(messages: Sequence[Message]) -> Visit:
    """Read a conversation from its start; text that is no page of the shop is ignored."""
    said = [(one["role"], one["content"]) for one in messages]
    turns = next(
        (m for role, text in said if role == "system" and (m := _TURNS.search(text))), None
    )
    taken = sum(role == "assistant" for role, _ in said)
    visit = Visit(Page(), read_wish(""), left=(int(turns[1]) if turns else DEFAULT_TURNS) - taken)
    action = ""
    for role, text in said:
        if role == "assistant":
            action = action_in(text)
        elif role == "user":
            page = read_page(text)
            if page.instruction:
                visit.wish = read_wish(page.instruction)
            visit.follow(action, page)
    return visit


BUY: Final = "click[buy now]"
PREVIOUS: Final = "click[< prev]"
_MOST_PAGES: Final = 3
_MOST_SEARCHES: Final = 3
_FEATURES: Final = "features"
_UNKNOWN: Final = 0.5


def next_command(visit: Visit, rules: AbstractSet[ShopRule]) -> str:
    """Return the next command; a search if the page is unknown."""
    match visit.page.kind:
        case "results":
            return _at_results(visit, rules)
        case "item":
            return _at_item(visit, rules)
        case "inner":
            return PREVIOUS
        case _:
            return f"search[{_query(visit, rules)}]"


def _query(visit: Visit, rules: AbstractSet[ShopRule]) -> str:
    in_key_words = visit.wish.queries
    if not in_key_words:
        return visit.wish.raw or "thing"
    if ShopRule.KEY_WORDS in rules:
        return in_key_words[min(visit.searches, len(in_key_words) - 1)]
    return visit.wish.raw if visit.searches == 0 else in_key_words[-1]


def _at_results(visit: Visit, rules: AbstractSet[ShopRule]) -> str:
    hits = visit.page.hits
    if not hits:
        return PREVIOUS if visit.page.number > 1 else "click[back to search]"
    if ShopRule.BUY_AT_ONCE in rules:
        return _open(hits[0])
    if ShopRule.CHEAPEST in rules:
        return _open(min(hits, key=lambda hit: hit.price or 0.0))
    if _is_late(visit, rules, _turns_to_buy(visit) + 2):
        return _open(_best_known(visit))
    unseen = visit.unseen()
    if ShopRule.PRICE in rules:
        unseen = [hit for hit in unseen if _is_affordable(visit, hit)]
    return _open(unseen[0]) if unseen else _elsewhere(visit, rules)


def _elsewhere(visit: Visit, rules: AbstractSet[ShopRule]) -> str:
    """Return the command when no hit of the page is worth opening."""
    if _is_late(visit, rules, _turns_to_buy(visit) + 4):
        return _open(_best_known(visit))
    if ShopRule.NEW_WORDS in rules and visit.searches < _MOST_SEARCHES:
        return "click[back to search]"
    if ShopRule.NEXT_HIT in rules and visit.page.number < _MOST_PAGES:
        return "click[next >]"
    return _open(_best_known(visit))


def _best_known(visit: Visit) -> Hit:
    """Return the page's hit with the fewest known shortcomings."""

    def lacks(hit: Hit) -> float:
        seen = visit.products.get(hit.asin)
        if seen is not None:
            return seen.shortcomings(visit.wish)
        missing = len(visit.wish.unmet_attributes(hit.title))
        # For a product that was never opened, assume that half of the options are missing.
        return missing + _UNKNOWN * len(visit.wish.options) + (not _is_affordable(visit, hit))

    return min(visit.page.hits, key=lacks)


def _at_item(visit: Visit, rules: AbstractSet[ShopRule]) -> str:
    product = visit.products[visit.current]
    if ShopRule.BUY_AT_ONCE in rules:
        return BUY
    if ShopRule.READ_ALL in rules:
        for name in product.page.inner:
            if name not in product.read:
                return f"click[{name}]"
    unread = _to_look_up(visit, product, rules)
    if unread:
        return f"click[{unread}]"
    if _is_worse_than_hoped(visit, product, rules):
        return PREVIOUS
    if ShopRule.OPTIONS in rules:
        for value in visit.wish.fitting(product.page.values):
            if value not in product.chosen:
                return f"click[{value}]"
    return BUY


def _to_look_up(visit: Visit, product: Seen, rules: AbstractSet[ShopRule]) -> str:
    """Return the inner page to read for attributes that the title does not mention, or ""."""
    if ShopRule.FEATURES not in rules or not visit.wish.unmet_attributes(product.text):
        return ""
    if ShopRule.NEXT_HIT in rules and visit.wish.unmet_options(product.page.values):
        return ""  # an inner page cannot make it the right product
    if _is_late(visit, rules, _turns_to_buy(visit) + 2):
        return ""
    return next((n for n in product.page.inner if n == _FEATURES and n not in product.read), "")


def _is_worse_than_hoped(visit: Visit, product: Seen, rules: AbstractSet[ShopRule]) -> bool:
    """Tell whether to go back to the results for another hit."""
    if ShopRule.NEXT_HIT not in rules or _is_late(visit, rules, _turns_to_buy(visit) + 2):
        return False
    looked = ShopRule.FEATURES in rules
    missing = [
        *visit.wish.unmet_options(product.page.values),
        *(visit.wish.unmet_attributes(product.text) if looked else []),
    ]
    return bool(missing)


def _turns_to_buy(visit: Visit) -> int:
    """Return the number of turns needed to choose the open product's options and buy it."""
    return len(visit.wish.options) + 1


def _is_late(visit: Visit, rules: AbstractSet[ShopRule], turns: int) -> bool:
    """Tell whether too few turns are left for a plan, if the skill says to count turns."""
    return ShopRule.BUY_IN_TIME in rules and visit.left < turns


def _is_affordable(visit: Visit, hit: Hit) -> bool:
    return visit.wish.is_affordable(hit.price)


def _open(hit: Hit) -> str:
    return f"click[{hit.asin}]"


class ScriptedShopper(ScriptedModel):
    """Shops by the rules that it recognizes in its skill; it does not depend on the seed.

    Without a skill it searches for the customer's whole sentence and buys the first hit. It
    follows good and bad advice; of two contradictory sentences, the later one.
    """

    identity = "scripted:shopper"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command, as ``<action>...</action>``."""
        command = next_command(read_visit(messages), read_rules(skill_in(messages)))
        return f"<action>{command}</action>"


class ScriptedBuyer(ScriptedModel):
    """An expert that follows all good rules and ignores its skill.

    It answers with the bare command, so that a policy that chooses from a list can imitate it.
    """

    identity = "scripted:buyer"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return one command."""
        return next_command(read_visit(messages), GOOD_RULES)
