"""One visit to the shop, by the rules of WebShop (arXiv:2207.01206).

``search[...]`` works on every page and clears product and options; ``Back to Search`` also clears
the visited products. If two options share a value, a click sets the later one. Only ``Buy Now``
ends the visit.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, Literal

from skillwright.worlds.webshop.catalogue import Catalogue
from skillwright.worlds.webshop.product import Goal, Product
from skillwright.worlds.webshop.reward import Grade, grade

_ACTION: Final = re.compile(r"(search|click)\[(.*)\]", re.DOTALL)


class Session:
    """One customer's visit; ``grade`` is ``None`` until a purchase.

    Args:
        catalogue: The products.
        goal: The customer's goal.
        tagger: The reward's noun tagger.
        show_attributes: Whether an item has a page with its attributes, in the reward's own words.
    """

    def __init__(
        self, catalogue: Catalogue, goal: Goal, tagger: str, *, show_attributes: bool = False
    ) -> None:
        self.goal = goal
        self._catalogue = catalogue
        self._tagger = tagger
        more = (ATTRIBUTES,) if show_attributes else ()
        self._sub_pages = (*SUB_PAGES, *more)
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
        return any(part.text == SEARCH and part.kind == "button" for part in self.page)

    @property
    def clickables(self) -> list[str]:
        """Clickable texts, in lower case."""
        return clickables(self.page)

    def act(self, action: str) -> bool:
        """Execute ``search[...]`` or ``click[...]``; return whether it had an effect."""
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
        """Return the effect of a click on each clickable text of the page."""
        clicks = {
            part.text.lower(): partial(self._open, part.text)
            for part in self.page
            if part.kind == "product"
        }
        if self._product is not None and self._on_item:
            for name, values in self._product.options.items():
                clicks |= {value.lower(): partial(self._choose, name, value) for value in values}
        # Buttons last, so that an option's value of the same name does not hide them.
        return clicks | {
            part.text.lower(): partial(self._press, part.text)
            for part in self.page
            if part.kind == "button" and part.text != SEARCH
        }

    def _press(self, button: str) -> None:
        moves: dict[str, Callable[[], None]] = {
            BACK: self._back_to_search,
            NEXT: partial(self._results, self._number + 1),
            PREVIOUS: self._previous,
            BUY: self._buy,
        }
        moves.get(button, partial(self._sub_page, button))()

    def _sub_page(self, name: str) -> None:
        self._on_item = False
        self.page = sub_page(self._instruction, self._sold, name)

    def _previous(self) -> None:
        if self._product is None:
            self._results(self._number - 1)
        elif self._on_item:
            self._results(self._number)
        else:
            self._item()

    @property
    def _instruction(self) -> str:
        return self.goal.instruction_text

    @property
    def _sold(self) -> Product:
        if self._product is None:
            raise RuntimeError("no product is open")  # only a product's pages have these buttons
        return self._product

    def _back_to_search(self) -> None:
        self._leave_product()
        self._hits = ()
        self._visited.clear()
        self.page = search_page(self._instruction)

    def _search(self, query: str) -> None:
        self._hits = self._catalogue.search(query)
        self._results(1)

    def _results(self, number: int) -> None:
        self._leave_product()
        self._number = number
        start = (number - 1) * HITS_PER_PAGE
        shown = self._hits[start : start + HITS_PER_PAGE]
        products = [self._catalogue.product(asin) for asin in shown]
        total = len(self._hits)
        self.page = results_page(self._instruction, number, total, products, self._visited)

    def _leave_product(self) -> None:
        self._product, self._on_item, self._chosen = None, False, {}

    def _open(self, asin: str) -> None:
        self._product, self._chosen = self._catalogue.product(asin), {}
        self._visited.add(asin)
        self._item()

    def _item(self) -> None:
        self._on_item = True
        self.page = item_page(self._instruction, self._sold, self._chosen, self._sub_pages)

    def _choose(self, name: str, value: str) -> None:
        self._chosen[name] = value
        self._item()

    def _buy(self) -> None:
        product, price = self._sold, self._catalogue.price(self._sold)
        self.grade = grade(product, self.goal, price, self._chosen, self._tagger)
        self._on_item = False
        self.page = done_page(product, self._chosen, self.grade.reward)


# A page is a sequence of visible, partly clickable texts. The mode ``text`` joins them by
# `SEPARATOR`; ``text_rich`` puts each on a line, with marks around clickable ones. Source: the page
# texts of WebShop (arXiv:2207.01206), white space included.


SEPARATOR: Final = " [SEP] "
HITS_PER_PAGE: Final = 10

SEARCH: Final = "Search"
BACK: Final = "Back to Search"
PREVIOUS: Final = "< Prev"
NEXT: Final = "Next >"
BUY: Final = "Buy Now"
SUB_PAGES: Final = ("Description", "Features", "Reviews")
ATTRIBUTES: Final = "Attributes"

Kind = Literal["text", "button", "product", "option"]


@dataclass(frozen=True, slots=True)
class Part:
    """A visible text of a page."""

    text: str  # as in the mode `text_rich`, with its white space
    kind: Kind = "text"  # plain text, a button, a product's link, or an option's value
    clicked: bool = False  # whether an option is chosen, or a product was visited


Page = tuple[Part, ...]


def search_page(instruction: str) -> Page:
    """Return the page with the search bar, where an episode begins."""
    return (Part("WebShop"), Part("Instruction: "), Part(instruction), _button(SEARCH))


def results_page(
    instruction: str,
    number: int,
    total: int,
    products: Sequence[Product],
    visited: AbstractSet[str],
) -> Page:
    """Return a page of ten hits; even the last one has ``Next >``, as in the original."""
    listed = [
        part
        for product in products
        for part in (
            Part(product.asin, "product", product.asin in visited),
            Part(product.title),
            Part(product.price_text),
        )
    ]
    return (
        *_shown_instruction(instruction),
        _button(BACK),
        Part(f"Page {number} (Total results: {total})"),
        *([_button(PREVIOUS)] if number > 1 else []),
        _button(NEXT),
        *listed,
    )


def item_page(
    instruction: str, product: Product, chosen: Mapping[str, str], sub_pages: Iterable[str]
) -> Page:
    """Return the page of a product with its options."""
    options = [
        part
        for name, values in product.options.items()
        for part in (
            Part(name),
            *(Part(value, "option", chosen.get(name) == value) for value in values),
        )
    ]
    return (
        *_shown_instruction(instruction),
        _button(BACK),
        _button(PREVIOUS),
        *options,
        Part(product.title),
        Part(f"Price: {product.price_text}"),
        Part("Rating: N.A."),
        *(_button(name) for name in sub_pages),
        _button(BUY),
    )


def sub_page(instruction: str, product: Product, name: str) -> Page:
    """Return a product's page with its description, features, reviews or attributes."""
    listed = {"Features": product.bullets, ATTRIBUTES: product.attributes}.get(name, ())
    below = {
        "Description": (product.description,),
        ATTRIBUTES: (product.category, product.query, product.crumbs),
    }.get(name, ())
    parts = [Part(text) for text in (*(f" {text}" for text in listed), *below)]
    return (*_shown_instruction(instruction), _button(BACK), _button(PREVIOUS), *parts)


