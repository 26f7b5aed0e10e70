"""Tasks in the format of tau2-bench, where they ask for what is graded here.

Graded here are the records that the gold actions change, and texts that the agent has to say. A
task of tau2-bench that is paid for anything else, or that begins elsewhere than in the data as it
is, is refused with the reason: scored by half of its criteria it would be another task.

Source: tau2-bench (arXiv:2506.07982), its task files.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skillwright.core import DataError

MARK: Final = "evaluation_criteria"
"""What an entry has in that format, and none of tau-bench."""

_GRADED: Final = ("DB", "COMMUNICATE")
_PARTS: Final = (
    ("persona", "Who you are: "),
    ("reason_for_call", ""),
    ("known_info", ""),
    ("unknown_info", ""),
    ("task_instructions", ""),
)


def from_tau2(entry: Mapping[str, Any], tools: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a task of tau2-bench as an entry of tau-bench's format.

    Args:
        entry: The task, as its file has it.
        tools: The domain's own, by name.
        where: The file and the task, for messages.

    Raises:
        DataError: It asks for something that is not graded, not there, or not a task of tau2-bench.
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
    """Return what the reward is made of; by tau2-bench's default the two that are graded here."""
    basis = criteria.get("reward_basis")
    return list(_GRADED) if basis is None else list(basis)


def _unmapped(
    entry: Mapping[str, Any], criteria: Mapping[str, Any], tools: Mapping[str, Any]
) -> Iterator[str]:
    basis = _basis(criteria)
    if others := [one for one in basis if one not in _GRADED]:
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
    """Put what the simulated user knows into one text."""
    given = scenario["instructions"]
    if isinstance(given, str):
        given = {"task_instructions": given}
    known = {**given, "persona": scenario.get("persona")}
    parts = [f"{before}{known[name]}".strip() for name, before in _PARTS if known.get(name)]
    return "\n\n".join(parts)
