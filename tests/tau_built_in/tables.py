"""What the built-in store sells, to whom, and what was ordered."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Record = dict[str, Any]


class Numbers:
    """Draws numbers of a given length, as texts."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()

    def fresh(self, digits: int) -> str:
        """Return a number that was not drawn before; it does not start with 0."""
        while True:
            number = str(self._rng.randrange(10 ** (digits - 1), 10**digits))
            if number not in self._taken:
                self._taken.add(number)
                return number


@dataclass(frozen=True, slots=True)
class Line:
    """A product before it has variants."""

    name: str  # what it is called; no other product is
    price: float  # about what it costs, in dollars
    options: Mapping[str, tuple[str, ...]]  # option -> its values


LINES: Final = (
    Line("Rain Jacket", 89, {"color": ("navy", "moss", "rust"), "size": ("S", "M", "L")}),
    Line(
        "Trail Tent",
        240,
        {"capacity": ("one", "two", "three"), "season": ("summer", "all year")},
    ),
    Line("Chef Knife", 64, {"blade": ("16 cm", "20 cm", "24 cm"), "handle": ("oak", "resin")}),
    Line("Wool Blanket", 72, {"color": ("cream", "slate", "plum"), "size": ("single", "double")}),
    Line("Bicycle Helmet", 58, {"color": ("white", "black", "teal"), "size": ("S", "M", "L")}),
    Line("Reading Light", 36, {"mount": ("clip", "stand"), "power": ("battery", "mains", "usb")}),
    Line("Travel Mug", 24, {"volume": ("300 ml", "400 ml", "500 ml"), "color": ("sand", "teal")}),
    Line("Alarm Clock", 31, {"display": ("hands", "digits"), "color": ("white", "black", "red")}),
    Line("Watering Can", 27, {"volume": ("2 l", "5 l", "9 l"), "material": ("zinc", "plastic")}),
    Line("Desk Fan", 45, {"diameter": ("15 cm", "25 cm"), "color": ("white", "black", "mint")}),
    Line("Hiking Pack", 118, {"volume": ("22 l", "35 l", "50 l"), "color": ("navy", "moss")}),
    Line("Frying Pan", 52, {"diameter": ("20 cm", "24 cm"), "surface": ("iron", "ceramic")}),
)  # fmt: skip


def make_products(rng: random.Random, numbers: Numbers) -> Record:
    """Return product id -> product; about every fifth variant is sold out."""
    products: Record = {}
    for line in LINES:
        product_id = numbers.fresh(10)
        products[product_id] = {
            "name": line.name,
            "product_id": product_id,
            "variants": _variants(line, rng, numbers),
        }
    return products


def _variants(line: Line, rng: random.Random, numbers: Numbers) -> Record:
    variants: Record = {}
    prices: set[int] = set()
    for values in itertools.product(*line.options.values()):
        item_id = numbers.fresh(10)
        variants[item_id] = {
            "item_id": item_id,
            "options": dict(zip(line.options, values, strict=True)),
            "available": rng.randrange(5) > 0,
            "price": _price(line, rng, prices),
        }
    return variants


def _price(line: Line, rng: random.Random, taken: set[int]) -> float:
    # No two variants of a product cost the same, so that the cheapest is one, and no price ends in
    # a zero, which people say or leave out.
    while True:
        cents = round(line.price * rng.randrange(85, 116)) + rng.randrange(1, 10)
        if cents % 10 and cents not in taken:
            taken.add(cents)
            return cents / 100


PEOPLE: Final = 60

_FIRST: Final = (
    "Alma", "Bastian", "Corinne", "Dario", "Edda", "Fabian", "Greta", "Henrik", "Ines", "Jonas",
    "Katrin", "Lorenz", "Mireille", "Nils", "Odette", "Pascal", "Renata", "Soren", "Thea", "Ulrich",
)  # fmt: skip
_LAST: Final = (
    "Applegarth", "Brackwater", "Coldstream", "Dunmoor", "Eastwick", "Fernhollow", "Greywell",
    "Harrowgate", "Inglenook", "Kettering", "Larkspur", "Millbrand", "Northcote", "Oakhanger",
    "Pennyworth",
)  # fmt: skip
_STREETS: Final = (
    "Alder Row", "Bramble Lane", "Cooper Street", "Damson Way", "Elder Court", "Foundry Road",
    "Gorse Hill", "Hazel Close", "Ivy Walk", "Juniper Street",
)  # fmt: skip
_TOWNS: Final = (
    ("Amberley Falls", "OR", "977"), ("Birchmont", "VT", "057"), ("Cinder Creek", "CO", "812"),
    ("Dovers End", "ME", "046"), ("Elmstead Bay", "WA", "985"), ("Foxglove", "NC", "287"),
    ("Garnet Springs", "AZ", "864"), ("Heron Lake", "MN", "561"),
)  # fmt: skip
_CARDS: Final = ("visa", "mastercard")


