"""What was bought: a hundred and fifty orders, in every state that an order can be in."""

import random
from typing import Any, Final

from skillwright.envs.tau_bench.built_in.numbers import Numbers

Record = dict[str, Any]

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
