"""The telecom domain of tau2-bench: a carrier's records, and the agent's tools on them.

The user has a phone with tools of its own (`telecom_phone`). After every call the two sides are
brought in line: the phone learns whether its line is active and may roam, whether its data is used
up, and what bill it is asked to pay; a bill that it paid is paid.

Source: tau2-bench (arXiv:2506.07982), telecom domain. Its day is 2025-02-25. Numbers in an answer
that is made for a tool, not a record, are texts, as there.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from skillwright.core import DataError
from skillwright.worlds.tau_bench.tau_core.database import Database
from skillwright.worlds.tau_bench.tau_core.domain import UPSTREAM, Domain, Record, Records, Tool
from skillwright.worlds.tau_bench.tau_core.schemas import PHONE_SCHEMAS, TELECOM_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.telecom_phone import (
    PHONE,
    PHONE_FUNCTIONS,
    PHONE_TOOLS,
    WORDS,
    check_phone,
    set_surroundings,
    surroundings,
)
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER, Refused, known

_TODAY: Final = "2025-02-25"
_CYCLE_END: Final = "2025-02-28"
_TABLE_BY_LETTER: Final = {
    "L": "lines",
    "D": "devices",
    "B": "bills",
    "C": "customers",
    "P": "plans",
}
_NEAR: Final = 1e-6


def _one(db: Database, table: str, key: Any) -> Record:
    found = db.find(table, key) if isinstance(key, str) else None
    return known(found, f"{table[:-1].capitalize()} with ID {key}")


def _line_of(db: Database, customer_id: Any, line_id: Any) -> Record:
    if line_id not in _one(db, "customers", customer_id)["line_ids"]:
        raise Refused(f"Line {line_id} not found for customer {customer_id}")
    return _one(db, "lines", line_id)


def _customer_of_phone(db: Database, phone_number: Any) -> Record:
    for key in db.tables.records["customers"]:
        customer = _one(db, "customers", key)
        numbers = (_one(db, "lines", line)["phone_number"] for line in customer["line_ids"])
        if customer["phone_number"] == phone_number or phone_number in numbers:
            return customer
    raise Refused(f"Customer with phone number {phone_number} not found")


def _bills(db: Database, customer: Record, status: str) -> list[Record]:
    bills = (_one(db, "bills", bill_id) for bill_id in customer["bill_ids"])
    return [bill for bill in bills if bill["status"] == status]


def _change(db: Database, table: str, record: Record, **changes: Any) -> Record:
    changed = {**record, **changes}
    db.put(table, record[f"{table[:-1]}_id"], changed)
    return changed


def _add_bill(db: Database, customer: Record, bill_id: str, kind: Record) -> Record:
    """Give a customer a new bill without items."""
    bill = {"bill_id": bill_id, "customer_id": customer["customer_id"], **kind}
    db.put("bills", bill_id, bill)
    _change(db, "customers", customer, bill_ids=(*customer["bill_ids"], bill_id))
    return bill


def _charge(db: Database, bill: Record, amount: Any, description: str) -> None:
    item = {
        "description": description,
        "amount": float(amount),
        "date": _TODAY,
        "item_type": "Credit" if amount < 0 else "Charge",
    }
    due = bill["total_due"] + amount
    _change(db, "bills", bill, total_due=due, line_items=(*bill["line_items"], item))


def _get_customer_by_name(db: Database, full_name: Any, dob: Any) -> str:
    customers = (_one(db, "customers", key) for key in db.tables.records["customers"])
    wanted = full_name.lower()
    return json.dumps(
        [
            one
            for one in customers
            if one["full_name"].lower() == wanted and one["date_of_birth"] == dob
        ]
    )


def _get_details_by_id(db: Database, id: Any) -> str:
    table = next((of for letter, of in _TABLE_BY_LETTER.items() if id.startswith(letter)), None)
    if table is None:
        raise Refused(f"Unknown ID format or type: {id}")
    return json.dumps(_one(db, table, id))


def _suspend_line(db: Database, customer_id: Any, line_id: Any, reason: Any) -> str:
    line = _line_of(db, customer_id, line_id)
    if line["status"] != "Active":
        raise Refused("Line must be active to suspend")
    line = _change(db, "lines", line, status="Suspended", suspension_start_date=_TODAY)
    said = "Line suspended successfully. $5/month holding fee will apply."
    return json.dumps({"message": said, "line": line})


def _resume_line(db: Database, customer_id: Any, line_id: Any) -> str:
    line = _line_of(db, customer_id, line_id)
    if line["status"] not in ("Suspended", "Pending Activation"):
        raise Refused("Line must be suspended to resume")
    line = _change(db, "lines", line, status="Active", suspension_start_date=None)
    return json.dumps({"message": "Line resumed successfully", "line": line})


def _get_bills_for_customer(db: Database, customer_id: Any, limit: Any = 12) -> str:
    bills = [_one(db, "bills", key) for key in _one(db, "customers", customer_id)["bill_ids"]]
    return json.dumps(sorted(bills, key=lambda bill: str(bill["issue_date"]), reverse=True)[:limit])


def _send_payment_request(db: Database, customer_id: Any, bill_id: Any) -> str:
    customer = _one(db, "customers", customer_id)
    if _bills(db, customer, "Awaiting Payment"):
        raise Refused("A bill is already awaiting payment for this customer")
    if bill_id not in customer["bill_ids"]:
        raise Refused(f"Bill {bill_id} not found for customer {customer_id}")
    _change(db, "bills", _one(db, "bills", bill_id), status="Awaiting Payment")
    return f"Payment request sent to the customer for bill {bill_id}"


def _get_data_usage(db: Database, customer_id: Any, line_id: Any) -> str:
    line = _line_of(db, customer_id, line_id)
    usage = {
        "line_id": line_id,
        "data_used_gb": str(line["data_used_gb"]),
        "data_limit_gb": str(_one(db, "plans", line["plan_id"])["data_limit_gb"]),
        "data_refueling_gb": str(line["data_refueling_gb"]),
        "cycle_end_date": _CYCLE_END,
    }
    return json.dumps(usage)


def _set_roaming(enabled: bool) -> Tool:
    word = "enabled" if enabled else "disabled"

    def tool(db: Database, customer_id: Any, line_id: Any) -> str:
        line = _line_of(db, customer_id, line_id)
        if line["roaming_enabled"] == enabled:
            return f"Roaming was already {word}"
        _change(db, "lines", line, roaming_enabled=enabled)
        return f"Roaming {word} successfully"

    return tool


def _refuel_data(db: Database, customer_id: Any, line_id: Any, gb_amount: Any) -> str:
    line = _line_of(db, customer_id, line_id)
    if gb_amount <= 0:
        raise Refused("Refuel amount must be positive")
    price = _one(db, "plans", line["plan_id"])["data_refueling_price_per_gb"]
    charge = gb_amount * price
    line = _change(db, "lines", line, data_refueling_gb=line["data_refueling_gb"] + gb_amount)
    customer = _one(db, "customers", customer_id)
    drafts = _bills(db, customer, "Draft")
    bill = (
        drafts[0]
        if drafts
        else _add_bill(db, customer, _new_bill_id(customer), WORDS["bills"]["next"])
    )
    _charge(db, bill, charge, f"Data refueling: {gb_amount} GB at ${price}/GB")
    said = f"Successfully added {gb_amount} GB of data for line {line_id} for ${charge:.2f}"
    new = str(line["data_refueling_gb"])
    return json.dumps({"message": said, "new_data_refueling_gb": new, "charge": str(charge)})


def _new_bill_id(customer: Record) -> str:
    """Make an id; the original draws one at random, and a replay has to find the same."""
    made_of = f"{customer['customer_id']} {len(customer['bill_ids'])}"
    return f"B{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"


# Functions that make a task's initial state.


def _set_data_usage(db: Database, customer_id: Any, line_id: Any, data_used_gb: Any) -> str:
    _change(db, "lines", _line_of(db, customer_id, line_id), data_used_gb=data_used_gb)
    return f"Data usage set to {data_used_gb} GB for line {line_id}"


def _suspend_line_for_overdue_bill(
    db: Database, customer_id: Any, line_id: Any, new_bill_id: Any, contract_ended: Any
) -> str:
    line = _one(db, "lines", line_id)
    if line["status"] != "Active":
        raise Refused("Line must be active to suspend for unpaid bill")
    amount = _one(db, "plans", line["plan_id"])["price_per_month"]
    if amount <= 0:
        raise Refused("Amount must be positive for overdue bill")
    customer = _one(db, "customers", customer_id)
    if _bills(db, customer, "Overdue"):
        raise Refused("Customer already has an overdue bill")
    bill = _add_bill(db, customer, new_bill_id, WORDS["bills"]["overdue"])
    _charge(db, bill, amount, f"Charge for line {line_id}")
    ended = {"contract_end_date": "2025-01-31"} if contract_ended else {}
    _change(db, "lines", line, status="Suspended", suspension_start_date=_TODAY, **ended)
    return (
        f"Line {line_id} suspended for unpaid bill {new_bill_id}. Contract ended: {contract_ended}"
    )


# Assertions about a final state.


def _assert_data_refueling_amount(
    db: Database, customer_id: Any, line_id: Any, expected_amount: Any
) -> bool:
    refueled = _line_of(db, customer_id, line_id)["data_refueling_gb"]
    return bool(abs(refueled - expected_amount) < _NEAR)


def _assert_line_status(db: Database, customer_id: Any, line_id: Any, expected_status: Any) -> bool:
    return bool(_line_of(db, customer_id, line_id)["status"] == expected_status)


def _assert_overdue_bill_exists(db: Database, customer_id: Any, overdue_bill_id: Any) -> bool:
    if overdue_bill_id not in _one(db, "customers", customer_id)["bill_ids"]:
        raise Refused(f"Overdue bill {overdue_bill_id} not found")
    if _one(db, "bills", overdue_bill_id)["status"] != "Overdue":
        raise Refused(f"Overdue bill {overdue_bill_id} is not overdue")
    return True


def _assert_no_overdue_bill(db: Database, overdue_bill_id: Any) -> bool:
    bill = db.find("bills", overdue_bill_id)
    return bill is None or bill["status"] == "Paid"


def _sync(db: Database) -> None:
    """Bring the phone in line with the carrier's records, and the paid bill with the phone."""
    around = surroundings(db)
    number = around["phone_number"]
    if number is None:
        return
    lines = (_one(db, "lines", key) for key in db.tables.records["lines"])
    found = next((one for one in lines if one["phone_number"] == number), None)
    line = known(found, f"Line with phone number {number}")
    limit = _one(db, "plans", line["plan_id"])["data_limit_gb"] + line["data_refueling_gb"]
    asked = around["payment_request"]
    if asked is not None and asked["paid"]:
        _change(db, "bills", _one(db, "bills", asked["bill_id"]), status="Paid")
        asked = None
    if asked is None:
        waiting = _bills(db, _customer_of_phone(db, number), "Awaiting Payment")
        if waiting:
            bill_id, due = waiting[0]["bill_id"], waiting[0]["total_due"]
            asked = {"bill_id": bill_id, "amount_due": due, "paid": False}
    seen = {
        "line_active": line["status"] == "Active",
        "roaming_allowed": line["roaming_enabled"],
        "mobile_data_usage_exceeded": line["data_used_gb"] >= limit,
        "payment_request": asked,
    }
    if any(around[name] != value for name, value in seen.items()):
        set_surroundings(db, **seen)


