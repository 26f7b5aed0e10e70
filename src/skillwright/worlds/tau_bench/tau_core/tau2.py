"""Read tasks in the format of tau2-bench.

Supported criteria are the records that the gold actions change and the texts that the agent has to
say. A task with other criteria, or with another initial state, is refused instead of scored in
part. `NL_ASSERTION` without assertions counts as 1, as in tau2-bench's evaluator.

Source: tau2-bench (arXiv:2506.07982), its task files.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skillwright.core import DataError

MARK: Final = "evaluation_criteria"
"""Keys of that format that tau-bench does not have."""

_GRADED: Final = ("DB", "COMMUNICATE")
_PARTS: Final = (
    ("persona", "Who you are: "),
    ("reason_for_call", ""),
    ("known_info", ""),
    ("unknown_info", ""),
    ("task_instructions", ""),
)


def from_tau2(entry: Mapping[str, Any], tools: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Convert a task of tau2-bench into tau-bench's format.

    Args:
        entry: The task, as in its file.
        tools: The domain's own tools, by name.
        where: The file and the task, for messages.

    Raises:
        DataError: Its criteria are unsupported, or it is not a task of tau2-bench.
    """
    try:
        criteria = entry[MARK]
        reasons = [*_unmapped(entry, criteria, tools)]
        if not reasons:
            return _mapped(entry, criteria)
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{where} is no whole task of tau2-bench: {error!r}") from error
    raise DataError(
        f"{where} is of tau2-bench and does not map: {'; '.join(reasons)}. Leave it out of the file"
    )


def _mapped(entry: Mapping[str, Any], criteria: Mapping[str, Any]) -> dict[str, Any]:
    actions = [
        {"name": one["name"], "kwargs": one.get("arguments") or {}}
        for one in criteria.get("actions") or ()
    ]
    callers = [one["kwargs"]["user_id"] for one in actions if "user_id" in one["kwargs"]]
    says = "COMMUNICATE" in _basis(criteria)
    return {
        "user_id": callers[0] if callers else str(entry.get("id", "")),
        "instruction": _instruction(entry["user_scenario"]),
        "actions": actions,
        "outputs": list(criteria.get("communicate_info") or ()) if says else [],
    }


def _basis(criteria: Mapping[str, Any]) -> list[str]:
    """Return the reward's criteria; by default the two that are supported."""
    basis = criteria.get("reward_basis")
    return list(_GRADED) if basis is None else list(basis)


def _unmapped(
    entry: Mapping[str, Any], criteria: Mapping[str, Any], tools: Mapping[str, Any]
) -> Iterator[str]:
    basis = _basis(criteria)
    judged = () if criteria.get("nl_assertions") else ("NL_ASSERTION",)
    if others := [one for one in basis if one not in (*_GRADED, *judged)]:
        yield f"its reward depends on {', '.join(map(str, others))}, which nothing here judges"
    if "DB" not in basis:
        yield "its reward does not depend on DB, and here every reward does"
    if criteria.get("env_assertions"):
        yield "it has env_assertions, which are functions of tau2-bench"
    initial = entry.get("initial_state")
    begun = [name for name, value in initial.items() if value] if initial else []
    if begun:
        yield f"it begins with {', '.join(begun)}, and here every task begins with the data"
    if entry.get("user_tools"):
        yield "its user has tools"
    for action in criteria.get("actions") or ():
        if action.get("requestor", "assistant") != "assistant":
            yield f"its user calls {action['name']}"
        elif action["name"] not in tools:
            yield f"it calls {action['name']}, which is no tool of this domain"


def _instruction(scenario: Mapping[str, Any]) -> str:
    """Return the simulated user's knowledge as one text."""
    given = scenario["instructions"]
    if isinstance(given, str):
        given = {"task_instructions": given}
    known = {**given, "persona": scenario.get("persona")}
    parts = [f"{before}{known[name]}".strip() for name, before in _PARTS if known.get(name)]
    return "\n\n".join(parts)
