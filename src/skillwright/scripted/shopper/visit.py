"""A visit to the shop as the conversation tells it: what was seen and chosen, what is left."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from skillwright.core import Message
from skillwright.core.action import action_in
from skillwright.scripted.shopper.page import Hit, Page, read_page
from skillwright.scripted.shopper.wish import Wish, read_wish

DEFAULT_TURNS: Final = 15
_TURNS: Final = re.compile(r"You have (\d{1,6}) turns")
_SEARCH: Final = re.compile(r"search\[(.*)\]", re.DOTALL)
_CLICK: Final = re.compile(r"click\[(.*)\]", re.DOTALL)


@dataclass(slots=True)
class Seen:
    """A product that was opened."""

    page: Page  # its page, as it was seen last
    text: str  # its title and what its inner pages said
    read: set[str] = field(default_factory=set)  # the inner pages that were opened
    chosen: set[str] = field(default_factory=set)  # values that were chosen since it was opened

    def shortcomings(self, wish: Wish) -> int:
        """Count what is wanted and not known of it."""
        missing = wish.unmet_options(self.page.values) + wish.unmet_attributes(self.text)
        return len(missing) + (not wish.is_affordable(self.page.price))


@dataclass(slots=True)
class Visit:
    """What is known in a turn."""

    page: Page  # the present one
    wish: Wish  # what the customer wants
    searches: int = 0  # how many were made
    left: int = DEFAULT_TURNS  # turns that are left, this one included
    products: dict[str, Seen] = field(default_factory=dict)  # those that were opened, by id
    current: str = ""  # the id of the one that is open, or ""

    def unseen(self) -> list[Hit]:
        """Return the hits of this page that were not opened."""
        return [hit for hit in self.page.hits if hit.asin not in self.products]

    def follow(self, action: str, page: Page) -> None:
        """Note what came of an action."""
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
    """Read a conversation from its start; text that is no page of the shop tells nothing."""
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
