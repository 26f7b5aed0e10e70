"""The sixteen tools by name, and how a call of any shape is answered.

Every check comes before the first change, and a new record replaces the old one whole, so that a
refused call leaves no trace. Where keys are new they come last: observations show the order.

Source: tau-bench (arXiv:2406.12045), retail domain. What looks wrong in it decides rewards and is
kept: a gift card is credited too often when an order is cancelled after its payment was changed,
nothing may be swapped for nothing, or an item for itself, and an exchange forgets which item
becomes which.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from skillwright.envs.tau_bench.tau_core.database import Database, Record
from skillwright.envs.tau_bench.tau_core.schemas import ADDRESS, CANCEL_REASONS, SCHEMAS

# The `calculate` tool: arithmetic with bounds, and without ``eval``.
#
# Python's own parser reads the expression, so that its error texts are the ones that tau-bench's
# ``eval`` gives; the tree is then computed here, operation by operation, and none may grow large.


MAX_CHARS: Final = 2_000
MAX_BITS: Final = 65_536

_ALLOWED: Final = "0123456789+-*/(). "

_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def calculate(expression: Any) -> str:
    """Compute an expression and round it to two digits.

    Returns:
        The number, or ``Error: ...`` where the characters are not allowed.
    """
    if not all(char in _ALLOWED for char in expression):
        return "Error: invalid characters in expression"
    if not isinstance(expression, str):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    if len(expression) > MAX_CHARS:
        raise ValueError(
            f"the expression has {len(expression)} characters; at most {MAX_CHARS} are computed"
        )
    tree = ast.parse(expression.lstrip(" "), filename="<string>", mode="eval")
    return str(round(float(_value(tree.body)), 2))


def _value(root: ast.expr) -> Any:
    """Compute a tree, left operands first; with a stack, because sums of many terms are deep."""
    todo: list[tuple[ast.expr, bool]] = [(root, False)]
    values: list[Any] = []
    while todo:
        node, operands_known = todo.pop()
        if operands_known:
            values.append(_apply(node, values))
            continue
        if isinstance(node, ast.Constant):
            values.append(node.value)
            continue
        todo.append((node, True))
        todo.extend((operand, False) for operand in reversed(_operands(node)))
    return values.pop()


def _operands(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Call(func=func, args=args):
            return [func, *args]
        case ast.Tuple(elts=[]):
            return []
    raise ValueError("the expression is not arithmetic")


def _apply(node: ast.expr, values: list[Any]) -> Any:
    match node:
        case ast.BinOp(op=op):
            right, left = values.pop(), values.pop()
            _refuse_large(op, left, right)
            return _BINARY[type(op)](left, right)
        case ast.UnaryOp(op=op):
            operand = values.pop()
            return -operand if isinstance(op, ast.USub) else +operand
        case ast.Call(args=args):
            for _ in args:
                values.pop()
            raise TypeError(f"{type(values.pop()).__name__!r} object is not callable")
        case _:
            return ()


def _refuse_large(op: ast.operator, left: Any, right: Any) -> None:
    if not (isinstance(left, int) and isinstance(right, int)):
        return
    bits = 0
    if isinstance(op, ast.Mult):
        bits = left.bit_length() + right.bit_length()
    elif isinstance(op, ast.Pow) and abs(left) > 1:
        bits = left.bit_length() * right
    if bits > MAX_BITS:
        raise ValueError("the result is too large to be computed")


T = TypeVar("T")

TRANSFER: Final = "transfer_to_human_agents"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call."""

    observation: str  # what the agent reads; `""` after a thought
    ends_episode: bool = False  # the user was handed over, even if the call was malformed
    is_error: bool = False  # the tool refused, or there is no such tool


class _Refused(Exception):
    """A tool says no; the message is what the agent reads behind ``Error: ``."""


def call_tool(db: Database, name: str, kwargs: Mapping[str, Any]) -> ToolResult:
    """Answer a tool call as tau-bench does; nothing is raised, whatever it says."""
    tool = _TOOLS.get(name)
    if tool is None:
        return ToolResult(f"Unknown action {name}", is_error=True)
    try:
        observation = _misfit(name, kwargs) or tool(db, **kwargs)
    except Exception as error:  # noqa: BLE001 - a refusal, or an argument of the wrong type: its error is the answer
        observation = f"Error: {error}"
    return ToolResult(observation, name == TRANSFER, observation.startswith("Error"))


def _misfit(name: str, kwargs: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the names of arguments, in the words of Python's own call."""
    parameters = PARAMETERS[name]
    if kwargs.keys() == parameters.keys():
        return None
    called = f"{''.join(word.capitalize() for word in name.split('_'))}.invoke()"
    if "data" in kwargs:
        # There it is the name of the database, which every tool is given first.
        return (
            f"Error: tau_bench.envs.retail.tools.{name}.{called} "
            "got multiple values for keyword argument 'data'"
        )
    for key in kwargs:
        if key not in parameters:
            return f"Error: {called} got an unexpected keyword argument '{key}'"
    missing = [repr(parameter) for parameter in parameters if parameter not in kwargs]
    *most, last = missing
    listed = f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}" if most else last
    plural = "s" if most else ""
    return f"Error: {called} missing {len(missing)} required positional argument{plural}: {listed}"