def _check(records: Records) -> None:
    """Refuse tables in which a record names another that is not there."""
    check_phone(records[PHONE])
    named = {"line_ids": "lines", "bill_ids": "bills"}
    for key, customer in records["customers"].items():
        for field, table in named.items():
            if lost := [one for one in customer[field] if one not in records[table]]:
                raise DataError(f"customers: {key!r} names {table} that are not there: {lost}")
    for key, line in records["lines"].items():
        if line["plan_id"] not in records["plans"]:
            raise DataError(f"lines: {key!r} has the plan {line['plan_id']!r}, which is not there")


_TOOLS: Final[Mapping[str, Tool]] = {
    TRANSFER: lambda db, summary: "Transfer successful",
    "disable_roaming": _set_roaming(False),
    "enable_roaming": _set_roaming(True),
    "get_bills_for_customer": _get_bills_for_customer,
    "get_customer_by_id": lambda db, customer_id: json.dumps(_one(db, "customers", customer_id)),
    "get_customer_by_name": _get_customer_by_name,
    "get_customer_by_phone": lambda db, phone_number: json.dumps(
        _customer_of_phone(db, phone_number)
    ),
    "get_data_usage": _get_data_usage,
    "get_details_by_id": _get_details_by_id,
    "refuel_data": _refuel_data,
    "resume_line": _resume_line,
    "send_payment_request": _send_payment_request,
    "suspend_line": _suspend_line,
}

