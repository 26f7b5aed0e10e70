"""Descriptions of a domain's tools in JSON Schema, in our own words.

A data set's own ``tools.json`` replaces them.
"""

from collections.abc import Mapping
from typing import Any, Final

CANCEL_REASONS: Final = ("no longer needed", "ordered by mistake")

_ORDER_ID: Final = {
    "order_id": {"type": "string", "description": "Order id with its number sign: '#W0000000'."}
}
ADDRESS: Final = {
    "address1": {"type": "string", "description": "Street and number: '12 Elm Street'."},
    "address2": {"type": "string", "description": "Flat, suite or unit; may be empty."},
    "city": {"type": "string", "description": "City: 'Denver'."},
    "state": {"type": "string", "description": "State, two letters: 'CO'."},
    "country": {"type": "string", "description": "Country: 'USA'."},
    "zip": {"type": "string", "description": "Zip code: '80279'."},
}


def _text(**descriptions: str) -> dict[str, Any]:
    return {name: {"type": "string", "description": said} for name, said in descriptions.items()}


def _items(**descriptions: str) -> dict[str, Any]:
    return {
        name: {"type": "array", "items": {"type": "string"}, "description": said}
        for name, said in descriptions.items()
    }


def _payment(said: str) -> dict[str, Any]:
    example = "An id from the user's profile, such as 'gift_card_0000000'."
    return _text(payment_method_id=f"{said} {example}")


_SWAP: Final = {
    **_ORDER_ID,
    **_items(
        item_ids="Ids of the items to give up. An id may stand there twice.",
        new_item_ids="Ids of the items to get: one for each, in the same order, and each another "
        "variant of the same product.",
    ),
    **_payment("What pays the difference in price, or receives it."),
}

_CONFIRM: Final = "Tell the user exactly what will change and get a clear yes before you call it."

Described = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Tool -> its description and its parameters in order."""

_SHARED: Final[Described] = {
    "calculate": (
        "Compute an arithmetic expression; the result has two digits after the point.",
        _text(expression="Numbers, + - * /, parentheses and spaces: '2 * (3.50 + 1)'."),
    ),
    "think": (
        "Write a thought down. It changes nothing and finds nothing out; use it to reason.",
        _text(thought="The thought."),
    ),
    "transfer_to_human_agents": (
        "Hand the user over to a human colleague; this ends the conversation. Only where the user "
        "asks for one, or none of the tools can help.",
        _text(summary="What the user wants, and what was done so far."),
    ),
}


def as_functions(described: Described) -> tuple[Mapping[str, Any], ...]:
    """Return function schemas by tool name, including the tools of every domain."""
    return tuple(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": {
                    "type": "object",
                    "properties": properties,
                    "required": list(properties),
                },
            },
        }
        for name, (description, properties) in sorted({**_SHARED, **described}.items())
    )


_RETAIL: Final[Described] = {
    "cancel_pending_order": (
        "Cancel an order that is still pending and refund its payment: to a gift card at once, to "
        f"any other method in 5 to 7 business days. {_CONFIRM} Returns the order.",
        {
            **_ORDER_ID,
            "reason": {
                "type": "string",
                "enum": list(CANCEL_REASONS),
                "description": "Why the user cancels; one of the two.",
            },
        },
    ),
    "exchange_delivered_order_items": (
        "Exchange items of a delivered order for other variants of the same products. An order "
        f"can be exchanged or returned once, so collect everything first. {_CONFIRM}",
        _SWAP,
    ),
    "find_user_id_by_email": (
        "Find a user's id by email address. Ask for this before name and zip code.",
        _text(email="Email address: 'someone@example.com'."),
    ),
    "find_user_id_by_name_zip": (
        "Find a user's id by name and zip code, where the email address is not known or not found.",
        _text(
            first_name="First name: 'Jo'.", last_name="Last name: 'Doe'.", zip="Zip code: '12345'."
        ),
    ),
    "get_order_details": ("Show an order: status, items, address, payments.", _ORDER_ID),
    "get_product_details": (
        "Show a product with all its variants, their prices and whether they are available.",
        _text(product_id="Product id, which is not an item id: '6086499569'."),
    ),
    "get_user_details": (
        "Show a user's profile: name, address, email, payment methods, orders.",
        _text(user_id="User id: 'jo_doe_0000'."),
    ),
    "list_all_product_types": ("List the name and product id of every product.", {}),
    "modify_pending_order_address": (
        f"Change the address that a pending order is sent to. {_CONFIRM}",
        {**_ORDER_ID, **ADDRESS},
    ),
    "modify_pending_order_items": (
        "Swap items of a pending order for other variants of the same products. This can be done "
        f"once per order, and nothing after it, so collect everything first. {_CONFIRM}",
        _SWAP,
    ),
    "modify_pending_order_payment": (
        f"Change how a pending order is paid. {_CONFIRM}",
        {**_ORDER_ID, **_payment("What pays from now on.")},
    ),
    "modify_user_address": (
        f"Change the address in a user's profile; orders keep theirs. {_CONFIRM}",
        {**_text(user_id="User id: 'jo_doe_0000'."), **ADDRESS},
    ),
    "return_delivered_order_items": (
        "Return items of a delivered order. The user is told by email how to send them back. "
        f"{_CONFIRM}",
        {
            **_ORDER_ID,
            **_items(item_ids="Ids of the items to return. An id may stand there twice."),
            **_payment("What receives the refund: the original method, or a gift card."),
        },
    ),
}

RETAIL_SCHEMAS: Final = as_functions(_RETAIL)
"""The sixteen tools of the retail store."""

# The airline


def _several(described: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of objects with all of these properties."""
    each = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "array", "description": described, "items": each}


