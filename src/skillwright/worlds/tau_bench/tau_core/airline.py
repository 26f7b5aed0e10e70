"""The airline domain: users, reservations and flights, and eleven tools of its own.

New records replace old ones, as in retail; flights never change. A refused call changes nothing,
with one exception, as in the original: a booking that names a certificate twice uses it up and
then fails.

Source: tau-bench (arXiv:2406.12045), airline domain. Its oddities affect rewards and are kept: a
booking takes no seats; a change of cabin only changes prices; a cancellation can be repeated and
refunds nothing to a card; the fourth booking replaces the third; a fourth certificate is silently
not made; and the second flight of a trip with a stop is shown with the first one's date.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillwright.worlds.tau_bench.tau_core.database import Database, freeze
from skillwright.worlds.tau_bench.tau_core.domain import (
    AIRPORTS,
    UPSTREAM,
    Domain,
    Record,
    Records,
    Tool,
)
from skillwright.worlds.tau_bench.tau_core.schemas import AIRLINE_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.tools import SHARED_TOOLS, Refused, known

NOW: Final = "2024-05-15T15:00:00"
BOOKED: Final = ("HATHAT", "HATHAU", "HATHAV")
CERTIFICATES: Final = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
NEXT_DAY: Final = "+1"  # in a time of arrival


@dataclass(frozen=True, slots=True)
class _Flight:
    """A flight in searches."""

    shown: Record  # all of it but its dates
    dates: Mapping[str, Record]

    def is_open(self, date: Any) -> bool:
        """Tell whether it can be booked on a day."""
        return date in self.dates and self.dates[date]["status"] == "available"

    def on(self, date: Any) -> dict[str, Any]:
        """Return it as on a day."""
        return {**self.shown, **self.dates[date]}


def _indexed(records: Records) -> Mapping[str, list[_Flight]]:
    """Return flights by their origin, in the order of the data."""
    by_origin: dict[str, list[_Flight]] = {}
    for flight in records["flights"].values():
        shown = {name: value for name, value in flight.items() if name != "dates"}
        by_origin.setdefault(flight["origin"], []).append(_Flight(shown, flight["dates"]))
    return by_origin


def _from(db: Database, origin: Any) -> Iterable[_Flight]:
    found: Iterable[_Flight] = db.tables.index.get(origin, ()) if isinstance(origin, str) else ()
    return found


def _to(db: Database, origin: Any, destination: Any) -> Iterable[_Flight]:
    return (one for one in _from(db, origin) if one.shown["destination"] == destination)


def _get_user_details(db: Database, user_id: Any) -> str:
    known(db.find("users", user_id), "user")
    return db.text("users", user_id)


def _get_reservation_details(db: Database, reservation_id: Any) -> str:
    known(db.find("reservations", reservation_id), "user")  # the original's wording
    return db.text("reservations", reservation_id)


def _search_direct_flight(db: Database, origin: Any, destination: Any, date: Any) -> str:
    found = _to(db, origin, destination)
    return json.dumps([flight.on(date) for flight in found if flight.is_open(date)])


def _search_onestop_flight(db: Database, origin: Any, destination: Any, date: Any) -> str:
    """Find pairs whose second flight leaves no earlier than the first arrives, as texts."""
    pairs = []
    for first in _from(db, origin):
        arrives = first.shown["scheduled_arrival_time_est"]
        for second in _to(db, first.shown["destination"], destination):
            # The day has no leading zero here, so nothing is found before the tenth.
            next_date = f"2024-05-{int(date[-2:]) + 1}" if NEXT_DAY in arrives else date
            if arrives > second.shown["scheduled_departure_time_est"]:
                continue
            if first.is_open(date) and second.is_open(next_date):
                shown = {**second.on(date), "date": next_date}
                pairs.append([{**first.on(date), "date": date}, shown])
    return json.dumps(pairs)


def _book_reservation(db: Database, user_id: Any, **wanted: Any) -> str:
    """Book flights, and charge gift cards and certificates."""
    user = known(db.find("users", user_id), "user")
    passengers, payments = wanted["passengers"], wanted["payment_methods"]
    flights, total = [], 0
    for flight in wanted["flights"]:
        flights.append(_priced(db, flight, wanted["cabin"], passengers))
        total += flights[-1]["price"] * len(passengers)
    if wanted["insurance"] == "yes":
        total += 30 * len(passengers)
    total += 50 * wanted["nonfree_baggages"]
    _refuse_underpaid(user, payments, total)
    for payment in payments:
        user = _charged(db, user_id, user, payment["payment_id"], payment["amount"])
    taken = (one for one in BOOKED[:-1] if db.find("reservations", one) is None)
    reservation_id = next(taken, BOOKED[-1])
    reservation = {
        "reservation_id": reservation_id,
        "user_id": user_id,
        "origin": wanted["origin"],
        "destination": wanted["destination"],
        "flight_type": wanted["flight_type"],
        "cabin": wanted["cabin"],
        "flights": flights or wanted["flights"],
        "passengers": passengers,
        "payment_history": payments,
        "created_at": NOW,
        "total_baggages": wanted["total_baggages"],
        "nonfree_baggages": wanted["nonfree_baggages"],
        "insurance": wanted["insurance"],
    }
    db.put("users", user_id, {**user, "reservations": (*user["reservations"], reservation_id)})
    return db.put("reservations", reservation_id, freeze(reservation))


def _cancel_reservation(db: Database, reservation_id: Any) -> str:
    """Record a refund of every payment, refunds included; no card receives it."""
    reservation = _reservation(db, reservation_id)
    history = reservation["payment_history"]
    refunds = [_payment(one["payment_id"], -one["amount"]) for one in history]
    cancelled = {**reservation, "payment_history": (*history, *refunds), "status": "cancelled"}
    return db.put("reservations", reservation_id, cancelled)


def _update_reservation_flights(
    db: Database, reservation_id: Any, cabin: Any, flights: Any, payment_id: Any
) -> str:
    """Replace all flights, and pay or refund the difference; the reservation keeps its cabin."""
    reservation = _reservation(db, reservation_id)
    passengers, before = reservation["passengers"], reservation["flights"]
    changed, total = [], 0
    for flight in flights:
        kept = [
            old
            for old in before
            if old["flight_number"] == flight["flight_number"]
            and old["date"] == flight["date"]
            and cabin == reservation["cabin"]
        ]
        as_it_was = {name: kept[0][name] for name in _OF_FLIGHT} if kept else {}
        changed.append({**flight, **as_it_was} if kept else _priced(db, flight, cabin, passengers))
        total += changed[-1]["price"] * len(passengers)
    total -= sum(flight["price"] for flight in before) * len(passengers)
    updated = {**reservation, "flights": freeze(changed or flights)}
    return paid(db, reservation_id, updated, payment_id, total)


def _update_reservation_baggages(
    db: Database, reservation_id: Any, total_baggages: Any, nonfree_baggages: Any, payment_id: Any
) -> str:
    """Change the bags, and pay for added ones that are not free."""
    reservation = _reservation(db, reservation_id)
    total = 50 * max(0, nonfree_baggages - reservation["nonfree_baggages"])
    bags = {"total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
    return paid(db, reservation_id, {**reservation, **freeze(bags)}, payment_id, total)


def _update_reservation_passengers(db: Database, reservation_id: Any, passengers: Any) -> str:
    reservation = _reservation(db, reservation_id)
    if len(passengers) != len(reservation["passengers"]):
        raise Refused("number of passengers does not match")
    updated = {**reservation, "passengers": freeze(passengers)}
    return db.put("reservations", reservation_id, updated)


def _send_certificate(db: Database, user_id: Any, amount: Any) -> str:
    user = known(db.find("users", user_id), "user")
    methods = user["payment_methods"]
    number = next((one for one in CERTIFICATES if one not in methods), None)
    if number is None:
        return ""
    certificate = {"source": "certificate", "amount": freeze(amount), "id": number}
    db.put("users", user_id, {**user, "payment_methods": {**methods, number: certificate}})
    return f"Certificate {number} added to user {user_id} with amount {amount}."


_OF_FLIGHT: Final = ("price", "origin", "destination")


def _reservation(db: Database, reservation_id: Any) -> Record:
    return known(db.find("reservations", reservation_id), "reservation")


def _priced(db: Database, flight: Any, cabin: Any, passengers: Any) -> dict[str, Any]:
    """Return a flight of a reservation with its price, if there are seats for all."""
    number = flight["flight_number"]
    found = known(db.find("flights", number), f"flight {number}")
    if flight["date"] not in found["dates"]:
        raise Refused(f"flight {number} not found on date {flight['date']}")
    day = found["dates"][flight["date"]]
    if day["status"] != "available":
        raise Refused(f"flight {number} not available on date {flight['date']}")
    if day["available_seats"][cabin] < len(passengers):
        raise Refused(f"not enough seats on flight {number}")
    route = {"origin": found["origin"], "destination": found["destination"]}
    return {**flight, "price": day["prices"][cabin], **route}


def _refuse_underpaid(user: Record, payments: Any, total: Any) -> None:
    for payment in payments:
        payment_id, amount = payment["payment_id"], payment["amount"]
        method = known(user["payment_methods"].get(payment_id), f"payment method {payment_id}")
        if method["source"] in ("gift_card", "certificate") and method["amount"] < amount:
            raise Refused(f"not enough balance in payment method {payment_id}")
    paid = sum(payment["amount"] for payment in payments)
    if paid != total:
        raise Refused(f"payment amount does not add up, total price is {total}, but paid {paid}")


def _charged(db: Database, user_id: str, user: Record, payment_id: Any, amount: Any) -> Record:
    """Charge a gift card; a certificate is used up whatever the amount."""
    methods = user["payment_methods"]
    method = methods[payment_id]
    match method["source"]:
        case "gift_card":
            methods = {**methods, payment_id: {**method, "amount": method["amount"] - amount}}
        case "certificate":
            methods = {key: value for key, value in methods.items() if key != payment_id}
        case _:
            return user
    charged = {**user, "payment_methods": methods}
    db.put("users", user_id, charged)
    return charged


def paid(db: Database, reservation_id: str, updated: Record, payment_id: Any, total: Any) -> str:
    """Store a reservation after a change with a positive or negative price."""
    user_id = updated["user_id"]
    user = known(db.find("users", user_id), "user")
    method = known(user["payment_methods"].get(payment_id), "payment method")
    if method["source"] == "certificate":
        raise Refused("certificate cannot be used to update reservation")
    if method["source"] == "gift_card" and method["amount"] < total:
        raise Refused("gift card balance is not enough")
    _charged(db, user_id, user, payment_id, total)
    if total != 0:
        history = (*updated["payment_history"], _payment(payment_id, total))
        updated = {**updated, "payment_history": history}
    return db.put("reservations", reservation_id, updated)


def _payment(payment_id: str, amount: Any) -> Record:
    return {"payment_id": payment_id, "amount": amount}


_TOOLS: Final[Mapping[str, Tool]] = {
    **SHARED_TOOLS,
    "book_reservation": _book_reservation,
    "cancel_reservation": _cancel_reservation,
    "get_reservation_details": _get_reservation_details,
    "get_user_details": _get_user_details,
    "list_all_airports": lambda db: json.dumps(AIRPORTS),
    "search_direct_flight": _search_direct_flight,
    "search_onestop_flight": _search_onestop_flight,
    "send_certificate": _send_certificate,
    "update_reservation_baggages": _update_reservation_baggages,
    "update_reservation_flights": _update_reservation_flights,
    "update_reservation_passengers": _update_reservation_passengers,
}

AIRLINE: Final = Domain(
    name="airline",
    place="airline",
    tables={
        "users": {"payment_methods": dict, "reservations": list},
        "reservations": {
            "user_id": str,
            "cabin": str,
            "flights": list,
            "passengers": list,
            "payment_history": list,
            "nonfree_baggages": int,
        },
        "flights": {
            "origin": str,
            "destination": str,
            "scheduled_departure_time_est": str,
            "scheduled_arrival_time_est": str,
            "dates": dict,
        },
    },
    index=_indexed,
    tools=_TOOLS,
    schemas=AIRLINE_SCHEMAS,
    task_types={
        "book_reservation": "book",
        "cancel_reservation": "cancel",
        "send_certificate": "certificate",
        "update_reservation_baggages": "baggage",
        "update_reservation_flights": "flights",
        "update_reservation_passengers": "passengers",
    },
    original="tau-bench airline, original 50",
    upstream=UPSTREAM["airline"],
    data_variable="SKILLWRIGHT_TAU_AIRLINE_DATA",
    fetch_command="skillwright data tau-bench --domain airline",
    longest_observation=9_000,  # trips with one stop on a busy route; the busiest has 25,000
)