TELECOM: Final = Domain(
    name="tau3_telecom",
    place="telecom company",
    tables={
        "plans": dict.fromkeys(
            ("data_limit_gb", "data_refueling_price_per_gb", "price_per_month"), float
        ),
        "customers": {
            **dict.fromkeys(("phone_number", "full_name", "date_of_birth"), str),
            **dict.fromkeys(("line_ids", "bill_ids"), list),
        },
        "lines": {
            "phone_number": str,
            "status": str,
            "plan_id": str,
            "data_used_gb": float,
            "data_refueling_gb": float,
            "roaming_enabled": bool,
        },
        "bills": {"status": str, "issue_date": str, "total_due": float, "line_items": list},
        "devices": {"device_id": str},
        PHONE: {},
    },
    index=lambda records: None,
    tools=_TOOLS,
    schemas=TELECOM_SCHEMAS,
    task_types={
        "mobile_data_issue": "mobile_data",
        "mms_issue": "mms",
        "service_issue": "service",
    },
    original="tau2-bench 1.0.1 (tau3) telecom",
    upstream=UPSTREAM["tau3_telecom"],
    data_variable="SKILLWRIGHT_TAU3_TELECOM_DATA",
    fetch_command="skillwright data tau-bench --tasks tau3 --domain telecom",
    longest_observation=3_000,
    toolkit="TelecomTools",
    user_tools=PHONE_TOOLS,
    user_schemas=PHONE_SCHEMAS,
    functions={
        "assistant": {
            "set_data_usage": _set_data_usage,
            "suspend_line_for_overdue_bill": _suspend_line_for_overdue_bill,
            "assert_data_refueling_amount": _assert_data_refueling_amount,
            "assert_line_status": _assert_line_status,
            "assert_no_overdue_bill": _assert_no_overdue_bill,
            "assert_overdue_bill_exists": _assert_overdue_bill_exists,
        },
        "user": PHONE_FUNCTIONS,
    },
    sync=_sync,
    check=_check,
)
