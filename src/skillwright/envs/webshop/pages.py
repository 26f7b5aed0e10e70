"""What the pages of the shop say: visible texts in order, and what can be clicked.

``text`` joins the parts by `SEPARATOR`; ``text_rich`` gives each a line, with marks around what
can be clicked. Source: the page texts of WebShop (arXiv:2207.01206), white space included.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from skillwright.envs.webshop.product import Product

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
    """A visible text, and what it is."""

    text: str  # as `text_rich` shows it, with its white space
    kind: Kind = "text"  # plain text, a button, a product's link, or an option's value
    clicked: bool = False  # an option that is chosen, or a product that was visited


Page = tuple[Part, ...]


def search_page(instruction: str) -> Page:
    """The page with the search bar, where an episode begins."""
    return (Part("WebShop"), Part("Instruction: "), Part(instruction), _button(SEARCH))


def results_page(
    instruction: str,
    number: int,
    total: int,
    products: Sequence[Product],
    visited: AbstractSet[str],
) -> Page:
    """Ten hits. ``Next >`` is there even after the last of them, as in the original."""
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
        *_told(instruction),
        _button(BACK),
        Part(f"Page {number} (Total results: {total})"),
        *([_button(PREVIOUS)] if number > 1 else []),
        _button(NEXT),
        *listed,
    )


def item_page(
    instruction: str, product: Product, chosen: Mapping[str, str], sub_pages: Iterable[str]
) -> Page:
    """A product with its options."""
    options = [
        part
        for name, values in product.options.items()
        for part in (
            Part(name),
            *(Part(value, "option", chosen.get(name) == value) for value in values),
        )
    ]
    return (
        *_told(instruction),
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
    """What is said about a product: its description, features, reviews or attributes."""
    listed = {"Features": product.bullets, ATTRIBUTES: product.attributes}.get(name, ())
    below = {
        "Description": (product.description,),
        ATTRIBUTES: (product.category, product.query, product.crumbs),
    }.get(name, ())
    parts = [Part(text) for text in (*(f" {text}" for text in listed), *below)]
    return (*_told(instruction), _button(BACK), _button(PREVIOUS), *parts)


def done_page(product: Product, chosen: Mapping[str, str], reward: Fraction) -> Page:
    """What was bought, and what it was worth.

    The original's template has fields for what was wanted too, which its text environment does not
    fill in: they read ``None`` or nothing.
    """
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
    """Write choices as Flask's templates do: sorted, in ASCII, safe within HTML."""
    text = json.dumps(dict(chosen), sort_keys=True)
    return re.sub(r"[<>&']", lambda found: f"\\u{ord(found[0]):04x}", text)


def clickables(page: Page) -> list[str]:
    """Return what can be clicked on a page, in lower case and order, each once.

    The search button is among them where it is shown, although a click on it does nothing.
    """
    return list(dict.fromkeys(part.text.lower() for part in page if part.kind != "text"))


def as_text(page: Page) -> str:
    """Render a page in the mode ``text``."""
    return SEPARATOR.join(part.text.strip() for part in page if part.text.strip())


def as_rich_text(page: Page) -> str:
    """Render a page in the mode ``text_rich``."""
    chosen = [part.text for part in page if part.kind == "option" and part.clicked]
    # The original puts each such line before all that it has so far, so that the last is on top.
    told = [f"You have clicked {text}." for text in reversed(chosen)]
    lines = [*told, *(_rich(part) for part in page if part.text.strip())]
    return "".join(f"{line}\n" for line in lines)


def _rich(part: Part) -> str:
    if part.kind == "text":
        return part.text
    mark = "clicked button" if part.clicked else "button"
    before = {"option": "  ", "product": "\n"}.get(part.kind, "")
    return f"{before}[{mark}] {part.text} [{mark}_]"


def _told(instruction: str) -> tuple[Part, Part]:
    return Part("Instruction:"), Part(instruction)


def _button(text: str) -> Part:
    return Part(text, "button")
