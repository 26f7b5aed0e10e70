"""Tools that swap items of an order for other variants of the same products.

Source: tau-bench (arXiv:2406.12045), retail domain. That nothing may be swapped for nothing, or
an item for itself, and that an exchange forgets which item becomes which, decides rewards and is
kept.
"""

from typing import Any

from skillwright.envs.tau_bench.tau_core.changes import (
    NO_METHOD,
    NOT_PENDING,
    add_balance,
    cannot_afford,
    payment_method,
    surplus_item,
    transaction,
)
from skillwright.envs.tau_bench.tau_core.database import Database, Record
from skillwright.envs.tau_bench.tau_core.lookups import NO_ORDER


def modify_pending_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    """Swap items before they are sent, and pay or refund the difference in price."""
    order = db.order(order_id)
    if order is None:
        return NO_ORDER
    if order["status"] != "pending":
        return NOT_PENDING
    difference = _price_difference(db, order, item_ids, new_item_ids)
    if isinstance(difference, str):
        return difference
    method = payment_method(db, order, payment_method_id)
    if method is None:
        return NO_METHOD
    if cannot_afford(method, difference):
        return "Error: insufficient gift card balance to pay for the new item"
    kind = "payment" if difference > 0 else "refund"
    payment = transaction(kind, abs(difference), payment_method_id)
    if method["source"] == "gift_card":
        add_balance(db, order["user_id"], payment_method_id, -difference)
    modified = {
        **order,
        "items": _swapped(db, order, item_ids, new_item_ids),
        "status": "pending (item modified)",
        "payment_history": (*order["payment_history"], payment),
    }
    return db.put("orders", order_id, modified)


def exchange_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    """Ask for delivered items to be exchanged; only the request is written down."""
    order = db.order(order_id)
    if order is None:
        return NO_ORDER
    if order["status"] != "delivered":
        return "Error: non-delivered order cannot be exchanged"
    difference = _price_difference(db, order, item_ids, new_item_ids)
    if isinstance(difference, str):
        return difference
    difference = round(difference, 2)
    method = payment_method(db, order, payment_method_id)
    if method is None:
        return NO_METHOD
    if cannot_afford(method, difference):
        return "Error: insufficient gift card balance to pay for the price difference"
    exchanged = {
        **order,
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    return db.put("orders", order_id, exchanged)


def _price_difference(
    db: Database, order: Record, item_ids: Any, new_item_ids: Any
) -> float | int | str:
    """Add up what the new items cost more, unrounded, or say why they cannot be had."""
    surplus = surplus_item(order, item_ids)
    if surplus is not None:
        return f"Error: {surplus[0]} not found"
    if len(item_ids) != len(new_item_ids):
        return "Error: the number of items to be exchanged should match"
    difference: float | int = 0  # stays the whole number 0 where nothing is swapped
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        item = next(item for item in order["items"] if item["item_id"] == item_id)
        new = _variants(db, item).get(new_item_id)
        if new is None or not new["available"]:
            return f"Error: new item {new_item_id} not found or available"
        difference += new["price"] - item["price"]
    return difference


def _swapped(db: Database, order: Record, item_ids: Any, new_item_ids: Any) -> tuple[Record, ...]:
    """Swap pair by pair, each time the first item of that id: one just swapped in counts too."""
    items = list(order["items"])
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        at = next(at for at, item in enumerate(items) if item["item_id"] == item_id)
        new = _variants(db, items[at])[new_item_id]
        items[at] = {
            **items[at],
            "item_id": new_item_id,
            "price": new["price"],
            "options": new["options"],
        }
    return tuple(items)


def _variants(db: Database, item: Record) -> dict[str, Record]:
    product = db.product(item["product_id"]) or {}
    variants: dict[str, Record] = product["variants"]
    return variants
