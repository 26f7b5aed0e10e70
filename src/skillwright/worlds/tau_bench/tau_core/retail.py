"""The retail domain: a store's users, products and orders, and thirteen tools of its own.

All checks come before the first change, and a new record replaces the old one, so a refused call
changes nothing. New keys come last, because observations show the order.

Source: tau-bench (arXiv:2406.12045), retail domain. Its oddities affect rewards and are kept: a
gift card is credited too often when an order is cancelled after its payment was changed; an empty
list of items, or an item and itself, can be swapped; and an exchange does not record which item
replaces which.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillwright.worlds.tau_bench.tau_core.database import Database
from skillwright.worlds.tau_bench.tau_core.domain import UPSTREAM, Domain, Record, Records, Tool
from skillwright.worlds.tau_bench.tau_core.schemas import ADDRESS, CANCEL_REASONS, RETAIL_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.tools import SHARED_TOOLS, Refused, known


@dataclass(frozen=True, slots=True)
class _Index:
    """The lookup index of the tools; of several records the first in the data counts."""

    user_id_by_email: Mapping[str, str]
    user_ids_by_first_name: Mapping[str, list[str]]
    product_types: str  # a JSON object of product ids by name


def _indexed(records: Records) -> _Index:
    by_email: dict[str, str] = {}
    by_first_name: dict[str, list[str]] = {}
    for user_id, user in records["users"].items():
        by_email.setdefault(user["email"].lower(), user_id)
        by_first_name.setdefault(user["name"]["first_name"].lower(), []).append(user_id)
    products = records["products"].values()
    by_name = {product["name"]: product["product_id"] for product in products}
    return _Index(by_email, by_first_name, json.dumps(dict(sorted(by_name.items()))))


def _index(db: Database) -> _Index:
    found: _Index = db.tables.index
    return found


def _find_user_id_by_email(db: Database, email: Any) -> str:
    return known(_index(db).user_id_by_email.get(email.lower()), "user")


def _find_user_id_by_name_zip(db: Database, first_name: Any, last_name: Any, zip: Any) -> str:
    """Return the first user of this name, in any case, with exactly this zip code."""
    for user_id in _index(db).user_ids_by_first_name.get(first_name.lower(), ()):
        # Names never change, but a zip code may have changed in this episode.
        user = db.find("users", user_id)
        if user is None or user["name"]["last_name"].lower() != last_name.lower():
            continue
        if user["address"]["zip"] == zip:
            return user_id
    raise Refused("user not found")


def _get_user_details(db: Database, user_id: Any) -> str:
    known(db.find("users", user_id), "user")
    return db.text("users", user_id)


def _get_order_details(db: Database, order_id: Any) -> str:
    known(db.find("orders", order_id), "order")
    return db.text("orders", order_id)


def _get_product_details(db: Database, product_id: Any) -> str:
    known(db.find("products", product_id), "product")
    return db.text("products", product_id)


def _cancel_pending_order(db: Database, order_id: Any, reason: Any) -> str:
    """Cancel an order and refund every entry of its payment history, refunds included."""
    order = _order(db, order_id, "pending", "cancelled")
    if reason not in CANCEL_REASONS:
        raise Refused("invalid reason")
    refunds = []
    for entry in order["payment_history"]:
        method_id = entry["payment_method_id"]
        refunds.append(transaction("refund", entry["amount"], method_id))
        if _is_gift_card(method_id):
            add_balance(db, order, method_id, entry["amount"])
    cancelled = {
        **order,
        "status": "cancelled",
        "payment_history": (*order["payment_history"], *refunds),
        "cancel_reason": reason,
    }
    return db.put("orders", order_id, cancelled)


def _modify_pending_order_address(db: Database, order_id: Any, **address: Any) -> str:
    order = _order(db, order_id, "pending", "modified")
    return db.put("orders", order_id, {**order, "address": _address(address)})


def _modify_user_address(db: Database, user_id: Any, **address: Any) -> str:
    """Change a user's address; orders keep theirs."""
    user = known(db.find("users", user_id), "user")
    return db.put("users", user_id, {**user, "address": _address(address)})


