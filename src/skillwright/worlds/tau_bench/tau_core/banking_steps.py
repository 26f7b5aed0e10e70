"""Run the tools of the banking domain, which are steps in ``banking_tools.json``.

A step is a list of its kind and arguments; README.md has the kinds. A tool's arguments, and what
steps find, are values by name; ``card.status`` is a field of one, ``None`` where it is missing.

Source: tau2-bench (arXiv:2506.07982), the tools of its domain banking_knowledge.
"""

import json
import operator
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwright.worlds.tau_bench.tau_core.banking_rules import RULES, WORDS, seeded_id
from skillwright.worlds.tau_bench.tau_core.database import Database, freeze
from skillwright.worlds.tau_bench.tau_core.domain import Record

TODAY: Final = "11/14/2025"

_ORDERED: Final = {"above": operator.gt, "below": operator.lt, "at_most": operator.le}
_OPPOSITE: Final = {"no": "yes", "is_not": "is", "differs": "same"}


class _Ended(Exception):
    """A step ends the tool; the message is its answer."""


def run_tool(db: Database, tool: str, given: Mapping[str, Any]) -> str:
    """Run a tool's steps with its arguments, and return the answer."""
    call = _Call(db, tool, given)
    try:
        call.run(tool)
    except _Ended as end:
        return str(end)
    return "\n".join(call.said)


def listed(db: Database, table: str, field: str = "", value: Any = "", newest: str = "") -> str:
    """List the records whose field has a value, as the original shows them.

    ``newest`` is a field with a date such as 11/14/2025; the latest record comes first.
    """
    wanted = {}
    if field:
        try:
            wanted = json.loads(f'{{"{field}": "{value}"}}')
        except ValueError as error:
            return f"Error: Invalid JSON: {error}"
    found = [
        (key, row)
        for key, row in db.rows(table)
        if all(row.get(name) == wanted[name] for name in wanted)
    ]
    if not found:
        return f"No records found in '{table}'."
    if newest:
        found.sort(key=lambda one: _sortable(one[1].get(newest)), reverse=True)
    lines = [f"Found {len(found)} record(s) in '{table}':\n"]
    for number, (key, row) in enumerate(found, 1):
        lines += [f"{number}. Record ID: {key}", *(f"   {n}: {v}" for n, v in row.items()), ""]
    return "\n".join(lines)


def _sortable(date: Any) -> str:
    day, _, time = str(date).partition(" ")
    return f"{day[6:]}/{day[:5]} {time}"


