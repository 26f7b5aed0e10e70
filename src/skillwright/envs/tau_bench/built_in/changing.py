"""What customers want done with orders that were not sent yet, and with their own address."""

from skillwright.envs.tau_bench.built_in.case import (
    Case,
    Impossible,
    Record,
    Request,
    act,
    look,
    named,
)
from skillwright.envs.tau_bench.built_in.people import make_address
from skillwright.envs.tau_bench.built_in.swapping import swap_of

_REASONS = {
    "no longer needed": "You no longer need it.",
    "ordered by mistake": "You ordered it by mistake.",
}


def cancel(case: Case) -> Request:
    """Cancel an order that is not needed."""
    return _cancel(case, "no longer needed")


def cancel_mistake(case: Case) -> Request:
    """Cancel an order that was a mistake."""
    return _cancel(case, "ordered by mistake")


def cancel_unnamed(case: Case) -> Request:
    """Cancel an order whose number the customer does not know."""
    order = case.order("pending")
    if not case.only_with(order["items"][0]["name"], order):
        raise Impossible
    reason = case.rng.choice(list(_REASONS))
    return Request(
        (
            f"You want to cancel the order with the {order['items'][0]['name']}.",
            _REASONS[reason],
            "You do not remember the order number.",
        ),
        (act("get_user_details", user_id=case.user_id), look(order), _cancelling(order, reason)),
    )


def _cancel(case: Case, reason: str) -> Request:
    order = case.order("pending")
    return Request(
        (f"You want to cancel your order {order['order_id']}.", _REASONS[reason]),
        (look(order), _cancelling(order, reason)),
    )


def _cancelling(order: Record, reason: str) -> Record:
    return act("cancel_pending_order", order_id=order["order_id"], reason=reason)


def modify_one(case: Case) -> Request:
    """Change an option of an item."""
    return swap_of(case, case.order("pending"), count=1)


def modify_two(case: Case) -> Request:
    """Change two items of an order, which must happen at once."""
    return swap_of(case, case.order("pending", least=2), count=2)


def modify_fallback(case: Case) -> Request:
    """Change an item into a variant that is sold out, or else into another."""
    return swap_of(case, case.order("pending"), count=1, sold_out_first=True)


def payment(case: Case) -> Request:
    """Pay by another method."""
    order = case.order("pending")
    amount = order["payment_history"][0]["amount"]
    others = case.methods(but=case.paid_by(order), worth=amount)
    if not others:
        raise Impossible
    method = case.rng.choice(others)
    order_id = order["order_id"]
    return Request(
        (f"You want to pay for your order {order_id} with {named(method)} instead.",),
        (
            look(order),
            act("get_user_details", user_id=case.user_id),
            act("modify_pending_order_payment", order_id=order_id, payment_method_id=method["id"]),
        ),
    )


def order_address(case: Case) -> Request:
    """Send an order elsewhere."""
    order = case.order("pending")
    address = make_address(case.rng)
    order_id = order["order_id"]
    return Request(
        (f"You want your order {order_id} to be sent to {_written(address)} instead.",),
        (look(order), act("modify_pending_order_address", order_id=order_id, **address)),
    )


def move(case: Case) -> Request:
    """Change the address of the profile, and of an order."""
    order = case.order("pending")
    address = make_address(case.rng)
    order_id = order["order_id"]
    return Request(
        (
            f"You want the address in your profile to be changed to {_written(address)}.",
            f"You want your order {order_id} to be sent to that new address too.",
        ),
        (
            act("modify_user_address", user_id=case.user_id, **address),
            look(order),
            act("modify_pending_order_address", order_id=order_id, **address),
        ),
    )


def _written(address: Record) -> str:
    street = f"{address['address1']}, {address['address2']}"
    return f"{street}, {address['city']}, {address['state']} {address['zip']}, {address['country']}"
