"""Random calls of tools of tau3's domains, mostly sensible ones, about the records of one user."""

import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any

ADDRESS = {"address1": "1 Elm", "city": "Denver", "state": "CO", "country": "USA"}
SUMS = ("1+2", "(3.5*2)/7", "1/0", "abc", "5//2", "2**10", ".5+.5")


def _unless(rng: Random, chance: float, usual: Any, *odd: Any) -> Any:
    return rng.choice(odd) if rng.random() < chance else usual


def _damaged(rng: Random, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Leave out an argument, or add one, now and then."""
    if kwargs and rng.random() < 0.02:
        kwargs.pop(next(iter(kwargs)))
    elif rng.random() < 0.01:
        kwargs["colour"] = "red"
    return kwargs


def retail(rng: Random, tables: Mapping[str, Any], user_id: str) -> tuple[str, dict[str, Any]]:
    user = tables["users"][user_id]
    order_id = _unless(rng, 0.05, rng.choice(user["orders"]), "#W0", 7, None)
    order = tables["orders"].get(order_id) or tables["orders"][user["orders"][0]]
    method = _unless(
        rng, 0.15, rng.choice([*user["payment_methods"]]), "credit_card_0", "gift_card_0"
    )
    address = {**ADDRESS, "address2": rng.choice(["", "Apt 2"])}
    address["zip"] = _unless(rng, 0.1, "80279", 80279)
    chosen = [rng.choice(order["items"]) for _ in range(rng.choice([0, 1, 1, 1, 2, 2]))]
    item_ids = [item["item_id"] for item in chosen]
    new_ids = []
    for item in chosen:
        variants = tables["products"][item["product_id"]]["variants"]
        there = [one for one, of in variants.items() if of["available"]] or ["none"]
        new_ids.append(_unless(rng, 0.15, rng.choice(there), *variants, item["item_id"], "123"))
    if rng.random() < 0.05:
        item_ids.append("999")
    if rng.random() < 0.05:
        new_ids = new_ids[1:]
    if rng.random() < 0.03:
        item_ids, new_ids = "12", "34"  # type: ignore[assignment]
    paid = {"order_id": order_id, "payment_method_id": method}
    reason = rng.choice(["no longer needed", "ordered by mistake", "x"])
    name = user["name"]
    choices = {
        "cancel_pending_order": {"order_id": order_id, "reason": reason},
        "exchange_delivered_order_items": {**paid, "item_ids": item_ids, "new_item_ids": new_ids},
        "modify_pending_order_items": {**paid, "item_ids": item_ids, "new_item_ids": new_ids},
        "return_delivered_order_items": {**paid, "item_ids": item_ids},
        "modify_pending_order_payment": paid,
        "modify_pending_order_address": {"order_id": order_id, **address},
        "modify_user_address": {"user_id": _unless(rng, 0.1, user_id, "x"), **address},
        "get_order_details": {"order_id": order_id},
        "get_user_details": {"user_id": user_id},
        "get_product_details": {"product_id": order["items"][0]["product_id"]},
        "find_user_id_by_email": {"email": _unless(rng, 0.3, user["email"].upper(), "x")},
        "find_user_id_by_name_zip": {**name, "zip": _unless(rng, 0.3, user["address"]["zip"], "0")},
        "list_all_product_types": {},
        "calculate": {"expression": rng.choice(SUMS)},
        "no_such_tool": {},
    }
    weights = [3, 5, 6, 4, 3, *[1] * (len(choices) - 5)]
    chosen_name = rng.choices([*choices], weights)[0]
    return chosen_name, _damaged(rng, choices[chosen_name])


def airline(rng: Random, tables: Mapping[str, Any], user_id: str) -> tuple[str, dict[str, Any]]:
    user, flights = tables["users"][user_id], tables["flights"]
    number = _unless(rng, 0.05, rng.choice(user["reservations"]), "XXXXXX")
    trip = tables["reservations"].get(number) or tables["reservations"][user["reservations"][0]]
    method = _unless(rng, 0.1, rng.choice([*user["payment_methods"], "gift_card_0"]), 5, None)
    date = f"2024-05-{rng.randint(14, 30)}"
    wanted = [
        {"flight_number": one["flight_number"], "date": rng.choice([one["date"], date])}
        for one in trip["flights"]
    ]
    if rng.random() < 0.3:
        count = rng.choice([0, 1, 1, 2])
        wanted = [{"flight_number": rng.choice([*flights]), "date": date} for _ in range(count)]
    odd = (
        [{"flight_number": "HAT999", "date": date}],
        [{"date": date}],
        [{**wanted[0], "x": 1}] if wanted else [],
    )
    wanted = _unless(rng, 0.08, wanted, *odd)
    cabin = _unless(rng, 0.3, trip["cabin"], "business", "economy", "basic_economy", "first")
    person = {"first_name": "A", "last_name": "B", "dob": "1990-01-01"}
    people: list[Any] = [person] * _unless(rng, 0.3, len(trip["passengers"]), 1, 2, 3)
    odd_people = ({"first_name": "A"}, {**person, "x": 1}, {**person, "dob": 1990})
    people = [_unless(rng, 0.05, one, *odd_people) for one in people]
    bags = dict(
        zip(
            ("total_baggages", "nonfree_baggages"),
            rng.choice([(0, 0), (2, 1), (3, 2)]),
            strict=True,
        )
    )
    insurance = _unless(rng, 0.1, rng.choice(["yes", "no"]), "maybe")
    price = 50 * bags["nonfree_baggages"] + (30 * len(people) if insurance == "yes" else 0)
    for one in wanted:
        days = flights.get(one.get("flight_number"), {}).get("dates", {})
        price += days.get(one["date"], {}).get("prices", {}).get(cabin, 0) * len(people)
    parts = [price] if rng.random() < 0.8 else [price // 2, price - price // 2]
    payments = [
        {"payment_id": method, "amount": _unless(rng, 0.08, part, part + 1, 1.5, float(part))}
        for part in parts
    ]
    route = {"origin": trip["origin"], "destination": trip["destination"]}
    known = {"user_id": _unless(rng, 0.05, user_id, "nobody")}
    there = {"reservation_id": number}
    choices = {
        "book_reservation": {
            **known, **route, **bags, "cabin": cabin, "flights": wanted, "passengers": people,
            "flight_type": _unless(rng, 0.05, "one_way", "round_trip", "x"),
            "payment_methods": payments, "insurance": insurance,
        },
        "update_reservation_flights": {
            **there, "cabin": cabin, "flights": wanted, "payment_id": method,
        },
        "update_reservation_baggages": {**there, **bags, "payment_id": method},
        "update_reservation_passengers": {**there, "passengers": people},
        "cancel_reservation": there,
        "send_certificate": {**known, "amount": rng.choice([100, 50, 12.5, "x"])},
        "get_flight_status": {
            "flight_number": rng.choice([*flights, "Z"]),
            "date": rng.choice([date, "2024-06-01"]),
        },
        "search_direct_flight": {**route, "date": date},
        "search_onestop_flight": {**route, "date": date},
        "get_reservation_details": there,
        "get_user_details": known,
        "list_all_airports": {},
        "calculate": {"expression": rng.choice(SUMS)},
        "no_such_tool": {},
    }  # fmt: skip
    weights = [7, 6, 3, 3, 2, 3, *[1] * (len(choices) - 6)]
    chosen_name = rng.choices([*choices], weights)[0]
    return chosen_name, _damaged(rng, choices[chosen_name])


def telecom(
    rng: Random, tables: Mapping[str, Any], user_id: str
) -> tuple[bool, str, dict[str, Any]]:
    """Return whether the user calls, the tool, and its arguments."""
    customer = tables["customers"][user_id]
    who = {"customer_id": _unless(rng, 0.05, user_id, "C9999", *tables["customers"])}
    line = {**who, "line_id": _unless(rng, 0.05, rng.choice(customer["line_ids"]), "L9999")}
    bill = rng.choice([*customer["bill_ids"], "B9999"])
    app = {"app_name": _unless(rng, 0.1, rng.choice(["messaging", "browser"]), "game")}
    agents = {
        "get_customer_by_phone": {"phone_number": _unless(rng, 0.2, customer["phone_number"], "0")},
        "get_customer_by_id": who,
        "get_customer_by_name": {
            "full_name": customer["full_name"].upper(),
            "dob": customer["date_of_birth"],
        },
        "get_details_by_id": {
            "id": rng.choice([user_id, line["line_id"], bill, "P1001", "D1001", "X1"])
        },
        "suspend_line": {**line, "reason": "lost"},
        "resume_line": line,
        "get_bills_for_customer": {**who, **_unless(rng, 0.5, {}, {"limit": 1})},
        "send_payment_request": {**who, "bill_id": bill},
        "get_data_usage": line,
        "enable_roaming": line,
        "disable_roaming": line,
        "refuel_data": {**line, "gb_amount": rng.choice([1, 2.0, 0.5, 0, -1])},
    }
    modes = ["4g_5g_preferred", "4g_only", "3g_only", "2g_only", "6g"]
    access_points = [{}, {"apn_name": "broken"}, {"apn_name": "x"}, {"mmsc_url": None}]
    phone = {
        "set_network_mode_preference": {"mode": rng.choice(modes)},
        "check_app_status": app,
        "check_app_permissions": app,
        "grant_app_permission": {**app, "permission": rng.choice(["SMS", "storage", "camera"])},
        "set_apn_settings": {"apn_settings": rng.choice(access_points)},
    }
    plain = """can_send_mms check_apn_settings check_data_restriction_status check_installed_apps
        check_network_mode_preference check_network_status check_payment_request check_sim_status
        check_status_bar check_vpn_status check_wifi_calling_status check_wifi_status connect_vpn
        disconnect_vpn make_payment reboot_device reseat_sim_card reset_apn_settings run_speed_test
        toggle_airplane_mode toggle_data toggle_data_saver_mode toggle_roaming toggle_wifi
        toggle_wifi_calling no_such_tool"""
    of_user = {**phone, **{name: {} for name in plain.split()}}
    by_user = rng.random() < 0.6
    tools = of_user if by_user else agents
    name = rng.choice([*tools])
    return by_user, name, _damaged(rng, dict(tools[name]))


DATES = ("11/14/2025", "10/01/2025", "x")
ODD = (None, "", "x", 0, -1, 3, 2.5, True, [], "0")
PATTERNS = (
    "dispute|chargeback",
    "close.*credit card",
    "APY",
    "(",
    "  ",
    "no such words",
    "",
    "Fee$",
)


def banking(
    rng: Random, tables: Mapping[str, Any], user_id: str
) -> tuple[bool, str, dict[str, Any]]:
    """Return whether the user calls, the tool, and its arguments."""
    user, manuals = tables["users"][user_id], tables["manuals"]
    reads = {
        "get_user_information_by_id": {"user_id": _unless(rng, 0.2, user_id, "x", 'a"b')},
        "get_user_information_by_name": {"customer_name": _unless(rng, 0.2, user["name"], "x")},
        "get_user_information_by_email": {"email": user["email"]},
        "change_user_email": {"user_id": _unless(rng, 0.2, user_id, "x"), "new_email": "a@b.c"},
        "get_referrals_by_user": {"user_id": user_id},
        "get_credit_card_transactions_by_user": {"user_id": user_id},
        "get_credit_card_accounts_by_user": {"user_id": user_id},
        "get_current_time": {},
        "list_discoverable_agent_tools": {},
        "log_verification": {
            **{key: user.get(key, "") for key in ("name", "address", "email", "phone_number")},
            "user_id": user_id,
            "date_of_birth": user["date_of_birth"],
            "time_verified": "2025-11-14 03:40:00 EST",
        },
        "transfer_to_human_agents": {
            "summary": "x",
            **_unless(rng, 0.5, {}, {"reason": "x"}, {"reason": "other"}),
        },
        "grep": {"pattern": rng.choice(PATTERNS)},
        "no_such_tool": {},
    }
    own = {
        "apply_for_credit_card": {
            "card_type": _unless(rng, 0.2, "EcoCard", "Gold Rewards Card", "x"),
            "customer_name": user["name"],
            "annual_income": rng.choice([50000, 60000.5]),
            **_unless(rng, 0.5, {}, {"rho_bank_subscription": True}),
        },
        "submit_referral": {"user_id": user_id, "account_type": rng.choice(["EcoCard", "Blue"])},
        "submit_transaction": {
            "user_id": user_id,
            "credit_card_type": _unless(rng, 0.2, "Silver Rewards Card", "EcoCard", "x"),
            "merchant_name": "Shop",
            "amount": rng.choice([12, 99.99]),
            "category": rng.choice(["Travel", "Green", "Dining"]),
        },
        "request_human_agent_transfer": {},
        "list_discoverable_user_tools": {},
        "no_such_tool": {},
    }
    by_user, is_hidden = rng.random() < 0.2, rng.random() < 0.75
    if not is_hidden:
        name, kwargs = rng.choice([*(own if by_user else reads).items()])
        return by_user, name, dict(kwargs) if name == "grep" else _damaged(rng, dict(kwargs))
    side = "user" if by_user else "assistant"
    names = [name for name, of in manuals.items() if of["side"] == side]
    tool = _unless(rng, 0.03, rng.choice(names), "no_such_tool_0000")
    given = _hidden(rng, tables, user_id, manuals.get(tool, {"parameters": {}})["parameters"])
    if "requested_increase_amount" in given:  # 1.0.1 takes whole dollars only
        given["requested_increase_amount"] = rng.choice([0, 500, -10, 2500])
    text = _unless(rng, 0.02, json.dumps(given), "{", "[1]", "3")
    key = "discoverable_tool_name" if by_user else "agent_tool_name"
    return (
        by_user,
        f"call_discoverable_{'user' if by_user else 'agent'}_tool",
        {
            key: tool,
            **_unless(rng, 0.02, {"arguments": text}, {}, {"arguments": given}),
        },
    )


def _hidden(
    rng: Random, tables: Mapping[str, Any], user_id: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments of a tool that documents name: mostly sensible, about one user."""

    def of_user(table: str) -> list[str]:
        rows = tables[table]
        mine = [key for key, row in rows.items() if row.get("user_id") == user_id]
        return _unless(rng, 0.1, mine, [*rows], ["x"]) or [*rows]

    cards = [*tables["debit_cards"]] if rng.random() < 0.5 else of_user("debit_cards")
    card_id = rng.choice(cards)
    card = tables["debit_cards"].get(card_id, {"account_id": "x", "last_4_digits": "1234"})
    account_id = rng.choice([card["account_id"], *of_user("accounts")])
    account = tables["accounts"].get(account_id, {"user_id": user_id})
    known = {
        "user_id": rng.choice([user_id, account["user_id"]]),
        "card_id": card_id,
        "last_4_digits": _unless(rng, 0.2, card["last_4_digits"], "12", "0000"),
        "account_id": account_id,
        "checking_account_id": account_id,
        "source_account_id": account_id,
        "destination_account_id": rng.choice([*tables["accounts"]]),
        "credit_card_account_id": rng.choice(of_user("credit_card_accounts")),
        "transaction_id": rng.choice(
            [
                *of_user("credit_card_transaction_history"),
                rng.choice([*tables["bank_account_transaction_history"]]),
            ]
        ),
        "cvv": _unless(rng, 0.1, "123", "12", "abc"),
        **{
            key: _unless(rng, 0.2, "8306", "1234", "1111", "12", "4321")
            for key in ("pin", "new_pin", "current_pin")
        },
    }
    given = {name: _sensible(rng, name, of, known) for name, of in parameters.items()}
    if given and rng.random() < 0.1:
        given[rng.choice([*given])] = rng.choice(ODD)
    return _damaged(rng, given)


def _sensible(rng: Random, name: str, of: Mapping[str, Any], known: Mapping[str, Any]) -> Any:
    options = re.findall(r"'(\w+)'", of["description"]) or re.findall(
        r"\b[A-Z]{4,}\b|\b[a-z]+_[a-z_]+\b", of["description"]
    )
    if name in known:
        return known[name]
    if of["type"] == "boolean":
        return rng.random() < 0.5
    if of["type"] in ("number", "integer"):
        return rng.choice([0, 5, 10, 25.5, 100, 300, 750, 4000])
    if "date" in name:
        return rng.choice(DATES)
    return rng.choice(options) if options else rng.choice(["EcoCard", "1 Elm", "Blue Account"])