# Tools that only read


def _find_user_id_by_email(db: Database, email: Any) -> str:
    return _known(db.tables.user_id_by_email.get(email.lower()), "user")


def _find_user_id_by_name_zip(db: Database, first_name: Any, last_name: Any, zip: Any) -> str:
    """Return the first user of this name, in any case, and exactly this zip code."""
    for user_id in db.tables.user_ids_by_first_name.get(first_name.lower(), ()):
        # Names never change, but a zip code may have, in this episode.
        user = db.user(user_id)
        if user is None or user["name"]["last_name"].lower() != last_name.lower():
            continue
        if user["address"]["zip"] == zip:
            return user_id
    raise _Refused("user not found")


def _get_user_details(db: Database, user_id: Any) -> str:
    _known(db.user(user_id), "user")
    return db.text("users", user_id)


def _get_order_details(db: Database, order_id: Any) -> str:
    _known(db.order(order_id), "order")
    return db.text("orders", order_id)


def _get_product_details(db: Database, product_id: Any) -> str:
    _known(db.product(product_id), "product")
    return db.text("products", product_id)


# Tools that change an order or a user


def _cancel_pending_order(db: Database, order_id: Any, reason: Any) -> str:
    """Cancel an order and refund every entry of its payment history, refunds among them."""
    order = _order(db, order_id, "pending", "cancelled")
    if reason not in CANCEL_REASONS:
        raise _Refused("invalid reason")
    refunds = []
    for entry in order["payment_history"]:
        method_id = entry["payment_method_id"]
        refunds.append(_transaction("refund", entry["amount"], method_id))
        if _is_gift_card(method_id):
            _add_balance(db, order, method_id, entry["amount"])
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
    """Change where a user lives; orders keep their address."""
    user = _known(db.user(user_id), "user")
    return db.put("users", user_id, {**user, "address": _address(address)})


def _modify_pending_order_payment(db: Database, order_id: Any, payment_method_id: Any) -> str:
    """Pay an order by another method and refund the first one."""
    order = _order(db, order_id, "pending", "modified")
    method = _payment_method(db, order, payment_method_id)
    history = order["payment_history"]
    if len(history) > 1 or history[0]["transaction_type"] != "payment":
        raise _Refused("there should be exactly one payment for a pending order")
    old_id, amount = history[0]["payment_method_id"], history[0]["amount"]
    if old_id == payment_method_id:
        raise _Refused("the new payment method should be different from the current one")
    _refuse_unaffordable(method, amount, "order")
    moved = (
        _transaction("payment", amount, payment_method_id),
        _transaction("refund", amount, old_id),
    )
    if method["source"] == "gift_card":
        _add_balance(db, order, payment_method_id, -amount)
    if _is_gift_card(old_id):
        _add_balance(db, order, old_id, amount)
    return db.put("orders", order_id, {**order, "payment_history": (*history, *moved)})


def _return_delivered_order_items(
    db: Database, order_id: Any, item_ids: Any, payment_method_id: Any
) -> str:
    """Ask for items to be taken back; balances change when they arrive, not now."""
    order = _order(db, order_id, "delivered", "returned")
    _payment_method(db, order, payment_method_id)
    first_payment = order["payment_history"][0]["payment_method_id"]
    if not _is_gift_card(payment_method_id) and payment_method_id != first_payment:
        raise _Refused("payment method should be either the original payment method or a gift card")
    if _surplus_items(order, item_ids):
        raise _Refused("some item not found")
    returned = {
        **order,
        "status": "return requested",
        "return_items": sorted(item_ids),
        "return_payment_method_id": payment_method_id,
    }
    return db.put("orders", order_id, returned)


# Tools that swap items for other variants of the same products


def _modify_pending_order_items(
    db: Database, order_id: Any, item_ids: Any, new_item_ids: Any, payment_method_id: Any
) -> str:
    """Swap items before they are sent, and pay or refund the difference in price."""
    order = _order(db, order_id, "pending", "modified")
    difference = _price_difference(db, order, item_ids, new_item_ids)
    method = _payment_method(db, order, payment_method_id)
    _refuse_unaffordable(method, difference, "new item")
    kind = "payment" if difference > 0 else "refund"
    payment = _transaction(kind, abs(difference), payment_method_id)
    if method["source"] == "gift_card":
        _add_balance(db, order, payment_method_id, -difference)
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
    """Ask for delivered items to be exchanged; only the request is written down."""
    order = _order(db, order_id, "delivered", "exchanged")
    difference = round(_price_difference(db, order, item_ids, new_item_ids), 2)
    method = _payment_method(db, order, payment_method_id)
    _refuse_unaffordable(method, difference, "price difference")
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
    """Add up what the new items cost more, unrounded; the whole number 0 for no items."""
    surplus = _surplus_items(order, item_ids)
    if surplus:
        raise _Refused(f"{surplus[0]} not found")
    if len(item_ids) != len(new_item_ids):
        raise _Refused("the number of items to be exchanged should match")
    difference: float | int = 0
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        item = next(item for item in order["items"] if item["item_id"] == item_id)
        new = _variants(db, item).get(new_item_id)
        if new is None or not new["available"]:
            raise _Refused(f"new item {new_item_id} not found or available")
        difference += new["price"] - item["price"]
    return difference