def done_page(product: Product, chosen: Mapping[str, str], reward: Fraction) -> Page:
    """Return the page after a purchase, with the original's unfilled fields for the goal."""
    bought = ("asin", product.asin, "options", _escaped_json(chosen))
    unknown = ("attrs", "category", "query", "product category")
    wanted = ("asin", "options", "attrs", "price upper", "instuction text", "category")
    texts = (
        "Thank you for shopping with us!",
        *("Your code: ", "None", " (Paste it in your MTurk interface.)"),
        *("Purchased", *bought, *(text for name in unknown for text in (name, "None"))),
        *("Target", *wanted, "product category", "query", "Goal ", "None"),
        *("Reward", "Your score (min 0.0, max 1.0)", str(float(reward))),
        *("Reward Details ", "None"),
    )
    return tuple(Part(text) for text in texts)


def _escaped_json(chosen: Mapping[str, str]) -> str:
    """Serialize choices like Flask's templates: sorted, in ASCII, HTML-safe."""
    text = json.dumps(dict(chosen), sort_keys=True)
    return re.sub(r"[<>&']", lambda found: f"\\u{ord(found[0]):04x}", text)


def clickables(page: Page) -> list[str]:
    """Return the distinct clickable texts in lower case and in order, with the search button."""
    return list(dict.fromkeys(part.text.lower() for part in page if part.kind != "text"))


def as_text(page: Page) -> str:
    """Render a page in the mode ``text``."""
    return SEPARATOR.join(part.text.strip() for part in page if part.text.strip())


def as_rich_text(page: Page) -> str:
    """Render a page in the mode ``text_rich``."""
    chosen = [part.text for part in page if part.kind == "option" and part.clicked]
    # The original prepends each such line, so that the last one is first.
    clicks = [f"You have clicked {text}." for text in reversed(chosen)]
    lines = [*clicks, *(_rich(part) for part in page if part.text.strip())]
    return "".join(f"{line}\n" for line in lines)


def _rich(part: Part) -> str:
    if part.kind == "text":
        return part.text
    mark = "clicked button" if part.clicked else "button"
    before = {"option": "  ", "product": "\n"}.get(part.kind, "")
    return f"{before}[{mark}] {part.text} [{mark}_]"


def _shown_instruction(instruction: str) -> tuple[Part, Part]:
    return Part("Instruction:"), Part(instruction)


def _button(text: str) -> Part:
    return Part(text, "button")
