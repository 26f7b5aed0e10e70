"""The airline domain of tau2-bench 1.0.1 (tau3): the tools that differ from tau-bench's.

Source: tau2-bench (arXiv:2506.07982), airline domain. Besides the wording of refusals: there is no
``think``; ``get_flight_status`` is new; a booking takes seats, and a fourth one is refused; a
change of flights changes the cabin; the second flight of a trip with a stop is shown with its own
date; and arguments are validated by models, whose errors are observations.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from pydantic import BaseModel

from skillwright.worlds.tau_bench.tau_core.airline import (
    AIRLINE,
    BOOKED,
    CERTIFICATES,
    NEXT_DAY,
    NOW,
    paid,
)
from skillwright.worlds.tau_bench.tau_core.database import Database, freeze
from skillwright.worlds.tau_bench.tau_core.domain import AIRPORTS, UPSTREAM, Record, Tool
from skillwright.worlds.tau_bench.tau_core.schemas import TAU3_AIRLINE_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.tools import (
    TAU3_SHARED_TOOLS,
    Refused,
    capitalized,
    known,
)

Cabin = Literal["business", "economy", "basic_economy"]

# The names of these models and their fields are in the original's errors.


class Passenger(BaseModel):
    """A passenger."""

    first_name: str
    last_name: str
    dob: str


class Payment(BaseModel):
    """A payment, or with a negative amount a refund."""

    payment_id: str
    amount: int


class FlightInfo(BaseModel):
    """A wanted flight."""

    flight_number: str
    date: str


class Certificate(BaseModel):
    """A travel certificate."""

    source: str = "certificate"
    id: str
    amount: float


class Reservation(BaseModel):
    """A new reservation."""

    reservation_id: str
    user_id: str
    origin: str
    destination: str
    flight_type: Literal["round_trip", "one_way"]
    cabin: Cabin
    flights: list[dict[str, Any]]
    passengers: list[Passenger]
    payment_history: list[Payment]
    created_at: str
    total_baggages: int
    nonfree_baggages: int
    insurance: Literal["yes", "no"]
    status: Literal["cancelled"] | None = None


def _user(db: Database, user_id: Any) -> Record:
    return known(db.find("users", user_id), f"User {user_id}")


def _reservation(db: Database, reservation_id: Any) -> Record:
    return known(db.find("reservations", reservation_id), f"Reservation {reservation_id}")


def _day(db: Database, number: Any, date: Any) -> tuple[Record, Record]:
    """Return a flight, and its day."""
    flight = known(db.find("flights", number), f"Flight {number}")
    if date not in flight["dates"]:
        raise Refused(f"Flight {number} not found on date {date}")
    return flight, flight["dates"][date]


def _get_flight_status(db: Database, flight_number: Any, date: Any) -> str:
    return str(_day(db, flight_number, date)[1]["status"])


def _open_flights(db: Database, date: Any, origin: Any, destination: Any) -> Iterator[Record]:
    """Yield the flights that can be booked on a day; ``None`` for anywhere."""
    for number, flight in db.tables.records["flights"].items():
        if (origin is None or flight["origin"] == origin) and (
            destination is None or flight["destination"] == destination
        ):
            day = known(db.find("flights", number), number)["dates"].get(date)
            if day is not None and day["status"] == "available":
                yield {
                    "flight_number": number,
                    "origin": flight["origin"],
                    "destination": flight["destination"],
                    "status": "available",
                    "scheduled_departure_time_est": flight["scheduled_departure_time_est"],
                    "scheduled_arrival_time_est": flight["scheduled_arrival_time_est"],
                    "date": None,
                    "available_seats": day["available_seats"],
                    "prices": day["prices"],
                }


def _search_direct_flight(db: Database, origin: Any, destination: Any, date: Any) -> str:
    return json.dumps([*_open_flights(db, date, origin, destination)])


def _search_onestop_flight(db: Database, origin: Any, destination: Any, date: Any) -> str:
    """Find pairs whose second flight leaves no earlier than the first arrives, as texts."""
    pairs = []
    for first in _open_flights(db, date, origin, None):
        arrives = first["scheduled_arrival_time_est"]
        # The day has no leading zero here, so nothing is found before the tenth.
        then = f"2024-05-{int(date[-2:]) + 1}" if NEXT_DAY in arrives else date
        for second in _open_flights(db, then, first["destination"], destination):
            if second["scheduled_departure_time_est"] >= arrives:
                pairs.append([{**first, "date": date}, {**second, "date": then}])
    return json.dumps(pairs)


def _book_reservation(db: Database, user_id: Any, **wanted: Any) -> str:
    """Book flights, take their seats, and charge gift cards and certificates."""
    flights = _read(FlightInfo, wanted["flights"])
    passengers = _read(Passenger, wanted["passengers"])
    payments = _read(Payment, wanted["payment_methods"])
    user, cabin = _user(db, user_id), wanted["cabin"]
    number = next((one for one in BOOKED if db.find("reservations", one) is None), None)
    if number is None:
        raise Refused("Too many reservations")
    others = {name: value for name, value in wanted.items() if name != "payment_methods"}
    made = {"reservation_id": number, "user_id": user_id, "created_at": NOW, "flights": []}
    given = {**others, **made, "passengers": passengers, "payment_history": payments}
    reservation = Reservation(**given).model_dump()
    booked = [_priced(db, flight, cabin, len(passengers)) for flight in flights]
    total = sum(flight["price"] for flight in booked) * len(passengers)
    total += 30 * len(passengers) if wanted["insurance"] == "yes" else 0
    total += 50 * wanted["nonfree_baggages"]
    user = _charged(db, user, payments, total)
    for flight in flights:
        _take_seats(db, flight, cabin, len(passengers))
    reservations = (*user["reservations"], number)
    db.put("users", user_id, {**user, "reservations": reservations})
    return db.put("reservations", number, freeze({**reservation, "flights": booked}))


def _charged(db: Database, user: Record, payments: Sequence[Record], total: Any) -> Record:
    """Charge payments that add up to the price; a certificate named twice is used up and fails."""
    methods = user["payment_methods"]
    for one in payments:
        name = f"ayment method {one['payment_id']}"
        method = known(methods.get(one["payment_id"]), f"P{name}")
        if method["source"] in ("gift_card", "certificate") and method["amount"] < one["amount"]:
            raise Refused(f"Not enough balance in p{name}")
    amount = sum(one["amount"] for one in payments)
    if amount != total:
        raise Refused(f"Payment amount does not add up, total price is {total}, but paid {amount}")
    for one in payments:
        method = methods[one["payment_id"]]
        if method["source"] == "gift_card":
            left = {**method, "amount": method["amount"] - one["amount"]}
            methods = {**methods, method["id"]: left}
        elif method["source"] == "certificate":
            methods = {key: of for key, of in methods.items() if key != method["id"]}
        user = {**user, "payment_methods": methods}
        db.put("users", user["user_id"], user)
    return user


def _take_seats(db: Database, wanted: Record, cabin: str, count: int) -> None:
    flight, day = _day(db, wanted["flight_number"], wanted["date"])
    seats = {**day["available_seats"], cabin: day["available_seats"][cabin] - count}
    dates = {**flight["dates"], wanted["date"]: {**day, "available_seats": seats}}
    db.put("flights", wanted["flight_number"], {**flight, "dates": dates})


def _update_reservation_flights(
    db: Database, reservation_id: Any, cabin: Any, flights: Any, payment_id: Any
) -> str:
    """Replace the flights and the cabin, and pay or refund the difference."""
    wanted = _read(FlightInfo, flights)
    reservation = _reservation(db, reservation_id)
    _user(db, reservation["user_id"])
    count, before, changed = len(reservation["passengers"]), reservation["flights"], []
    for flight in wanted:
        kept = [
            old
            for old in before
            if old["flight_number"] == flight["flight_number"]
            and old["date"] == flight["date"]
            and cabin == reservation["cabin"]
        ]
        changed.append(kept[0] if kept else _priced(db, flight, cabin, count))
    total = (sum(one["price"] for one in changed) - sum(one["price"] for one in before)) * count
    updated = {**reservation, "flights": tuple(changed), "cabin": cabin}
    return paid(db, reservation_id, updated, payment_id, total)


def _update_reservation_passengers(db: Database, reservation_id: Any, passengers: Any) -> str:
    flying = _read(Passenger, passengers)
    reservation = _reservation(db, reservation_id)
    if len(flying) != len(reservation["passengers"]):
        raise Refused("Number of passengers does not match")
    return db.put("reservations", reservation_id, {**reservation, "passengers": freeze(flying)})


def _send_certificate(db: Database, user_id: Any, amount: Any) -> str:
    user = _user(db, user_id)
    methods = user["payment_methods"]
    number = next((one for one in CERTIFICATES if one not in methods), None)
    if number is None:
        raise Refused("Too many certificates")
    certificate = Certificate(id=number, amount=amount).model_dump()
    db.put("users", user_id, {**user, "payment_methods": {**methods, number: certificate}})
    return f"Certificate {number} added to user {user_id} with amount {amount}."


def _read(model: type[BaseModel], listed: Any) -> list[dict[str, Any]]:
    """Return objects of a list with the fields of a model and no others."""
    if not all(isinstance(one, dict) for one in listed):
        raise TypeError(f"every {model.__name__} must be an object")
    return [model(**one).model_dump() for one in listed]


def _priced(db: Database, wanted: Record, cabin: Any, count: int) -> dict[str, Any]:
    """Return a flight of a reservation with its price, if there are seats for all."""
    number, date = wanted["flight_number"], wanted["date"]
    flight, day = _day(db, number, date)
    if day["status"] != "available":
        raise Refused(f"Flight {number} not available on date {date}")
    if day["available_seats"][cabin] < count:
        raise Refused(f"Not enough seats on flight {number}")
    route = {"origin": flight["origin"], "destination": flight["destination"]}
    return {"flight_number": number, **route, "date": date, "price": day["prices"][cabin]}


def _naming(tool: Tool) -> Tool:
    """Return a tool of tau-bench whose refusals name the record, as in tau2-bench."""

    def call(db: Database, **kwargs: Any) -> str:
        for table, find in (("reservation_id", _reservation), ("user_id", _user)):
            if table in kwargs:
                find(db, kwargs[table])
        return tool(db, **kwargs)

    return capitalized(call)


_KEPT: Final = (
    "cancel_reservation",
    "get_reservation_details",
    "get_user_details",
    "update_reservation_baggages",
)

_TOOLS: Final[Mapping[str, Tool]] = {
    **TAU3_SHARED_TOOLS,
    **{name: _naming(AIRLINE.tools[name]) for name in _KEPT},
    "book_reservation": _book_reservation,
    "get_flight_status": _get_flight_status,
    "list_all_airports": lambda db: json.dumps(
        [{"iata": code, "city": city} for code, city in AIRPORTS.items()]
    ),
    "search_direct_flight": _search_direct_flight,
    "search_onestop_flight": _search_onestop_flight,
    "send_certificate": _send_certificate,
    "update_reservation_flights": capitalized(_update_reservation_flights),
    "update_reservation_passengers": _update_reservation_passengers,
}

TAU3_AIRLINE: Final = replace(
    AIRLINE,
    name="tau3_airline",
    tools=_TOOLS,
    schemas=TAU3_AIRLINE_SCHEMAS,
    original="tau2-bench 1.0.1 (tau3) airline, 50 tasks",
    upstream=UPSTREAM["tau3_airline"],
    data_variable="SKILLWRIGHT_TAU3_AIRLINE_DATA",
    fetch_command="skillwright data tau-bench --tasks tau3 --domain airline",
    toolkit="AirlineTools",
)