def _modify_pending_order_payment(db: Database, order_id: Any, payment_method_id: Any) -> str:
    order = _order(db, order_id, "pending", "modified")
    return pay_otherwise(db, order_id, order, payment_method_id)


def pay_otherwise(db: Database, order_id: Any, order: Record, payment_method_id: Any) -> str:
    """Pay an order by another method and refund the first one."""
    method = payment_method(db, order, payment_method_id)
    history = order["payment_history"]
    if len(history) > 1 or history[0]["transaction_type"] != "payment":
        raise Refused("there should be exactly one payment for a pending order")
    old_id, amount = history[0]["payment_method_id"], history[0]["amount"]
    if old_id == payment_method_id:
        raise Refused("the new payment method should be different from the current one")
    refuse_unaffordable(method, amount, "order")
    moved = (
        transaction("payment", amount, payment_method_id),
        transaction("refund", amount, old_id),
    )
    if method["source"] == "gift_card":
        add_balance(db, order, payment_method_id, -amount)
    if _is_gift_card(old_id):
        add_balance(db, order, old_id, amount)
    return db.put("orders", order_id, {**order, "payment_history": (*history, *moved)})


def _return_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, payment_method_id: Any
) -> str:
    """Request a return of items; balances change when they arrive, not now."""
    order = _order(db, order_id, "delivered", "returned")
    payment_method(db, order, payment_method_id)
    first_payment = order["payment_history"][0]["payment_method_id"]
    if not _is_gift_card(payment_method_id) and payment_method_id != first_payment:
        raise Refused("payment method should be either the original payment method or a gift card")
    if surplus_items(order, item_ids):
        raise Refused("some item not found")
    returned = {
        **order,
        "status": "return requested",
        "return_items": sorted(item_ids),
        "return_payment_method_id": payment_method_id,
    }
    return db.put("orders", order_id, returned)


def _modify_pending_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    """Swap items before shipping, and pay or refund the difference in price."""
    order = _order(db, order_id, "pending", "modified")
    difference = _price_difference(db, order, item_ids, new_item_ids)
    method = payment_method(db, order, payment_method_id)
    refuse_unaffordable(method, difference, "new item")
    kind = "payment" if difference > 0 else "refund"
    payment = transaction(kind, abs(difference), payment_method_id)
    if method["source"] == "gift_card":
        add_balance(db, order, payment_method_id, -difference)
    modified = {
        **order,
        "items": _swapped(db, order, item_ids, new_item_ids),
        "status": "pending (item modified)",
        "payment_history": (*order["payment_history"], payment),
    }
    return db.put("orders", order_id, modified)


