"""Read tasks in the format of tau2-bench.

A task that names a tool, a function or a criterion which its domain does not have is refused
instead of scored in part. `NL_ASSERTION` without assertions counts as 1, as in tau2-bench's
evaluator; with assertions a model judges them (`judge`).

Source: tau2-bench (arXiv:2506.07982), its task files.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from skillwright.core import DataError
from skillwright.worlds.tau_bench.tau_core.domain import Domain

MARK: Final = "evaluation_criteria"
"""Keys of that format that tau-bench does not have."""

_GRADED: Final = ("DB", "COMMUNICATE")
_KNOWN: Final = (*_GRADED, "ACTION", "ENV_ASSERTION", "NL_ASSERTION")
_DATA: Final = "initialization_data"
_NEW_READ: Final = "get_item_details"  # tau-bench lacks it, and no read is required
_KIND: Final = re.compile(r"\[(\w+)\]")
_PARTS: Final = (
    ("persona", "Who you are: "),
    ("reason_for_call", ""),
    ("known_info", ""),
    ("unknown_info", ""),
    ("task_instructions", ""),
)


def from_tau2(entry: Mapping[str, Any], domain: Domain, where: str) -> dict[str, Any]:
    """Convert a task of tau2-bench into tau-bench's format, with the parts of its reward.

    Args:
        entry: The task, as in its file.
        domain: Whose tools and functions it may name.
        where: The file and the task, for messages.

    Raises:
        DataError: Its criteria are unsupported, or it is not a task of tau2-bench.
    """
    try:
        criteria = entry[MARK]
        reasons = [*_unmapped(entry, criteria, domain)]
        if not reasons:
            return _mapped(entry, criteria)
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{where} is no whole task of tau2-bench: {error!r}") from error
    raise DataError(
        f"{where} is of tau2-bench and does not map: {'; '.join(reasons)}. Leave it out of the file"
    )


def _mapped(entry: Mapping[str, Any], criteria: Mapping[str, Any]) -> dict[str, Any]:
    actions = [
        {
            "name": one["name"],
            "kwargs": one.get("arguments") or {},
            "by_user": one.get("requestor") == "user",
            "compared": one.get("compare_args"),
        }
        for one in criteria.get("actions") or ()
    ]
    callers = [one["kwargs"]["user_id"] for one in actions if "user_id" in one["kwargs"]]
    basis, number = _basis(criteria), str(entry.get("id", ""))
    kind = _KIND.match(number)
    return {
        "user_id": callers[0] if callers else number,
        "instruction": _instruction(entry["user_scenario"]),
        "actions": actions,
        "outputs": _part(criteria, "communicate_info", "COMMUNICATE"),
        "basis": tuple(basis),
        "initial": [_function(one) for one in _initial(entry)],
        "state": [_function(one) for one in _part(criteria, "env_assertions", "ENV_ASSERTION")],
        "assertions": tuple(_part(criteria, "nl_assertions", "NL_ASSERTION")),
        "kind": kind[1] if kind else "",
        "documents": tuple(entry.get("required_documents") or ()),
        "user_tools": None if (shown := entry.get("user_tools")) is None else tuple(shown),
    }


def _basis(criteria: Mapping[str, Any]) -> list[str]:
    """Return the reward's criteria; tau2-bench's default is two of them."""
    basis = criteria.get("reward_basis")
    return list(_GRADED) if basis is None else list(basis)


def _part(criteria: Mapping[str, Any], name: str, part: str) -> list[Any]:
    """Return the criteria of a part of the reward, none if the reward does not depend on it."""
    return list(criteria.get(name) or ()) if part in _basis(criteria) else []


def _initial(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the functions that make the initial state, first the one that adds its data."""
    state = entry.get("initial_state") or {}
    data = (state.get(_DATA) or {}).get("agent_data")
    added = {"env_type": "assistant", "func_name": _DATA, "arguments": {"tables": data}}
    return [*([added] if data else ()), *(state.get("initialization_actions") or ())]


def _function(one: Mapping[str, Any]) -> dict[str, Any]:
    kwargs, expected = one.get("arguments") or {}, one.get("assert_value", True)
    return {
        "side": one["env_type"],
        "name": one["func_name"],
        "kwargs": kwargs,
        "expected": expected,
    }


def _unmapped(
    entry: Mapping[str, Any], criteria: Mapping[str, Any], domain: Domain
) -> Iterator[str]:
    if others := [one for one in _basis(criteria) if one not in _KNOWN]:
        yield f"its reward depends on {', '.join(map(str, others))}, which nothing here judges"
    initial = entry.get("initial_state") or {}
    known = {"initialization_actions", *domain.functions.get("assistant", ())}
    begun = [name for name, value in initial.items() if value and name not in known]
    if begun:
        yield f"it begins with {', '.join(begun)}, and here every task begins with the data"
    if entry.get("user_tools") and not domain.user_tools:
        yield "its user has tools"
    for one in (*_initial(entry), *_part(criteria, "env_assertions", "ENV_ASSERTION")):
        tools = domain.user_tools if one["env_type"] == "user" else domain.tools
        if one["func_name"] not in {**tools, **domain.functions.get(one["env_type"], {})}:
            yield f"it calls {one['func_name']}, which is no function of domain {domain.name}"
    for action in criteria.get("actions") or ():
        by_user = action.get("requestor", "assistant") != "assistant"
        tools = domain.user_tools if by_user else domain.tools
        if action["name"] not in {*tools, _NEW_READ}:
            who = "its user" if by_user else "it"
            yield f"{who} calls {action['name']}, which is no tool of domain {domain.name}"


def _instruction(scenario: Mapping[str, Any]) -> str:
    """Return the simulated user's knowledge as one text."""
    given = scenario["instructions"]
    if isinstance(given, str):
        given = {"task_instructions": given}
    known = {**given, "persona": scenario.get("persona")}
    parts = [f"{before}{known[name]}".strip() for name, before in _PARTS if known.get(name)]
    return "\n\n".join(parts)
