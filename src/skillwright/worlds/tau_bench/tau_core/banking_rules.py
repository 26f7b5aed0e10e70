"""Computations of the bank's tools: balances, fees, limits, and who may open an account.

Source: tau2-bench (arXiv:2506.07982), the tools of its domain banking_knowledge.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Final

from skillwright.worlds.tau_bench.tau_core.database import Database, freeze
from skillwright.worlds.tau_bench.tau_core.domain import Record

WORDS: Final = freeze(
    json.loads(Path(__file__).with_name("banking_tools.json").read_text(encoding="utf-8"))
)
"""Steps by tool, default arguments, and the bank's fees, limits and rates."""

_NOW: Final = datetime(2025, 11, 14, 3, 40)  # noqa: DTZ001 - the bank's day has no time zone
_IN_DISPUTE: Final = ("SUBMITTED", "UNDER_REVIEW", "PENDING")
_ON_ITS_WAY: Final = ("PENDING", "PROCESSING", "SHIPPED")
_OVERDUE: Final = ("PAST_DUE", "DELINQUENT", "COLLECTIONS", "CLOSED")
_OPEN: Final = ("OPEN", "ACTIVE")


def seeded_id(seed: str, length: int = 16) -> str:
    """Return the id that the original makes from a text, in hexadecimal digits."""
    return hashlib.sha256(seed.encode()).hexdigest()[:length]


def _of(db: Database, table: str, field: str, value: Any) -> list[Record]:
    return [row for _, row in db.rows(table) if row.get(field) == value]


def _amount(value: Any) -> float:
    if isinstance(value, str):
        return float(value.replace("$", "").replace(",", ""))
    return float(value) if isinstance(value, int | float) else 0.0


def _balance(db: Database, account: Record) -> float:
    return _amount(account.get("current_holdings", account.get("balance", 0)))


def _number_or_zero(value: Any, *, removed: str) -> float:
    text = str(value)
    for sign in removed:
        text = text.replace(sign, "")
    try:
        return float(text)
    except ValueError:
        return 0.0


def _fee_or_zero(db: Database, fee: Any) -> float:
    try:
        return float(fee or 0)
    except (TypeError, ValueError):
        return 0


def _days_open(db: Database, date: Any, unknown: int = 0) -> int:
    """Return the age of an account in days."""
    try:
        return (_NOW - datetime.strptime(date or "", "%m/%d/%Y")).days  # noqa: DTZ007 - as above
    except ValueError:
        return unknown


def _may_open(db: Database, user_id: Any, account_type: str) -> bool:
    """Tell whether a customer's accounts allow another one of a type."""
    owned = _of(db, "accounts", "user_id", user_id)

    def has(*kinds: str, days: int | None = None) -> bool:
        return any(
            one.get("account_type", one.get("class", "")) in kinds
            and one.get("status") in _OPEN
            and (days is None or _days_open(db, one.get("date_opened")) >= days)
            for one in owned
        )

    match account_type:
        case "savings":
            return has("checking", "personal_checking", days=14)
        case "business_checking":
            is_closed = any(one.get("status") == "CLOSED" for one in owned)
            return not is_closed and has("checking", "personal_checking")
        case "business_savings":
            is_overdrawn = any(_balance(db, one) < 0 for one in owned)
            return not is_overdrawn and has("business_checking", days=30)
    return True


def _closing_fee(db: Database, account: Record, is_waived: Any) -> float:
    """Return the fee for closing an account soon after it was opened, 0 if none is due."""
    fees = WORDS["closing_fee"].get(account.get("class", ""), {})
    fee, window = fees.get(account.get("level", ""), (0, 0))
    age = _days_open(db, account.get("date_opened"), unknown=window)
    return 0.0 if is_waived or age >= window else fee


def _limit_is_blocked(db: Database, account: Record, account_id: Any, user_id: Any) -> bool:
    disputes = _of(db, "transaction_disputes", "user_id", user_id)
    orders = _of(db, "credit_card_orders", "credit_card_account_id", account_id)
    return (
        any(one.get("status") in _IN_DISPUTE for one in disputes)
        or any(one.get("status") in _ON_ITS_WAY for one in orders)
        or account.get("account_status", "").upper() in _OVERDUE
    )


def _payments(db: Database, account_id: Any, months: int) -> list[Record]:
    paid = _of(db, "payment_history", "credit_card_account_id", account_id)
    return sorted(paid, key=lambda one: one.get("payment_date") or "", reverse=True)[:months]


def _on_time(db: Database, payments: list[Record]) -> int:
    late = (at for at, one in enumerate(payments) if one.get("status") != "ON_TIME")
    return next(late, len(payments))