def _exchange_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    """Request an exchange of delivered items; only the request is recorded."""
    order = _order(db, order_id, "delivered", "exchanged")
    difference = round(_price_difference(db, order, item_ids, new_item_ids), 2)
    method = payment_method(db, order, payment_method_id)
    refuse_unaffordable(method, difference, "price difference")
    exchanged = {
        **order,
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    return db.put("orders", order_id, exchanged)


def _price_difference(db: Database, order: Record, item_ids: Any, new_item_ids: Any) -> float | int:
    """Return the additional price of the new items, unrounded; the integer 0 for no items."""
    surplus = surplus_items(order, item_ids)
    if surplus:
        raise Refused(f"{surplus[0]} not found")
    if len(item_ids) != len(new_item_ids):
        raise Refused("the number of items to be exchanged should match")
    difference: float | int = 0
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        item = next(item for item in order["items"] if item["item_id"] == item_id)
        new = _variants(db, item).get(new_item_id)
        if new is None or not new["available"]:
            raise Refused(f"new item {new_item_id} not found or available")
        difference += new["price"] - item["price"]
    return difference


def _swapped(db: Database, order: Record, item_ids: Any, new_item_ids: Any) -> tuple[Record, ...]:
    """Swap pair by pair, each time the first item of that id, also one just swapped in."""
    items = list(order["items"])
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        at = next(at for at, item in enumerate(items) if item["item_id"] == item_id)
        new = _variants(db, items[at])[new_item_id]
        changed = {"item_id": new_item_id, "price": new["price"], "options": new["options"]}
        items[at] = {**items[at], **changed}
    return tuple(items)


def _variants(db: Database, item: Record) -> dict[str, Record]:
    product = db.find("products", item["product_id"]) or {}
    variants: dict[str, Record] = product["variants"]
    return variants


def _order(db: Database, order_id: Any, status: str, done: str) -> Record:
    order = known(db.find("orders", order_id), "order")
    if order["status"] != status:
        raise Refused(f"non-{status} order cannot be {done}")
    return order


def surplus_items(order: Record, item_ids: Any) -> list[Any]:
    """Return the ids that are requested more often than the order has them."""
    in_order = [item["item_id"] for item in order["items"]]
    return [one for one in item_ids if item_ids.count(one) > in_order.count(one)]


def payment_method(db: Database, order: Record, method_id: Any) -> Record:
    """Return a payment method of the order's user."""
    method: Record = known(_owner(db, order)["payment_methods"].get(method_id), "payment method")
    return method


def refuse_unaffordable(method: Record, amount: Any, bought: str) -> None:
    """Refuse a gift card with less than an amount; other methods pay any amount."""
    if method["source"] == "gift_card" and method["balance"] < amount:
        raise Refused(f"insufficient gift card balance to pay for the {bought}")


def _is_gift_card(method_id: str) -> bool:
    """Tell by its id, as refunds do."""
    return "gift_card" in method_id


def add_balance(db: Database, order: Record, method_id: str, amount: Any) -> None:
    """Credit a gift card, or charge it with a negative amount, rounded to two digits."""
    user = _owner(db, order)
    methods = user["payment_methods"]
    balance = round(methods[method_id]["balance"] + amount, 2)
    credited = {**methods[method_id], "balance": balance}
    changed = {**user, "payment_methods": {**methods, method_id: credited}}
    db.put("users", order["user_id"], changed)


def transaction(kind: str, amount: Any, method_id: str) -> Record:
    """Return an entry of a payment history."""
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def _owner(db: Database, order: Record) -> Record:
    user = db.find("users", order["user_id"])
    if user is None:  # the tables were checked when loaded
        raise KeyError(order["user_id"])
    return user


def _address(given: Mapping[str, Any]) -> Record:
    return {name: given[name] for name in ADDRESS}


_TOOLS: Final[Mapping[str, Tool]] = {
    **SHARED_TOOLS,
    "cancel_pending_order": _cancel_pending_order,
    "exchange_delivered_order_items": _exchange_delivered_order_items,
    "find_user_id_by_email": _find_user_id_by_email,
    "find_user_id_by_name_zip": _find_user_id_by_name_zip,
    "get_order_details": _get_order_details,
    "get_product_details": _get_product_details,
    "get_user_details": _get_user_details,
    "list_all_product_types": lambda db: _index(db).product_types,
    "modify_pending_order_address": _modify_pending_order_address,
    "modify_pending_order_items": _modify_pending_order_items,
    "modify_pending_order_payment": _modify_pending_order_payment,
    "modify_user_address": _modify_user_address,
    "return_delivered_order_items": _return_delivered_order_items,
}

RETAIL: Final = Domain(
    name="retail",
    place="retail store",
    tables={
        "users": {
            "name": dict,
            "name.first_name": str,
            "name.last_name": str,
            "address": dict,
            "email": str,
            "payment_methods": dict,
            "orders": list,
        },
        "products": {"name": str, "product_id": str, "variants": dict},
        "orders": {
            "order_id": str,
            "user_id": str,
            "address": dict,
            "items": list,
            "status": str,
            "payment_history": list,
        },
    },
    index=_indexed,
    tools=_TOOLS,
    schemas=RETAIL_SCHEMAS,
    task_types={
        "cancel_pending_order": "cancel",
        "modify_pending_order_address": "order_address",
        "modify_pending_order_items": "order_items",
        "modify_pending_order_payment": "order_payment",
        "modify_user_address": "user_address",
        "exchange_delivered_order_items": "exchange",
        "return_delivered_order_items": "return",
    },
    original="tau-bench retail, original 115",
    upstream=UPSTREAM["retail"],
    data_variable="SKILLWRIGHT_TAU_DATA",
    fetch_command="skillwright data tau-bench",
    longest_observation=3_500,  # a product with all its variants
)
