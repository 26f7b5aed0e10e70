"""Who buys there: sixty people, in towns that are on no map."""

import random
from collections.abc import Sequence
from typing import Any, Final

from skillwright.envs.tau_bench.built_in.numbers import Numbers

Record = dict[str, Any]

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
