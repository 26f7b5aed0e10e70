"""One visit to the shop, by the rules of WebShop (arXiv:2207.01206).

``search[...]`` works on every page and clears product and options; ``Back to Search`` clears what
was visited too. Where two options share a value, a click sets the later one. Only ``Buy Now`` ends
the visit.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from skillwright.envs.webshop import pages
from skillwright.envs.webshop.catalogue import Catalogue
from skillwright.envs.webshop.product import Goal, Product
from skillwright.envs.webshop.reward import Grade, grade

_ACTION: Final = re.compile(r"(search|click)\[(.*)\]", re.DOTALL)


class Session:
    """One customer's visit.

    Args:
        catalogue: What is sold.
        goal: What the customer wants.
        tagger: How the reward finds nouns.
        show_attributes: Whether an item has a page with its attributes, which tells the reward's
            own words.

    Attributes:
        page: What is shown.
        grade: What the purchase was worth; ``None`` until something is bought.
    """

    def __init__(
        self, catalogue: Catalogue, goal: Goal, tagger: str, *, show_attributes: bool = False
    ) -> None:
        self.goal = goal
        self._catalogue = catalogue
        self._tagger = tagger
        more = (pages.ATTRIBUTES,) if show_attributes else ()
        self._sub_pages = (*pages.SUB_PAGES, *more)
        self._visited: set[str] = set()
        self._hits: tuple[str, ...] = ()
        self._number = 1
        self._product: Product | None = None
        self._chosen: dict[str, str] = {}
        self.grade: Grade | None = None
        self._back_to_search()

    @property
    def done(self) -> bool:
        """Whether something was bought."""
        return self.grade is not None

    @property
    def has_search_bar(self) -> bool:
        """Whether the page shows a search bar; a search works without it too."""
        return any(part.text == pages.SEARCH and part.kind == "button" for part in self.page)

    @property
    def clickables(self) -> list[str]:
        """What can be clicked, in lower case."""
        return pages.clickables(self.page)

    def act(self, action: str) -> bool:
        """Carry out ``search[...]`` or ``click[...]``.

        Returns:
            Whether it was possible; if not, nothing has changed.
        """
        found = _ACTION.fullmatch(action)
        if found is None or self.done:
            return False
        verb, argument = found[1], found[2].lower()
        if verb == "search":
            move = partial(self._search, argument) if argument.strip() else None
        else:
            move = self._clicks().get(argument)
        if move is None:
            return False
        move()
        return True

    def _clicks(self) -> dict[str, partial[None]]:
        """Say what a click on each thing of the page does."""
        clicks = {
            part.text.lower(): partial(self._open, part.text)
            for part in self.page
            if part.kind == "product"
        }
        if self._product is not None and self._on_item:
            for name, values in self._product.options.items():
                clicks |= {value.lower(): partial(self._choose, name, value) for value in values}
        # Buttons last: a value that is called like one must not make it unreachable.
        return clicks | {
            part.text.lower(): partial(self._press, part.text)
            for part in self.page
            if part.kind == "button" and part.text != pages.SEARCH
        }

    def _press(self, button: str) -> None:
        moves: dict[str, Callable[[], None]] = {
            pages.BACK: self._back_to_search,
            pages.NEXT: partial(self._results, self._number + 1),
            pages.PREVIOUS: self._previous,
            pages.BUY: self._buy,
        }
        moves.get(button, partial(self._sub_page, button))()

    def _sub_page(self, name: str) -> None:
        self._on_item = False
        self.page = pages.sub_page(self._told, self._sold, name)

    def _previous(self) -> None:
        if self._product is None:
            self._results(self._number - 1)
        elif self._on_item:
            self._results(self._number)
        else:
            self._item()

    @property
    def _told(self) -> str:
        return self.goal.instruction_text

    @property
    def _sold(self) -> Product:
        if self._product is None:
            raise RuntimeError("no product is open")  # such buttons stand on its pages only
        return self._product

    def _back_to_search(self) -> None:
        self._leave_product()
        self._hits = ()
        self._visited.clear()
        self.page = pages.search_page(self._told)

    def _search(self, query: str) -> None:
        self._hits = self._catalogue.search(query)
        self._results(1)

    def _results(self, number: int) -> None:
        self._leave_product()
        self._number = number
        start = (number - 1) * pages.HITS_PER_PAGE
        shown = self._hits[start : start + pages.HITS_PER_PAGE]
        products = [self._catalogue.product(asin) for asin in shown]
        total = len(self._hits)
        self.page = pages.results_page(self._told, number, total, products, self._visited)

    def _leave_product(self) -> None:
        self._product, self._on_item, self._chosen = None, False, {}

    def _open(self, asin: str) -> None:
        self._product, self._chosen = self._catalogue.product(asin), {}
        self._visited.add(asin)
        self._item()

    def _item(self) -> None:
        self._on_item = True
        self.page = pages.item_page(self._told, self._sold, self._chosen, self._sub_pages)

    def _choose(self, name: str, value: str) -> None:
        self._chosen[name] = value
        self._item()

    def _buy(self) -> None:
        product, price = self._sold, self._catalogue.price(self._sold)
        self.grade = grade(product, self.goal, price, self._chosen, self._tagger)
        self._on_item = False
        self.page = pages.done_page(product, self._chosen, self.grade.reward)