class _Call(string.Formatter):
    """One call of a tool: its values by name, and its answer so far."""

    def __init__(self, db: Database, tool: str, given: Mapping[str, Any]) -> None:
        self.db = db
        named = {"tool": tool, "today": TODAY, "arguments": json.dumps(given, indent=2)}
        self.values: dict[str, Any] = {**WORDS["defaults"].get(tool, {}), **given, **named}
        self.said: list[str] = []

    def run(self, name: str) -> None:
        self._steps(WORDS["steps"][name])

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        return self._value(field_name), field_name

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "t":
            return value.replace("_", " ").title()
        return super().convert_field(value, conversion)

    def _value(self, path: Any) -> Any:
        """Return a value by its path; a number, and a text after ', stand for themselves."""
        if not isinstance(path, str):
            return path
        if path.startswith("'"):
            return self.format(path[1:])
        name, *fields = path.split(".")
        value = self.values[name]
        for field in fields:
            value = value.get(field) if isinstance(value, dict) else None
        return value

    def _steps(self, steps: Sequence[Sequence[Any]]) -> None:
        for kind, *arguments in steps:
            getattr(self, f"_{kind}")(*arguments)

    def _end_if(self, wrong: bool, text: str) -> None:
        if wrong:
            raise _Ended(self.format(text))

    def _holds(self, test: Sequence[Any]) -> bool:
        kind, path, *others = test
        value = self._value(path)
        if kind in _ORDERED:
            return bool(_ORDERED[kind](value, self._value(others[0])))
        match _OPPOSITE.get(kind, kind):
            case "yes":
                held = bool(value)
            case "none":
                held = value is None
            case "is":
                held = value in others
            case _:  # same
                held = value == self._value(others[0])
        return held != (kind in _OPPOSITE)

    def _need(self, names: str, text: str) -> None:
        self._end_if(not all(self.values[name] for name in names.split()), text)

    def _given(self, names: str, text: str) -> None:
        self._end_if(any(self.values[name] is None for name in names.split()), text)

    def _choice(self, name: str, options: str, text: str) -> None:
        allowed = options.split("|")
        self.values |= {"options": allowed, "joined": ", ".join(allowed)}
        self._end_if(self.values[name] not in allowed, text)

    def _stop(self, test: Sequence[Any], text: str) -> None:
        self._end_if(self._holds(test), text)

    def _number(self, name: str, text: str, convert: type = float) -> None:
        try:
            self.values[name] = convert(self.values[name])
        except (TypeError, ValueError):
            self._end_if(True, text)

    def _whole(self, name: str, text: str) -> None:
        self._number(name, text, int)

    def _digits(self, name: str, count: int, text: str) -> None:
        value = self.values[name]
        self._end_if(not value.isdigit() or len(value) != count, text)

    def _pin(self, name: str) -> None:
        pin = self.values[name]
        self._digits(name, 4, "Error: PIN must be exactly 4 digits.")
        better = "Please choose a more secure PIN."
        is_run = pin in "0123456789" or pin in "9876543210"
        self._end_if(is_run, f"Error: PIN cannot be sequential (e.g., 1234). {better}")
        same = f"Error: PIN cannot be all the same digit (e.g., 1111). {better}"
        self._end_if(len(set(pin)) == 1, same)

    def _row(self, name: str, table: str, path: str, text: str = "") -> None:
        self.values[name] = found = self.db.find(table, self._value(path))
        self._end_if(found is None and bool(text), text)

    def _query(
        self, table: str, field: str = "", path: str = "''", none: str = "", newest: str = ""
    ) -> None:
        found = listed(self.db, table, field, self._value(path) if field else "", newest)
        self.values["listed"] = none if none and "No records found" in found else found

    def _let(self, name: str, function: str, *paths: Any) -> None:
        self.values[name] = RULES[function](self.db, *map(self._value, paths))

    def _flag(self, name: str, test: Sequence[Any]) -> None:
        self.values[name] = self._holds(test)

    def _id(self, name: str, prefix: str, length: int, seed: str) -> None:
        self.values[name] = f"{prefix}{seeded_id(self.format(seed), length)}"

    def _filled(self, fields: Record) -> dict[str, Any]:
        return {
            self.format(name): self._value(of[1:])
            if str(of).startswith("=")
            else self.format(of)
            if isinstance(of, str)
            else of
            for name, of in fields.items()
        }

    def _add(self, table: str, path: str, record: Record, text: str = "") -> None:
        key = self._value(path)
        is_there = self.db.find(table, key) is not None
        self._end_if(is_there and bool(text), text)
        if not is_there:
            self.db.put(table, key, freeze(self._filled(record)))

    def _set(self, table: str, path: str, fields: Record) -> None:
        self._change(table, [self._value(path)], fields)

    def _all(self, table: str, path: str, fields: Record) -> None:
        self._change(table, self._value(path), fields)

    def _change(self, table: str, keys: Sequence[str], fields: Record) -> None:
        for key in keys:
            changed = {**(self.db.find(table, key) or {}), **self._filled(fields)}
            self.db.put(table, key, freeze(changed))

    def _when(self, test: Sequence[Any], steps: Sequence[Any], others: Sequence[Any] = ()) -> None:
        self._steps(steps if self._holds(test) else others)

    def _run(self, name: str) -> None:
        self.run(name)

    def _say(self, text: str) -> None:
        self.said.append(self.format(text))

    def _each(self, path: str, text: str) -> None:
        for one in self._value(path):
            self.values["one"] = one
            self._say(text)