def _other_active(db: Database, card_id: Any, account_id: Any) -> list[str]:
    return [
        key
        for key, card in db.rows("debit_cards")
        if key != card_id
        and card.get("account_id") == account_id
        and card.get("status") == "ACTIVE"
    ]


def _cards(db: Database, account_id: Any) -> list[dict[str, Any]]:
    """Return an account's cards as agents see them, the newest first."""
    cards = []
    for card_id, record in db.rows("debit_cards"):
        if record.get("account_id") == account_id:
            card = {"card_id": card_id, **record}
            if "last_4_digits" in card and "card_number_last_4" not in card:
                card["card_number_last_4"] = card.pop("last_4_digits")
            named = next((one for one in ("issue_date", "created_date") if one in card), None)
            if named and "date_issued" not in card:
                card["date_issued"] = card.pop(named)
            cards.append(card)
    return sorted(cards, key=lambda one: one.get("date_issued") or "", reverse=True)


def _issue_reason(db: Database, account_id: Any) -> str:
    """Return why an account gets a new card."""
    cards = _of(db, "debit_cards", "account_id", account_id)
    closed = next((one for one in cards if one.get("status") == "CLOSED"), None)
    if closed is None:
        return "first_card" if cards else "new_account"
    why = closed.get("closure_reason", "first_card")
    known = {"lost": "lost", "stolen": "stolen", "fraud": "fraud", "fraud_suspected": "fraud"}
    return known.get(why, "first_card")


def _fees(db: Database, sign: str, delivery: float, design: float, excess: float) -> str:
    parts = [
        f"Delivery{sign}{delivery}" if delivery > 0 else "",
        f"Design{sign}{design}" if design > 0 else "",
        f"Excess Replacement{sign}{excess:.0f}" if excess > 0 else "",
    ]
    return ", ".join(filter(None, parts))


def _digits_of(db: Database, seed: str, length: int, count: int) -> str:
    digits = "".join(filter(str.isdigit, seeded_id(seed, length)))
    return digits[:count].zfill(count)


def _verification_id(db: Database, user_id: Any, time: Any) -> str:
    return f"{user_id}_{time.replace(' ', '_').replace(':', '').replace('-', '')}"


def _reward_rate(db: Database, card_type: str, category: Any) -> float:
    rates: Mapping[str, float] = WORDS["reward_rate"][card_type]
    return rates.get(category, rates[""])


RULES: Final[Mapping[str, Callable[..., Any]]] = {
    "atm_limit": lambda db, level: WORDS["atm_limit"].get((level or "").lower()),
    "balance": _balance,
    "cards": _cards,
    "closing_fee": _closing_fee,
    "comma": lambda db, names: ", ".join(names),
    "days_open": _days_open,
    "default": lambda db, value, other=None: other if value is None else value,
    "digits_of": _digits_of,
    "either": lambda db, is_so, value: value if is_so else None,
    "entry": lambda db, table, name, other=None: WORDS[table].get(name, other),
    "fee_id": lambda db, order_id: f"btxn_dcfee_{order_id[-8:]}",
    "fee_or_zero": _fee_or_zero,
    "fees": _fees,
    "float": lambda db, value: float(value),
    "half_more": lambda db, value: int(value * 1.5),
    "has_status": lambda db, table, account_id, status: any(
        one.get("status") == status for one in _of(db, table, "account_id", account_id)
    ),
    "int": lambda db, value: int(value),
    "is_own_machine": lambda db, text: any(
        name in (text or "").upper() for name in ("RHO-BANK", "RHOBANK")
    ),
    "is_teen": lambda db, level: "light green" in (level or "").lower(),
    "issue_reason": _issue_reason,
    "json": lambda db, value: json.dumps(value, indent=2),
    "limit_is_blocked": _limit_is_blocked,
    "lower": lambda db, text: (text or "").lower(),
    "may_open": _may_open,
    "minus": lambda db, value, less: value - less,
    "money": lambda db, value: _number_or_zero(value, removed="$,"),
    "next_number": lambda db, table: len(db.rows(table)) + 1,
    "on_time": _on_time,
    "other_active": _other_active,
    "payments": _payments,
    "plain_number": lambda db, value: _number_or_zero(value, removed=","),
    "plus": lambda db, *values: reduce(add, values),
    "points": lambda db, amount, rate: int(amount * rate),
    "reward_rate": _reward_rate,
    "rounded_minus": lambda db, value, less: round(value - less, 4),
    "size": lambda db, value: abs(value or 0),
    "text": lambda db, value: value,
    "upper": lambda db, text: (text or "").upper(),
    "verification_id": _verification_id,
    "yes_or_no": lambda db, is_so: "Yes" if is_so else "No",
}
"""Functions by name; each takes the database and values."""
