"""The airline's tools over an airline of ours: their checks, their oddities, and what is shared."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError
from skillwright.worlds.tau_bench import DOMAINS, data_dir, open_store
from skillwright.worlds.tau_bench.tau_core import Database, call_tool, fetched_dir
from skillwright.worlds.tau_bench.tau_core.database import canonical_text
from tau_airline import (
    BOOK,
    BOOKING,
    CANCEL,
    CERTIFICATE,
    ON_20,
    TABLES,
    TASKS,
    airline,
    airline_env,
    person,
    write_airline,
)
from tau_store import answer, tool_call, write_store

BYE = "That is done. 100 dollars. Goodbye."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_airline(tmp_path_factory.mktemp("airline"))


@pytest.fixture
def db(folder):
    return airline(folder)


def methods(db, user_id):
    return db.find("users", user_id)["payment_methods"]


def booked(db, **other):
    return answer(db, "book_reservation", **{**BOOKING, **other})


def test_a_booking_is_paid_by_what_it_names_and_leaves_the_seats(db):
    by_three = [
        {"payment_id": "c1", "amount": 50},
        {"payment_id": "g1", "amount": 70},
        {"payment_id": "v1", "amount": 60},
    ]
    shown = json.loads(booked(db, payment_methods=by_three, insurance="yes", nonfree_baggages=1))
    assert shown["reservation_id"] == "HATHAT"
    assert shown["payment_history"] == by_three
    assert shown["flights"][0]["price"] == 100
    assert list(methods(db, "ann")) == ["g1", "v1"]  # a certificate is gone whole
    assert methods(db, "ann")["g1"]["amount"] == 80
    assert db.find("users", "ann")["reservations"] == ("AAA111", "HATHAT")
    assert db.find("flights", "HAT001") is db.tables.records["flights"]["HAT001"]


def test_the_fourth_booking_replaces_the_third(db):
    for wanted in ("HATHAT", "HATHAU", "HATHAV", "HATHAV"):
        assert json.loads(booked(db))["reservation_id"] == wanted
    assert db.find("users", "ann")["reservations"][1:] == ("HATHAT", "HATHAU", "HATHAV", "HATHAV")


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"user_id": "eve"}, "user not found"),
        ({"flights": [{"flight_number": "HAT9", "date": "2024-05-20"}]}, "flight HAT9 not found"),
        (
            {"flights": [{"flight_number": "HAT001", "date": "2024-06-01"}]},
            "flight HAT001 not found on date 2024-06-01",
        ),
        (
            {"flights": [{"flight_number": "HAT001", "date": "2024-05-19"}]},
            "flight HAT001 not available on date 2024-05-19",
        ),
        ({"passengers": [person("Ann")] * 10}, "not enough seats on flight HAT001"),
        ({"cabin": "first"}, "'first'"),
        (
            {"payment_methods": [{"payment_id": "v2", "amount": 100}]},
            "payment method v2 not found",
        ),
        (
            {"payment_methods": [{"payment_id": "g1", "amount": 151}]},
            "not enough balance in payment method g1",
        ),
        (
            {"payment_methods": [{"payment_id": "v1", "amount": 99}]},
            "payment amount does not add up, total price is 100, but paid 99",
        ),
        ({"flights": "HAT001"}, "string indices must be integers, not 'str'"),
        ({"user_id": ["ann"]}, "unhashable type: 'list'"),
    ],
)
def test_a_booking_that_is_refused_changes_nothing(db, other, told):
    assert booked(db, **other) == f"Error: {told}"
    assert not db.changed


def test_a_certificate_that_is_named_twice_is_used_up_and_nothing_is_booked(db):
    twice = [{"payment_id": "c1", "amount": 50}] * 2
    assert booked(db, payment_methods=twice) == "Error: 'c1'"
    assert "c1" not in methods(db, "ann")
    assert db.find("reservations", "HATHAT") is None


def test_a_cancellation_writes_refunds_down_as_often_as_it_is_asked_for(db):
    for amounts in ([180, -180], [180, -180, -180, 180]):
        shown = json.loads(answer(db, *CANCEL[:1], **CANCEL[1]))
        assert [one["amount"] for one in shown["payment_history"]] == amounts
        assert shown["status"] == "cancelled"
    assert {ref.table for ref in db.changed} == {"reservations"}


def changed(db, **other):
    wanted = {"reservation_id": "AAA111", "cabin": "economy", "flights": ON_20, "payment_id": "g1"}
    return answer(db, "update_reservation_flights", **{**wanted, **other})


def test_a_flight_that_stays_keeps_its_price_unless_the_cabin_changes(db):
    assert json.loads(changed(db))["flights"][0]["price"] == 180
    assert not db.find("reservations", "AAA111")["payment_history"][1:]
    shown = json.loads(changed(db, cabin="business"))
    assert shown["flights"][0]["price"] == 300
    assert shown["cabin"] == "economy"  # as the original leaves it
    assert shown["payment_history"][1:] == [{"payment_id": "g1", "amount": 120}]
    assert methods(db, "ann")["g1"]["amount"] == 30
    cheaper = json.loads(changed(db, cabin="basic_economy"))
    assert cheaper["payment_history"][-1] == {"payment_id": "g1", "amount": -200}
    assert methods(db, "ann")["g1"]["amount"] == 230


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"reservation_id": "ZZZ999"}, "reservation not found"),
        ({"payment_id": "g2"}, "payment method not found"),
        ({"payment_id": "c1"}, "certificate cannot be used to update reservation"),
        (
            {"cabin": "business", "flights": [*ON_20, *ON_20]},
            "gift card balance is not enough",
        ),
    ],
)
def test_a_change_of_flights_that_is_refused_changes_nothing(db, other, told):
    assert changed(db, **other) == f"Error: {told}"
    assert not db.changed


def test_only_added_bags_that_are_not_free_are_paid_for(db):
    def bags(total, nonfree, paid_by="v1"):
        named = {"total_baggages": total, "nonfree_baggages": nonfree, "payment_id": paid_by}
        told = answer(db, "update_reservation_baggages", reservation_id="AAA111", **named)
        return told if told.startswith("Error") else json.loads(told)

    assert bags(3, 2)["payment_history"][1:] == [{"payment_id": "v1", "amount": 100}]
    assert len(bags(3, 1)["payment_history"]) == 2
    assert bags(9, 5, "g1") == "Error: gift card balance is not enough"


def test_passengers_are_replaced_by_as_many(db):
    def flies(*people):
        told = {"reservation_id": "AAA111", "passengers": list(people)}
        return answer(db, "update_reservation_passengers", **told)

    assert flies(person("Bob"), person("Eve")) == "Error: number of passengers does not match"
    assert json.loads(flies(person("Bob")))["passengers"] == [person("Bob")]


def test_a_fourth_certificate_is_not_made_and_nothing_is_said(db):
    said = [answer(db, *CERTIFICATE[:1], **CERTIFICATE[1]) for _ in range(4)]
    assert said[0] == "Certificate certificate_3221322 added to user bob with amount 50."
    assert said[3] == ""
    assert [*methods(db, "bob")][2:] == [f"certificate_322132{last}" for last in "234"]


def searched(db, kind, date, destination="SEA", origin="JFK"):
    named = {"origin": origin, "destination": destination, "date": date}
    return json.loads(answer(db, f"search_{kind}_flight", **named))


def test_a_direct_search_shows_flights_that_can_be_booked_as_they_are_on_that_day(db):
    found = searched(db, "direct", "2024-05-20", "DEN")
    assert [one["flight_number"] for one in found] == ["HAT001", "HAT003"]
    assert found[0]["prices"]["economy"] == 200
    assert "dates" not in found[0]
    assert searched(db, "direct", "2024-05-19", "DEN") == []
    assert searched(db, "direct", "2024-05-20", "DEN", ["JFK"]) == []


def test_a_trip_with_a_stop_shows_the_second_flight_as_on_the_first_day(db):
    pairs = searched(db, "onestop", "2024-05-20")
    numbers = [[one["flight_number"] for one in pair] for pair in pairs]
    # The flight at 10:00 leaves before the first one arrives, and not after the night flight.
    assert numbers == [["HAT001", "HAT002"], ["HAT003", "HAT002"], ["HAT003", "HAT004"]]
    assert pairs[1][1]["date"] == "2024-05-21"
    assert pairs[1][1]["prices"]["economy"] == 150  # of the 20th
    assert searched(db, "onestop", "2024-05-08") == []  # "2024-05-9" is no day


def test_what_is_not_there_is_told_in_the_originals_words(db):
    assert answer(db, "get_user_details", user_id="eve") == "Error: user not found"
    assert answer(db, "get_reservation_details", reservation_id="x") == "Error: user not found"
    assert answer(db, "find_user_id_by_email", email="x") == "Unknown action find_user_id_by_email"
    told = "Error: CancelReservation.invoke() got an unexpected keyword argument 'reason'"
    assert answer(db, "cancel_reservation", reservation_id="AAA111", reason="x") == told
    told = answer(db, "cancel_reservation", reservation_id="AAA111", data={})
    assert told.startswith("Error: tau_bench.envs.airline.tools.cancel_reservation.Cancel")
    assert len(json.loads(answer(db, "list_all_airports"))) == 20
    assert answer(db, "calculate", expression="2*(3+4)") == "14.0"
    assert answer(db, "think", thought="hm") == ""


# Episodes


def test_the_gold_actions_and_outputs_win_and_less_does_not(folder):
    for index, wanted in enumerate(TASKS):
        calls = [tool_call(one["name"], **one["kwargs"]) for one in wanted["actions"]]
        rewards = []
        for turns in ([*calls, BYE], [*calls, "Goodbye."], [BYE]):
            env = airline_env(folder, index)
            env.init([])
            rewards.append([env.step(turn)["reward"] for turn in turns][-1])
        assert rewards[0] == 1.0
        assert rewards[1] == float(not wanted["outputs"])
        assert rewards[2] == float(not calls)


def test_a_reservation_that_only_one_side_made_is_a_difference(folder):
    env = airline_env(folder, 0)
    env.init([])
    env.step(tool_call(*BOOK[:1], **BOOKING))
    told = env.step(BYE)["metadata"]["reward_breakdown"]
    records = {one["record"]: one["fields"] for one in told["differing_records"]}
    assert [*records] == ["reservations/AAA111", "reservations/HATHAT", "users/ann"]
    assert "payment_history" in records["reservations/HATHAT"]
    missing = airline_env(folder, 1)
    missing.init([])
    told = missing.step(BYE)["metadata"]["reward_breakdown"]
    assert [one["record"] for one in told["differing_records"]] == [
        "reservations/HATHAT",
        "users/ann",
    ]


ODD = (None, True, -1, 0.5, 10**400, "", "ann", "AAA111", "g1", [], {}, [{}], [person("Eve")])
KNOWN = {
    "user_id": ("ann", "bob"),
    "reservation_id": ("AAA111", "BBB222", "HATHAT"),
    "payment_id": ("v1", "g1", "c1", "v2", "g2"),
    "cabin": ("basic_economy", "economy", "business"),
    "flights": (ON_20, [{"flight_number": "HAT002", "date": "2024-05-21"}], []),
    "passengers": ([person("Eve")], []),
    "payment_methods": (BOOKING["payment_methods"], [{"payment_id": "g1", "amount": 100}]),
    "amount": (50, 0.5),
    "origin": ("JFK", "DEN"),
    "destination": ("DEN", "SEA"),
    "date": ("2024-05-20", "2024-05-08"),
    "total_baggages": (0, 3),
    "nonfree_baggages": (0, 1),
}


@st.composite
def calls(draw):
    """Draw a call of a tool, with arguments that mostly fit."""
    name = draw(st.sampled_from(sorted(DOMAINS["airline"].tools)))
    wanted = DOMAINS["airline"].parameters[name]
    fit = {one: draw(st.sampled_from(KNOWN.get(one, ODD))) for one in wanted}
    for one in draw(st.sets(st.sampled_from(sorted(fit)), max_size=1)) if fit else ():
        fit[one] = draw(st.sampled_from(ODD))
    return name, fit


MANY = st.lists(st.one_of(calls(), st.sampled_from([BOOK, CANCEL, CERTIFICATE])), max_size=12)


def played(db, sequence):
    return [call_tool(db, name, kwargs).observation for name, kwargs in sequence]


@given(MANY, MANY, st.randoms(use_true_random=False))
def test_episodes_that_take_turns_end_as_each_would_alone(folder, one, other, rng):
    alone = [airline(folder), airline(folder)]
    wanted = [played(db, sequence) for db, sequence in zip(alone, (one, other), strict=True)]
    together, left, found = [airline(folder), airline(folder)], [list(one), list(other)], ([], [])
    while any(left):
        at = rng.choice([at for at in (0, 1) if left[at]])
        found[at].extend(played(together[at], [left[at].pop(0)]))
    assert [*found] == wanted
    assert [db.state_hash() for db in together] == [db.state_hash() for db in alone]
    tables = open_store(folder, "airline").tables
    assert json.dumps(tables.records) == json.dumps(TABLES)  # nothing got into what is shared
    assert not any(ref.table == "flights" for db in together for ref in db.changed)


@given(MANY)
def test_the_hash_is_that_of_everything_whether_changed_or_not(folder, sequence):
    db = airline(folder)
    played(db, sequence)
    whole = {table: dict(records) for table, records in db.tables.records.items()}
    for ref, record in db.changed.items():
        whole[ref.table][ref.key] = record
    assert db.state_hash() == hashlib.sha256(canonical_text(whole).encode()).hexdigest()
    pristine = Database(db.tables).state_hash()
    same = all(db.canonical(ref) == db.tables.canonical(ref) for ref in db.changed)
    assert (db.state_hash() == pristine) == same


# Where its data is


def test_its_data_is_looked_for_apart_from_that_of_retail(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SKILLWRIGHT_TAU_DATA", str(tmp_path / "shop"))
    monkeypatch.delenv("SKILLWRIGHT_TAU_AIRLINE_DATA", raising=False)
    with pytest.raises(DataError, match=r"data tau-bench --domain airline.*TAU_AIRLINE_DATA"):
        data_dir(domain="airline")
    with pytest.raises(DataError, match="built-in store is of retail"):
        data_dir("built-in", "airline")
    fetched_dir("airline").mkdir(parents=True)
    assert data_dir(domain="airline").origin == "fetched"
    monkeypatch.setenv("SKILLWRIGHT_TAU_AIRLINE_DATA", str(tmp_path / "air"))
    assert data_dir(domain="airline").path == str(tmp_path / "air")
    assert data_dir().path == str(tmp_path / "shop")


def test_data_of_the_other_domain_is_told(folder, tmp_path):
    with pytest.raises(DataError, match=r"has the data of tau-bench retail.*set domain: retail"):
        airline_env(write_store(tmp_path / "shop"))
    with pytest.raises(DataError, match="has the data of tau-bench airline"):
        open_store(folder, "retail").load()


def test_a_record_without_what_its_tools_read_is_told(tmp_path):
    broken = {"HAT001": {**TABLES["flights"]["HAT001"], "dates": []}}
    with pytest.raises(DataError, match="'HAT001': dates is not an object"):
        open_store(write_airline(tmp_path, flights=broken), "airline").load()
