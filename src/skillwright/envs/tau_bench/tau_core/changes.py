"""Tools that change an order or a user, apart from those that swap items.

Every check comes before the first change, and a new record replaces the old one whole, so that a
refused call leaves no trace. Where keys are new they come last: observations show the order.

Source: tau-bench (arXiv:2406.12045), retail domain. Its over-crediting of a gift card, when an
order is cancelled after its payment was changed, decides rewards and is kept.
"""

from typing import Any, Final

from skillwright.envs.tau_bench.tau_core.database import Database, Record
from skillwright.envs.tau_bench.tau_core.lookups import NO_ORDER, NO_USER

NO_METHOD: Final = "Error: payment method not found"
NOT_PENDING: Final = "Error: non-pending order cannot be modified"
CANCEL_REASONS: Final = ("no longer needed", "ordered by mistake")


def cancel_pending_order(db: Database, order_id: Any, reason: Any) -> str:
    """Cancel an order and refund every entry of its payment history, refunds among them."""
    order = db.order(order_id)
    if order is None:
        return NO_ORDER
    if order["status"] != "pending":
        return "Error: non-pending order cannot be cancelled"
    if reason not in CANCEL_REASONS:
        return "Error: invalid reason"
    refunds = []
    for entry in order["payment_history"]:
        method_id = entry["payment_method_id"]
        refunds.append(transaction("refund", entry["amount"], method_id))
        if is_gift_card(method_id):
            add_balance(db, order["user_id"], method_id, entry["amount"])
    cancelled = {
        **order,
        "status": "cancelled",
        "payment_history": (*order["payment_history"], *refunds),
        "cancel_reason": reason,
    }
    return db.put("orders", order_id, cancelled)


def modify_pending_order_address(db: Database, order_id: Any, **address: Any) -> str:
    """Send an order elsewhere."""
    order = db.order(order_id)
    if order is None:
        return NO_ORDER
    if order["status"] != "pending":
        return NOT_PENDING
    return db.put("orders", order_id, {**order, "address": _address(**address)})


def modify_user_address(db: Database, user_id: Any, **address: Any) -> str:
    """Change where a user lives; orders keep their address."""
    user = db.user(user_id)
    if user is None:
        return NO_USER
    return db.put("users", user_id, {**user, "address": _address(**address)})


def modify_pending_order_payment(db: Database, order_id: Any, payment_method_id: Any) -> str:
    """Pay an order by another method and refund the first one."""
    order = db.order(order_id)
    if order is None:
        return NO_ORDER
    if order["status"] != "pending":
        return NOT_PENDING
    method = payment_method(db, order, payment_method_id)
    if method is None:
        return NO_METHOD
    history = order["payment_history"]
    if len(history) > 1 or history[0]["transaction_type"] != "payment":
        return "Error: there should be exactly one payment for a pending order"
    old_id, amount = history[0]["payment_method_id"], history[0]["amount"]
    if old_id == payment_method_id:
        return "Error: the new payment method should be different from the current one"
    if cannot_afford(method, amount):
        return "Error: insufficient gift card balance to pay for the order"
    moved = (
        transaction("payment", amount, payment_method_id),
        transaction("refund", amount, old_id),
    )
    if method["source"] == "gift_card":
        add_balance(db, order["user_id"], payment_method_id, -amount)
    if is_gift_card(old_id):
        add_balance(db, order["user_id"], old_id, amount)
    return db.put("orders", order_id, {**order, "payment_history": (*history, *moved)})


def return_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, payment_method_id: Any
) -> str:
    """Ask for items to be taken back; balances change when they arrive, not now."""
    order = db.order(order_id)
    if order is None:
        return NO_ORDER
    if order["status"] != "delivered":
        return "Error: non-delivered order cannot be returned"
    if payment_method(db, order, payment_method_id) is None:
        return NO_METHOD
    first_payment = order["payment_history"][0]["payment_method_id"]
    if not is_gift_card(payment_method_id) and payment_method_id != first_payment:
        return "Error: payment method should be either the original payment method or a gift card"
    if surplus_item(order, item_ids) is not None:
        return "Error: some item not found"
    returned = {
        **order,
        "status": "return requested",
        "return_items": sorted(item_ids),
        "return_payment_method_id": payment_method_id,
    }
    return db.put("orders", order_id, returned)


def surplus_item(order: Record, item_ids: Any) -> tuple[Any] | None:
    """Find the first id that is asked for more often than the order has it, in a tuple."""
    in_order = [item["item_id"] for item in order["items"]]
    for item_id in item_ids:
        if item_ids.count(item_id) > in_order.count(item_id):
            return (item_id,)
    return None


def payment_method(db: Database, order: Record, method_id: Any) -> Record | None:
    """Find a payment method of the one who ordered."""
    methods: dict[str, Record] = _owner(db, order["user_id"])["payment_methods"]
    return methods.get(method_id)


def cannot_afford(method: Record, amount: Any) -> bool:
    """Tell whether a gift card holds less than an amount; other methods pay anything."""
    return bool(method["source"] == "gift_card" and method["balance"] < amount)


def is_gift_card(method_id: str) -> bool:
    """Tell by its id, as refunds do."""
    return "gift_card" in method_id


def add_balance(db: Database, user_id: str, method_id: str, amount: Any) -> None:
    """Credit a gift card, or charge it with a negative amount; kept to two digits."""
    user = _owner(db, user_id)
    methods = user["payment_methods"]
    balance = round(methods[method_id]["balance"] + amount, 2)
    credited = {**methods[method_id], "balance": balance}
    db.put("users", user_id, {**user, "payment_methods": {**methods, method_id: credited}})


def transaction(kind: str, amount: Any, method_id: str) -> Record:
    """Build an entry of a payment history."""
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def _owner(db: Database, user_id: str) -> Record:
    user = db.user(user_id)
    if user is None:  # the tables were checked when they were loaded
        raise KeyError(user_id)
    return user


def _address(
    *, address1: Any, address2: Any, city: Any, state: Any, country: Any, zip: Any
) -> Record:
    return {
        "address1": address1,
        "address2": address2,
        "city": city,
        "state": state,
        "country": country,
        "zip": zip,
    }
