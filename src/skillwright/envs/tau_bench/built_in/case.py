"""A customer, and what can be asked for in that customer's name."""

import random
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


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
