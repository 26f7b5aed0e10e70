"""The built-in store of tau_bench from one seed: its tables, its tasks, and their files.

``python -m tau_built_in.generate``, in ``tests``, writes the JSON files of the package; equal code
gives equal bytes. ``wiki.md``, the policy, and ``rules.json`` are written by hand.
"""

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from skillwright.core import ContractError
from skillwright.core.jsonio import write_text
from skillwright.worlds.tau_bench.tau_core.store import BUILT_IN
from tau_built_in import requests
from tau_built_in.requests import Case, Impossible, Record, Request
from tau_built_in.tables import Numbers, make_orders, make_products, make_users

HERE: Final = BUILT_IN
SEED: Final = 20261
BY_HAND: Final = ("rules.json", "wiki.md")

Recipe = Callable[[Case], Request]

PLAN: Final[Mapping[str, tuple[tuple[Recipe, ...], ...]]] = {
    "train": (
        (requests.cancel,),
        (requests.cancel_mistake,),
        (requests.cancel_unnamed,),
        (requests.modify_one,),
        (requests.modify_two,),
        (requests.modify_fallback,),
        (requests.payment,),
        (requests.order_address,),
        (requests.move,),
        (requests.return_some,),
        (requests.return_gift,),
        (requests.exchange_cheapest,),
        (requests.exchange_two,),
        (requests.cancel_mistake, requests.return_some),
        (requests.too_late,),
        (requests.wrong_refund,),
    ),
    "val": (
        (requests.cancel_mistake,),
        (requests.cancel_unnamed,),
        (requests.modify_two,),
        (requests.modify_fallback,),
        (requests.payment,),
        (requests.move,),
        (requests.return_some,),
        (requests.exchange_two,),
        (requests.exchange_cheapest,),
        (requests.ask_total,),
        (requests.return_instead, requests.ask_tracking),
        (requests.other_product,),
    ),
    "test": (
        (requests.cancel_mistake, requests.exchange_one),
        (requests.cancel_unnamed,),
        (requests.modify_one,),
        (requests.modify_two,),
        (requests.payment,),
        (requests.order_address,),
        (requests.return_gift,),
        (requests.exchange_two,),
        (requests.return_instead,),
        (requests.ask_price, requests.return_some),
        (requests.too_late,),
        (requests.wrong_refund,),
    ),
}
"""Split -> what the customer of each task wants, first thing first."""

_MANNERS: Final = (
    "You are brief.",
    "You are friendly and patient.",
    "You are in a hurry.",
    "You are polite but reserved.",
    "You like to have things in order.",
)


def store_files() -> dict[str, bytes]:
    """Return the generated files by name, the checksums of all files last."""
    rng = random.Random(SEED)
    numbers = Numbers(rng)
    products = make_products(rng, numbers)
    users = make_users(rng, numbers)
    tables = {
        "users": users,
        "products": products,
        "orders": make_orders(rng, numbers, users, products),
    }
    tasks = {f"tasks_{split}": listed for split, listed in _tasks(tables, rng)}
    made = {f"{name}.json": _json(value) for name, value in {**tables, **tasks}.items()}
    whole = made | {name: (HERE / name).read_bytes() for name in BY_HAND}
    sums = (f"{hashlib.sha256(whole[name]).hexdigest()}  {name}\n" for name in sorted(whole))
    return made | {"SHA256SUMS": "".join(sums).encode()}


def write_store(folder: Path = HERE) -> None:
    """Write the generated files."""
    for name, content in store_files().items():
        write_text(folder / name, content.decode())


def _tasks(tables: dict[str, Record], rng: random.Random) -> Iterator[tuple[str, list[Record]]]:
    """Yield each split with its tasks; no customer has two tasks, in whatever splits."""
    waiting = [user_id for user_id, user in tables["users"].items() if user["orders"]]
    rng.shuffle(waiting)
    for split, plan in PLAN.items():
        made = [_task(tables, rng, waiting, recipes, index) for index, recipes in enumerate(plan)]
        yield split, made


def _task(
    tables: dict[str, Record],
    rng: random.Random,
    waiting: list[str],
    recipes: tuple[Recipe, ...],
    index: int,
) -> Record:
    """Return a task of the first customer in line who can want all that; they leave the line."""
    for user_id in waiting:
        case = Case(tables, user_id, rng)
        requests = []
        for recipe in recipes:
            with suppress(Impossible):
                requests.append(recipe(case))
        if len(requests) == len(recipes):
            waiting.remove(user_id)
            return _written(case, requests, index)
    wanted = " and ".join(recipe.__name__ for recipe in recipes)
    raise ContractError(f"no customer of the built-in store is left for {wanted}; change SEED")


def _written(case: Case, requests: list[Request], index: int) -> Record:
    who, find = case.identity()
    said = [sentence for request in requests for sentence in request.said]
    return {
        "index": index,
        "user_id": case.user_id,
        "instruction": " ".join([who, *said, case.rng.choice(_MANNERS)]),
        "actions": [find, *(action for request in requests for action in request.actions)],
        "outputs": [output for request in requests for output in request.outputs],
    }


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, indent=1)}\n".encode()


if __name__ == "__main__":
    write_store()
