"""What customers send back, what they only ask about, and what cannot be done for them."""

from contextlib import suppress

from skillwright.envs.tau_bench.built_in.case import (
    Case,
    Impossible,
    Record,
    Request,
    act,
    listed,
    look,
    money,
    named,
)


def return_some(case: Case) -> Request:
    """Return some of the items to the method that paid."""
    order = case.order("delivered", least=2)
    items = order["items"][: len(order["items"]) - 1]
    return Request(
        (
            f"You want to return the {listed([item['name'] for item in items])} of your order "
            f"{order['order_id']}.",
            f"You want the refund to go to {named(case.paid_by(order))}.",
        ),
        (look(order), _returning(order, items, case.paid_by(order))),
    )


def return_gift(case: Case) -> Request:
    """Return an order to a gift card that did not pay for it, and hear how much that is."""
    order = case.order("delivered")
    cards = [one for one in case.methods(but=case.paid_by(order)) if one["source"] == "gift_card"]
    if not cards:
        raise Impossible
    total = order["payment_history"][0]["amount"]
    prices = " + ".join(money(item["price"]) for item in order["items"])
    return Request(
        (
            f"You want to return everything in your order {order['order_id']}.",
            "You want the refund to go to your gift card.",
            "You want to know how much you will get back in total.",
        ),
        (
            look(order),
            act("calculate", expression=prices),
            _returning(order, order["items"], cards[0]),
        ),
        (money(total),),
    )


def return_instead(case: Case) -> Request:
    """Cancel an order that has come already; so return it."""
    order = case.order("delivered")
    return Request(
        (
            f"You want to cancel your order {order['order_id']}.",
            "If it is too late to cancel it, you want to return everything in it.",
            f"You want the refund to go to {named(case.paid_by(order))}.",
        ),
        (look(order), _returning(order, order["items"], case.paid_by(order))),
    )


def wrong_refund(case: Case) -> Request:
    """Return an order to a method that may not receive it, or not at all."""
    order = case.order("delivered")
    paid = case.paid_by(order)
    others = [one for one in case.methods(but=paid) if one["source"] != "gift_card"]
    if not others:
        raise Impossible
    return Request(
        (
            f"You want to return everything in your order {order['order_id']}.",
            f"You want the refund to go to {named(others[0])} and to nothing else.",
            "If that cannot be done, you want to keep it all.",
        ),
        (look(order), act("get_user_details", user_id=case.user_id)),
    )


def too_late(case: Case) -> Request:
    """Cancel an order that is on its way; so ask for its tracking number."""
    order = case.order("processed")
    return Request(
        (
            f"You want to cancel your order {order['order_id']}.",
            "You no longer need it.",
            "If it is too late to cancel it, you want to know its tracking number.",
        ),
        (look(order),),
        (order["fulfillments"][0]["tracking_id"][0],),
    )


def other_product(case: Case) -> Request:
    """Change an item into another product, which nobody can; so ask for a person."""
    order = case.order("pending")
    here = {item["product_id"] for item in order["items"]}
    others = [one for key, one in case.tables["products"].items() if key not in here]
    name, other = order["items"][0]["name"], case.rng.choice(others)["name"]
    return Request(
        (
            f"In your order {order['order_id']} you want to change the {name} to a {other}.",
            "If that cannot be done, you want to speak to a human agent.",
        ),
        (look(order), act("transfer_to_human_agents", summary=f"Wants a {other} for a {name}.")),
    )


def ask_tracking(case: Case) -> Request:
    """Ask for a tracking number."""
    order = case.order("processed", "delivered")
    return Request(
        (f"You want to know the tracking number of your order {order['order_id']}.",),
        (look(order),),
        (order["fulfillments"][0]["tracking_id"][0],),
    )


def ask_total(case: Case) -> Request:
    """Ask what all orders that are pending cost together."""
    orders: list[Record] = []
    with suppress(Impossible):
        while True:
            orders.append(case.order("pending"))
    if len(orders) < 2:
        raise Impossible
    amounts = [order["payment_history"][0]["amount"] for order in orders]
    return Request(
        (
            "You want to know how much you paid for all your pending orders together.",
            "You do not remember the order numbers.",
        ),
        (
            act("get_user_details", user_id=case.user_id),
            *(look(order) for order in orders),
            act("calculate", expression=" + ".join(map(money, amounts))),
        ),
        (money(sum(amounts)),),
    )


def ask_price(case: Case) -> Request:
    """Ask for the price of the cheapest variant that there is; a cheaper one is sold out."""
    product = case.rng.choice(list(case.tables["products"].values()))
    variants = sorted(product["variants"].values(), key=lambda one: one["price"])
    prices = [one["price"] for one in variants if one["available"]]
    if not prices or variants[0]["available"]:
        raise Impossible
    return Request(
        (f"You want to know what the cheapest {product['name']} costs that is available.",),
        (
            act("list_all_product_types"),
            act("get_product_details", product_id=product["product_id"]),
        ),
        (money(prices[0]),),
    )


def _returning(order: Record, items: list[Record], method: Record) -> Record:
    return act(
        "return_delivered_order_items",
        order_id=order["order_id"],
        item_ids=[item["item_id"] for item in items],
        payment_method_id=method["id"],
    )