def _swapped(db: Database, order: Record, item_ids: Any, new_item_ids: Any) -> tuple[Record, ...]:
    """Swap pair by pair, each time the first item of that id: one just swapped in counts too."""
    items = list(order["items"])
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        at = next(at for at, item in enumerate(items) if item["item_id"] == item_id)
        new = _variants(db, items[at])[new_item_id]
        changed = {"item_id": new_item_id, "price": new["price"], "options": new["options"]}
        items[at] = {**items[at], **changed}
    return tuple(items)


def _variants(db: Database, item: Record) -> dict[str, Record]:
    product = db.product(item["product_id"]) or {}
    variants: dict[str, Record] = product["variants"]
    return variants


# What several tools check and change


def _known(found: T | None, what: str) -> T:
    if found is None:
        raise _Refused(f"{what} not found")
    return found


def _order(db: Database, order_id: Any, status: str, done: str) -> Record:
    order = _known(db.order(order_id), "order")
    if order["status"] != status:
        raise _Refused(f"non-{status} order cannot be {done}")
    return order


def _surplus_items(order: Record, item_ids: Any) -> list[Any]:
    """Return the ids that are asked for more often than the order has them."""
    in_order = [item["item_id"] for item in order["items"]]
    return [one for one in item_ids if item_ids.count(one) > in_order.count(one)]


def _payment_method(db: Database, order: Record, method_id: Any) -> Record:
    """Return a payment method of the one who ordered."""
    method: Record = _known(_owner(db, order)["payment_methods"].get(method_id), "payment method")
    return method


def _refuse_unaffordable(method: Record, amount: Any, bought: str) -> None:
    """Refuse a gift card that holds less than an amount; other methods pay anything."""
    if method["source"] == "gift_card" and method["balance"] < amount:
        raise _Refused(f"insufficient gift card balance to pay for the {bought}")


def _is_gift_card(method_id: str) -> bool:
    """Tell by its id, as refunds do."""
    return "gift_card" in method_id


def _add_balance(db: Database, order: Record, method_id: str, amount: Any) -> None:
    """Credit a gift card, or charge it with a negative amount; kept to two digits."""
    user = _owner(db, order)
    methods = user["payment_methods"]
    balance = round(methods[method_id]["balance"] + amount, 2)
    credited = {**methods[method_id], "balance": balance}
    changed = {**user, "payment_methods": {**methods, method_id: credited}}
    db.put("users", order["user_id"], changed)


def _transaction(kind: str, amount: Any, method_id: str) -> Record:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def _owner(db: Database, order: Record) -> Record:
    user = db.user(order["user_id"])
    if user is None:  # the tables were checked when they were loaded
        raise KeyError(order["user_id"])
    return user


def _address(given: Mapping[str, Any]) -> Record:
    return {name: given[name] for name in ADDRESS}


_TOOLS: Final[Mapping[str, Callable[..., str]]] = {
    "calculate": lambda db, expression: calculate(expression),
    "cancel_pending_order": _cancel_pending_order,
    "exchange_delivered_order_items": _exchange_delivered_order_items,
    "find_user_id_by_email": _find_user_id_by_email,
    "find_user_id_by_name_zip": _find_user_id_by_name_zip,
    "get_order_details": _get_order_details,
    "get_product_details": _get_product_details,
    "get_user_details": _get_user_details,
    "list_all_product_types": lambda db: db.tables.product_types,
    "modify_pending_order_address": _modify_pending_order_address,
    "modify_pending_order_items": _modify_pending_order_items,
    "modify_pending_order_payment": _modify_pending_order_payment,
    "modify_user_address": _modify_user_address,
    "return_delivered_order_items": _return_delivered_order_items,
    "think": lambda db, thought: "",
    TRANSFER: lambda db, summary: "Transfer successful",
}

PARAMETERS: Final[Mapping[str, Mapping[str, None]]] = {
    schema["function"]["name"]: dict.fromkeys(schema["function"]["parameters"]["required"])
    for schema in SCHEMAS
}
"""Tool -> its parameters in order; all of them are required."""

TOOL_NAMES: Final = tuple(_TOOLS)