def make_users(rng: random.Random, numbers: Numbers) -> Record:
    """Return user id -> user, still without orders; no two have the same name."""
    names = [(first, last) for first in _FIRST for last in _LAST]
    rng.shuffle(names)
    users: Record = {}
    for first, last in names[:PEOPLE]:
        user_id = f"{first}_{last}_{numbers.fresh(4)}".lower()
        users[user_id] = {
            "name": {"first_name": first, "last_name": last},
            "address": make_address(rng),
            "email": f"{first}.{last}{numbers.fresh(4)}@example.com".lower(),
            "payment_methods": _payment_methods(rng, numbers),
            "orders": [],
        }
    return users


def make_address(rng: random.Random) -> Record:
    """Return an address, its keys in the order of the official data."""
    town, state, zip_start = rng.choice(_TOWNS)
    return {
        "address1": f"{rng.randrange(10, 990)} {rng.choice(_STREETS)}",
        "address2": f"Unit {rng.randrange(1, 60)}",
        "city": town,
        "country": "USA",
        "state": state,
        "zip": f"{zip_start}{rng.randrange(10, 100)}",
    }


def _payment_methods(rng: random.Random, numbers: Numbers) -> Record:
    """Return one to three methods, each of another kind, so that its kind names it."""
    makers = [_credit_card, _gift_card, _paypal]
    rng.shuffle(makers)
    made: Sequence[Record] = [make(rng, numbers) for make in makers[: rng.choice((1, 2, 2, 3))]]
    return {method["id"]: method for method in made}


def _credit_card(rng: random.Random, numbers: Numbers) -> Record:
    return {
        "source": "credit_card",
        "brand": rng.choice(_CARDS),
        "last_four": numbers.fresh(4),
        "id": f"credit_card_{numbers.fresh(7)}",
    }


def _gift_card(rng: random.Random, numbers: Numbers) -> Record:
    balance = rng.choice((10, 25, 60, 150, 300, 500))
    return {"source": "gift_card", "balance": balance, "id": f"gift_card_{numbers.fresh(7)}"}


def _paypal(rng: random.Random, numbers: Numbers) -> Record:
    return {"source": "paypal", "id": f"paypal_{numbers.fresh(7)}"}


STATUSES: Final = {"pending": 62, "delivered": 60, "processed": 17, "cancelled": 11}
BUYERS: Final = 52


def make_orders(rng: random.Random, numbers: Numbers, users: Record, products: Record) -> Record:
    """Return order id -> order, and enter each in the list of the user who ordered.

    The first `BUYERS` users have at least two orders each, the others none.
    """
    buyers = list(users)[:BUYERS]
    left = sum(STATUSES.values()) - 2 * len(buyers)
    owners = [*buyers, *buyers, *rng.sample(buyers, left)]
    statuses = [status for status, count in STATUSES.items() for _ in range(count)]
    rng.shuffle(statuses)
    orders: Record = {}
    for user_id, status in zip(owners, statuses, strict=True):
        order_id = f"#W{numbers.fresh(7)}"
        orders[order_id] = _order(rng, numbers, order_id, user_id, users[user_id], products, status)
        users[user_id]["orders"].append(order_id)
    return orders


def _order(
    rng: random.Random,
    numbers: Numbers,
    order_id: str,
    user_id: str,
    user: Record,
    products: Record,
    status: str,
) -> Record:
    # Products of an order differ, so that a product's name tells which item is meant.
    chosen = rng.sample(list(products.values()), rng.choice((1, 2, 2, 3)))
    items = [_item(rng, product) for product in chosen]
    sent = status in {"processed", "delivered"}
    parcel = {
        "tracking_id": [numbers.fresh(12)],
        "item_ids": [item["item_id"] for item in items],
    }
    total = round(sum(item["price"] for item in items), 2)
    method_id = rng.choice(list(user["payment_methods"]))
    kinds = ("payment", "refund") if status == "cancelled" else ("payment",)
    return {
        "order_id": order_id,
        "user_id": user_id,
        "address": dict(user["address"]),
        "items": items,
        "fulfillments": [parcel] if sent else [],
        "status": status,
        "payment_history": [
            {"transaction_type": kind, "amount": total, "payment_method_id": method_id}
            for kind in kinds
        ],
    }


def _item(rng: random.Random, product: Record) -> Record:
    variant = rng.choice(list(product["variants"].values()))
    return {
        "name": product["name"],
        "product_id": product["product_id"],
        "item_id": variant["item_id"],
        "price": variant["price"],
        "options": dict(variant["options"]),
    }
