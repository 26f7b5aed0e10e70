"""What customers of the built-in store want, and the actions that give it to them."""

import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tau_built_in.tables import Record, make_address


class Impossible(Exception):
    """A customer cannot want this: there is no such order, item or payment method."""


@dataclass(frozen=True, slots=True)
class Request:
    """Something that a customer wants."""

    said: tuple[str, ...]  # sentences of the instruction, written to the one who plays the customer
    actions: tuple[Record, ...]  # gold actions, each `name` and `kwargs`
    outputs: tuple[str, ...] = ()  # what the agent must say


def act(tool: str, **kwargs: Any) -> Record:
    """Return a gold action."""
    return {"name": tool, "kwargs": kwargs}


def look(order: Record) -> Record:
    """Return the gold action that reads an order."""
    return act("get_order_details", order_id=order["order_id"])


def money(amount: float) -> str:
    """Return an amount as a required output."""
    return f"{amount:.2f}"


class Case:
    """One customer with everything that is known about them."""

    def __init__(self, tables: dict[str, Record], user_id: str, rng: random.Random) -> None:
        self.tables, self.user_id, self.rng = tables, user_id, rng
        self.user: Record = tables["users"][user_id]
        self.used: set[str] = set()

    def order(self, *statuses: str, least: int = 1) -> Record:
        """Take an order that no request of this case has, with at least so many items."""
        for order_id in self.user["orders"]:
            order: Record = self.tables["orders"][order_id]
            fits = order["status"] in statuses and least <= len(order["items"])
            if fits and order_id not in self.used:
                self.used.add(order_id)
                return order
        raise Impossible

    def paid_by(self, order: Record) -> Record:
        """Return the method that an order was paid by."""
        method: Record = self.user["payment_methods"][
            order["payment_history"][0]["payment_method_id"]
        ]
        return method

    def methods(self, *, but: Record | None = None, worth: float = 0.0) -> list[Record]:
        """Return the methods that can pay an amount, without one of them."""
        return [
            method
            for method in self.user["payment_methods"].values()
            if method != but and method.get("balance", worth) >= worth
        ]

    def variants(self, item: Record) -> list[Record]:
        """Return the variants of an item's product, its own left out."""
        product = self.tables["products"][item["product_id"]]
        return [one for one in product["variants"].values() if one["item_id"] != item["item_id"]]

    def neighbours(self, item: Record) -> list[tuple[str, Record]]:
        """Return the variants that differ in one option, each with the name of that option."""
        found = []
        for variant in self.variants(item):
            options = variant["options"]
            changed = [name for name in options if options[name] != item["options"][name]]
            if len(changed) == 1:
                found.append((changed[0], variant))
        return found

    def only_with(self, product: str, order: Record) -> bool:
        """Tell whether an order is the customer's only one, of any status, with a product."""
        others = (self.tables["orders"][one] for one in self.user["orders"])
        return not any(
            product in {item["name"] for item in other["items"]}
            for other in others
            if other["order_id"] != order["order_id"]
        )

    def identity(self) -> tuple[str, Record]:
        """Return who the customer is to say they are, and the gold action that finds them."""
        name, address = self.user["name"], self.user["address"]
        whole = f"{name['first_name']} {name['last_name']}"
        if self.rng.randrange(2):
            email = self.user["email"]
            return (
                f"You are {whole} and your email is {email}.",
                act("find_user_id_by_email", email=email),
            )
        return (
            f"You are {whole} and your zip code is {address['zip']}.",
            act("find_user_id_by_name_zip", **name, zip=address["zip"]),
        )


def named(method: Record) -> str:
    """Return what a customer calls a payment method."""
    match method["source"]:
        case "gift_card":
            return "your gift card"
        case "paypal":
            return "your PayPal account"
        case _:
            return f"your {method['brand']} card ending in {method['last_four']}"


def listed(things: list[str]) -> str:
    """Return things as a list in a sentence."""
    return " and ".join([", ".join(things[:-1]), things[-1]] if things[1:] else things)


_TOOLS: Final = {
    "pending": "modify_pending_order_items",
    "delivered": "exchange_delivered_order_items",
}
_WANTED: Final = {
    "pending": "In your order {order} you want to change {wishes}.",
    "delivered": "You have received your order {order} and want to exchange {wishes}.",
}
_SETTLED: Final = "You want to settle any difference in price with {method}."
_UNCHANGED: Final = "All else should stay as it is."


def swap_of(case: Case, order: Record, *, count: int, sold_out_first: bool = False) -> Request:
    """Ask for items of an order in another color, size or the like."""
    wishes, fallbacks, pairs = [], [], []
    for item in order["items"][:count]:
        near = case.neighbours(item)
        case.rng.shuffle(near)
        there = [(option, one) for option, one in near if one["available"]]
        gone = [(option, one) for option, one in near if not one["available"]]
        if not there or (sold_out_first and not gone):
            raise Impossible
        if sold_out_first:
            wishes.append(_wish(item, *gone[0]))
            option, variant = there[0]
            fallbacks.append(
                f"If that cannot be had, you want the {item['name']} with "
                f"{option} {variant['options'][option]}, all else as you have it."
            )
        else:
            wishes.append(_wish(item, *there[0]))
        pairs.append((item, there[0][1]))
    return _request(case, order, wishes, pairs, (_UNCHANGED, *fallbacks))


def exchange_cheapest(case: Case) -> Request:
    """Exchange an item for the cheapest variant that there is; a cheaper one is sold out."""
    order = case.order("delivered")
    item = order["items"][0]
    variants = sorted(case.variants(item), key=lambda one: one["price"])
    there = [one for one in variants if one["available"]]
    if not there or variants[0]["available"] or there[0]["price"] >= item["price"]:
        raise Impossible
    cheapest = there[0]
    wish = f"the {item['name']} for the cheapest one that is available"
    return _request(case, order, [wish], [(item, cheapest)], ("Its options do not matter to you.",))


def exchange_one(case: Case) -> Request:
    """Exchange an item."""
    return swap_of(case, case.order("delivered"), count=1)


def exchange_two(case: Case) -> Request:
    """Exchange two items of an order, which must happen at once."""
    return swap_of(case, case.order("delivered", least=2), count=2)


def _wish(item: Record, option: str, variant: Record) -> str:
    return f"the {item['name']} for one with {option} {variant['options'][option]}"


def _request(
    case: Case,
    order: Record,
    wishes: list[str],
    pairs: list[tuple[Record, Record]],
    more: tuple[str, ...],
) -> Request:
    difference = round(sum(new["price"] - old["price"] for old, new in pairs), 2)
    methods = case.methods(worth=difference)
    if not methods:
        raise Impossible
    method = case.rng.choice(methods)
    status, order_id = order["status"], order["order_id"]
    said = _WANTED[status].format(order=order_id, wishes=listed(wishes))
    return Request(
        (said, *more, _SETTLED.format(method=named(method))),
        (
            look(order),
            *(act("get_product_details", product_id=old["product_id"]) for old, _ in pairs),
            act(
                _TOOLS[status],
                order_id=order_id,
                item_ids=[old["item_id"] for old, _ in pairs],
                new_item_ids=[new["item_id"] for _, new in pairs],
                payment_method_id=method["id"],
            ),
        ),
    )


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
