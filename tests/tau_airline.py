"""An airline so small that a test can see all of it."""

import json
from pathlib import Path

from skillwright.worlds.tau_bench import TauBenchEnv, open_store
from skillwright.worlds.tau_bench.tau_core import Database
from tau_store import OPENING, write_sums


def day(price, seats=9, status="available"):
    cabins = ("basic_economy", "economy", "business")
    prices = {cabin: price + 100 * rank for rank, cabin in enumerate(cabins)}
    return {"status": status, "available_seats": dict.fromkeys(cabins, seats), "prices": prices}


def flight(number, origin, destination, leaves, arrives, **dates):
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": f"{leaves}:00:00",
        "scheduled_arrival_time_est": arrives,
        "dates": {f"2024-05-{name[1:]}": of for name, of in dates.items()},
    }


def paid_flight(number, origin, destination, price):
    return {
        "origin": origin,
        "destination": destination,
        "flight_number": number,
        "date": "2024-05-20",
        "price": price,
    }


def person(first):
    return {"first_name": first, "last_name": "Ash", "dob": "1990-01-01"}


def reservation(number, user_id, cabin, flights, paid_by):
    return {
        "reservation_id": number,
        "user_id": user_id,
        "origin": flights[0]["origin"],
        "destination": flights[-1]["destination"],
        "flight_type": "one_way",
        "cabin": cabin,
        "flights": flights,
        "passengers": [person("Ann")],
        "payment_history": [
            {"payment_id": paid_by, "amount": sum(one["price"] for one in flights)}
        ],
        "created_at": "2024-05-10T10:00:00",
        "total_baggages": 1,
        "nonfree_baggages": 0,
        "insurance": "no",
    }


def customer(first, methods, reservations):
    sources = {"g": "gift_card", "c": "certificate", "v": "credit_card"}
    listed = {
        number: {"source": sources[number[0]], **of, "id": number} for number, of in methods.items()
    }
    return {
        "name": {"first_name": first, "last_name": "Ash"},
        "payment_methods": listed,
        "membership": "silver",
        "reservations": reservations,
    }


TABLES = {
    "users": {
        "ann": customer(
            "Ann", {"g1": {"amount": 150}, "c1": {"amount": 200}, "v1": {}}, ["AAA111"]
        ),
        "bob": customer("Bob", {"v2": {}, "g2": {"amount": 1_000}}, ["BBB222"]),
    },
    "reservations": {
        "AAA111": reservation(
            "AAA111", "ann", "economy", [paid_flight("HAT001", "JFK", "DEN", 180)], "v1"
        ),
        "BBB222": reservation(
            "BBB222", "bob", "basic_economy", [paid_flight("HAT002", "DEN", "SEA", 60)], "g2"
        ),
    },
    "flights": {
        "HAT001": flight(
            *("HAT001", "JFK", "DEN", "08", "11:00:00"),
            d19=day(90, status="cancelled"),
            d20=day(100),
            d21=day(120),
        ),
        "HAT002": flight("HAT002", "DEN", "SEA", "12", "14:00:00", d20=day(50), d21=day(60, 1)),
        "HAT003": flight("HAT003", "JFK", "DEN", "22", "01:00:00+1", d20=day(40), d08=day(40)),
        "HAT004": flight("HAT004", "DEN", "SEA", "10", "12:00:00", d20=day(70), d21=day(80)),
        "HAT005": flight("HAT005", "DEN", "SEA", "23", "23:59:00", d08=day(1), d09=day(2)),
    },
}
ON_20 = [{"flight_number": "HAT001", "date": "2024-05-20"}]
BOOKING = {
    "user_id": "ann",
    "origin": "JFK",
    "destination": "DEN",
    "flight_type": "one_way",
    "cabin": "basic_economy",
    "flights": ON_20,
    "passengers": [person("Ann")],
    "payment_methods": [{"payment_id": "v1", "amount": 100}],
    "total_baggages": 0,
    "nonfree_baggages": 0,
    "insurance": "no",
}
CANCEL = ("cancel_reservation", {"reservation_id": "AAA111"})
BOOK = ("book_reservation", BOOKING)
CERTIFICATE = ("send_certificate", {"user_id": "bob", "amount": 50})


def task(*actions, outputs=(), user_id="ann"):
    listed = [{"name": name, "kwargs": kwargs} for name, kwargs in actions]
    return {
        "user_id": user_id,
        "instruction": f"You are {user_id} and want something.",
        "actions": listed,
        "outputs": list(outputs),
    }


TASKS = [task(CANCEL), task(BOOK, outputs=["100"]), task(CERTIFICATE, user_id="bob"), task()]


def write_airline(folder: Path, **files) -> Path:
    """Write the airline with its checksums; keyword arguments replace files by stem."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, value in {**TABLES, "tasks_test": TASKS, **files}.items():
        (folder / f"{stem}.json").write_text(json.dumps(value), encoding="utf-8")
    (folder / "wiki.md").write_text("# Policy\n\nFly people.\n", encoding="utf-8")
    write_sums(folder)
    return folder


def airline(folder) -> Database:
    """Begin with the pristine database."""
    return Database(open_store(folder, "airline").tables)


def airline_env(folder, index=0, replies=(OPENING,), **extras) -> TauBenchEnv:
    """Build an episode with a scripted user."""
    script = {"user_strategy": "scripted", "user_replies": list(replies)}
    config = {"domain": "airline", "data_dir": str(folder), **script}
    return TauBenchEnv(config, {"task_index": index, "task_split": "test", **extras})