_RESERVATION: Final = _text(reservation_id="Reservation id: 'ZFA04Y'.")
_PROFILE: Final = _text(user_id="User id: 'jo_doe_0000'.")
_CABIN: Final = {"cabin": {"type": "string", "enum": ["basic_economy", "economy", "business"]}}
_ROUTE: Final = _text(
    origin="Airport it leaves from, three letters: 'JFK'.",
    destination="Airport it arrives at, three letters: 'SEA'.",
)
_PAID_BY: Final = _text(payment_id="An id from the user's profile, such as 'gift_card_0000000'.")
_DAY: Final = _text(date="Date of departure: '2024-05-01'.")
_FLIGHT: Final = {**_text(flight_number="Flight number: 'HAT001'."), **_DAY}
_DOLLARS: Final = {"amount": {"type": "number", "description": "Dollars."}}
_PASSENGERS: Final = {
    "passengers": _several(
        "Everybody who flies.",
        _text(
            first_name="First name: 'Jo'.",
            last_name="Last name: 'Doe'.",
            dob="Date of birth: '1990-01-01'.",
        ),
    )
}
_BAGS: Final = {
    "total_baggages": {"type": "integer", "description": "Checked bags of all passengers."},
    "nonfree_baggages": {"type": "integer", "description": "Those of them that are paid for."},
}


_AIRLINE: Final[Described] = {
    "book_reservation": (
        f"Book flights for a user. {_CONFIRM} Returns the reservation.",
        {
            **_PROFILE,
            **_ROUTE,
            "flight_type": {"type": "string", "enum": ["one_way", "round_trip"]},
            **_CABIN,
            "flights": _several("Every flight of the trip, in order.", _FLIGHT),
            **_PASSENGERS,
            "payment_methods": _several(
                "What pays how much; the amounts add up to the price.", {**_PAID_BY, **_DOLLARS}
            ),
            **_BAGS,
            "insurance": {"type": "string", "enum": ["yes", "no"]},
        },
    ),
    "cancel_reservation": (
        "Cancel all of a reservation. The policy says which may be cancelled, and this does not "
        f"check it. {_CONFIRM}",
        _RESERVATION,
    ),
    "get_reservation_details": (
        "Show a reservation: flights, passengers, payments, bags, insurance.",
        _RESERVATION,
    ),
    "get_user_details": (
        "Show a user's profile: name, date of birth, payment methods, membership, reservations.",
        _PROFILE,
    ),
    "list_all_airports": ("List the code and city of every airport.", {}),
    "search_direct_flight": (
        "Find flights between two airports on a day, with seats and prices by cabin.",
        {**_ROUTE, **_DAY},
    ),
    "search_onestop_flight": (
        "Find pairs of flights that make a trip with one stop, begun on a day.",
        {**_ROUTE, **_DAY},
    ),
    "send_certificate": (
        f"Give a user a travel certificate. {_CONFIRM}",
        {**_PROFILE, **_DOLLARS},
    ),
    "update_reservation_baggages": (
        f"Change how many bags a reservation has, and pay for those added. {_CONFIRM}",
        {**_RESERVATION, **_BAGS, **_PAID_BY},
    ),
    "update_reservation_flights": (
        "Change the flights or the cabin of a reservation, and pay or refund the difference. The "
        f"policy says which may be changed, and this does not check it. {_CONFIRM}",
        {
            **_RESERVATION,
            **_CABIN,
            "flights": _several("All flights of the trip, those that stay among them.", _FLIGHT),
            **_PAID_BY,
        },
    ),
    "update_reservation_passengers": (
        f"Change who flies; as many as before. {_CONFIRM}",
        {**_RESERVATION, **_PASSENGERS},
    ),
}

AIRLINE_SCHEMAS: Final = as_functions(_AIRLINE)
"""The fourteen tools of the airline."""
