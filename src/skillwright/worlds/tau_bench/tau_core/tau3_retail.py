"""The retail domain of tau2-bench 1.0.1 (tau3): the tools that differ from tau-bench's.

Source: tau2-bench (arXiv:2506.07982), retail domain. Besides the wording of refusals: there is no
``think``; `get_item_details` is new; the address and the payment of an order can be changed after
its items were; an item cannot be modified to itself; and modifying several items gives all of them
the price and the options of the last new one, which decides rewards and is kept.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import BaseModel

from skillwright.worlds.tau_bench.tau_core.database import Database
from skillwright.worlds.tau_bench.tau_core.domain import UPSTREAM, Record, Tool
from skillwright.worlds.tau_bench.tau_core.retail import (
    RETAIL,
    add_balance,
    pay_otherwise,
    payment_method,
    refuse_unaffordable,
    surplus_items,
    transaction,
)
from skillwright.worlds.tau_bench.tau_core.schemas import TAU3_RETAIL_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.tools import (
    TAU3_SHARED_TOOLS,
    Refused,
    capitalized,
    known,
)


def _order(db: Database, order_id: Any, status: str, done: str) -> Record:
    order = known(db.find("orders", order_id), "Order")
    if order["status"] != status:
        raise Refused(f"Non-{status} order cannot be {done}")
    return order


def _pending(db: Database, order_id: Any) -> Record:
    """Return an order that is pending, also one whose items were modified."""
    order = known(db.find("orders", order_id), "Order")
    if "pending" not in order["status"]:
        raise Refused("Non-pending order cannot be modified")
    return order


def _get_item_details(db: Database, item_id: Any) -> str:
    for product in db.tables.records["products"].values():
        if item_id in product["variants"]:
            return json.dumps(product["variants"][item_id])
    raise Refused("Item not found")


def _modify_pending_order_address(db: Database, order_id: Any, **address: Any) -> str:
    order = _pending(db, order_id)
    return db.put("orders", order_id, {**order, "address": _address(address)})


def _modify_user_address(db: Database, user_id: Any, **address: Any) -> str:
    user = known(db.find("users", user_id), "User")
    return db.put("users", user_id, {**user, "address": _address(address)})


def _modify_pending_order_payment(db: Database, order_id: Any, payment_method_id: Any) -> str:
    return pay_otherwise(db, order_id, _pending(db, order_id), payment_method_id)


def _return_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, payment_method_id: Any
) -> str:
    order = _order(db, order_id, "delivered", "returned")
    method = payment_method(db, order, payment_method_id)
    first_payment = order["payment_history"][0]["payment_method_id"]
    if method["source"] != "gift_card" and payment_method_id != first_payment:
        raise Refused("Payment method should be the original payment method")
    if surplus_items(order, item_ids):
        raise Refused("Some item not found")
    returned = {
        "status": "return requested",
        "return_items": sorted(item_ids),
        "return_payment_method_id": payment_method_id,
    }
    return db.put("orders", order_id, {**order, **returned})


def _exchange_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    order = _order(db, order_id, "delivered", "exchanged")
    if surplus := surplus_items(order, item_ids):
        raise Refused(f"Number of {surplus[0]} not found.")
    if len(item_ids) != len(new_item_ids):
        raise Refused("The number of items to be exchanged should match.")
    difference = round(sum(_differences(db, order, item_ids, new_item_ids)), 2)
    method = payment_method(db, order, payment_method_id)
    refuse_unaffordable(method, difference, "price difference")
    exchanged = {
        "status": "exchange requested",
        "exchange_items": sorted(item_ids),
        "exchange_new_items": sorted(new_item_ids),
        "exchange_payment_method_id": payment_method_id,
        "exchange_price_difference": difference,
    }
    return db.put("orders", order_id, {**order, **exchanged})


def _modify_pending_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    order = _order(db, order_id, "pending", "modified")
    if surplus := surplus_items(order, item_ids):
        raise ValueError(f"{surplus[0]} not found")  # an id; it gets no capital
    if len(item_ids) != len(new_item_ids):
        raise Refused("The number of items to be exchanged should match")
    difference: float = 0
    for one in _differences(db, order, item_ids, new_item_ids, refuse_same=True):
        difference += one  # in this order: `sum` of newer Pythons rounds otherwise
    method = payment_method(db, order, payment_method_id)
    refuse_unaffordable(method, difference, "new item")
    kind = "payment" if difference > 0 else "refund"
    paid = transaction(kind, float(abs(difference)), payment_method_id)
    if method["source"] == "gift_card":
        add_balance(db, order, payment_method_id, -difference)
    items = [dict(item) for item in order["items"]]
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        last = _variant(db, _first(order["items"], item_ids[-1]), new_item_ids[-1])
        changed = {"item_id": new_item_id, "price": last["price"], "options": last["options"]}
        _first(items, item_id).update(changed)
    modified = {
        "items": items,
        "status": "pending (item modified)",
        "payment_history": (*order["payment_history"], paid),
    }
    return db.put("orders", order_id, {**order, **modified})


def _differences(
    db: Database, order: Record, item_ids: Any, new_item_ids: Any, *, refuse_same: bool = False
) -> Iterator[float]:
    """Yield by how much each new item is dearer than the old one."""
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        if refuse_same and item_id == new_item_id:
            raise Refused("The new item id should be different from the old item id")
        item = _first(order["items"], item_id)
        new = _variant(db, item, new_item_id)
        if not new["available"]:
            raise Refused(f"New item {new_item_id} not found or available")
        yield new["price"] - item["price"]


def _first(items: Any, item_id: Any) -> Any:
    found = next((item for item in items if item["item_id"] == item_id), None)
    if found is None:  # an earlier pair has replaced it
        raise Refused(f"Item {item_id} not found")
    return found


def _variant(db: Database, item: Record, variant_id: Any) -> Record:
    product = known(db.find("products", item["product_id"]), "Product")
    variant: Record = known(product["variants"].get(variant_id), "Variant")
    return variant


class UserAddress(BaseModel):
    """An address; the name is in the original's refusals."""

    address1: str
    address2: str
    city: str
    country: str
    state: str
    zip: str


def _address(given: Mapping[str, Any]) -> Record:
    return UserAddress(**given).model_dump()


_CHANGED: Final[Mapping[str, Tool]] = {
    "exchange_delivered_order_items": _exchange_delivered_order_items,
    "get_item_details": _get_item_details,
    "modify_pending_order_address": _modify_pending_order_address,
    "modify_pending_order_items": _modify_pending_order_items,
    "modify_pending_order_payment": _modify_pending_order_payment,
    "modify_user_address": _modify_user_address,
    "return_delivered_order_items": _return_delivered_order_items,
}
_KEPT: Final = (
    "cancel_pending_order",
    "find_user_id_by_email",
    "find_user_id_by_name_zip",
    "get_order_details",
    "get_product_details",
    "get_user_details",
    "list_all_product_types",
)

TAU3_RETAIL: Final = replace(
    RETAIL,
    name="tau3_retail",
    tools={
        **TAU3_SHARED_TOOLS,
        **{name: capitalized(RETAIL.tools[name]) for name in _KEPT},
        **{name: capitalized(tool) for name, tool in _CHANGED.items()},
    },
    schemas=TAU3_RETAIL_SCHEMAS,
    original="tau2-bench 1.0.1 (tau3) retail, 114 tasks",
    upstream=UPSTREAM["tau3_retail"],
    data_variable="SKILLWRIGHT_TAU3_RETAIL_DATA",
    fetch_command="skillwright data tau-bench --tasks tau3",
    toolkit="RetailTools",
)
