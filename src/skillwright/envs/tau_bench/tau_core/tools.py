"""The sixteen tools by name, and how a call of any shape is answered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from skillwright.envs.tau_bench.tau_core import changes, lookups, swaps
from skillwright.envs.tau_bench.tau_core.calculator import calculate
from skillwright.envs.tau_bench.tau_core.database import Database
from skillwright.envs.tau_bench.tau_core.schemas import SCHEMAS

TRANSFER: Final = "transfer_to_human_agents"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a tool call.

    Attributes:
        observation: What the agent reads; ``""`` after a thought.
        ends_episode: The user was handed over, even if the call was malformed.
        is_error: The tool refused, or there is no such tool.
    """

    observation: str
    ends_episode: bool = False
    is_error: bool = False


def call_tool(db: Database, name: str, kwargs: Mapping[str, Any]) -> ToolResult:
    """Answer a tool call as tau-bench does; nothing is raised, whatever it says.

    Args:
        db: What the tool reads and changes.
        name: A tool's name; upper and lower case differ.
        kwargs: Its arguments, JSON values of any type.
    """
    tool = _TOOLS.get(name)
    if tool is None:
        return ToolResult(f"Unknown action {name}", is_error=True)
    try:
        observation = _misfit(name, kwargs) or tool(db, **kwargs)
    except Exception as error:  # noqa: BLE001 - an argument of the wrong type: its error is the answer
        observation = f"Error: {error}"
    return ToolResult(observation, name == TRANSFER, observation.startswith("Error"))


def _misfit(name: str, kwargs: Mapping[str, Any]) -> str | None:
    """Say what is wrong with the names of arguments, in the words of Python's own call."""
    parameters = PARAMETERS[name]
    if kwargs.keys() == parameters.keys():
        return None
    called = f"{''.join(word.capitalize() for word in name.split('_'))}.invoke()"
    if "data" in kwargs:
        # There it is the name of the database, which every tool is given first.
        return (
            f"Error: tau_bench.envs.retail.tools.{name}.{called} "
            "got multiple values for keyword argument 'data'"
        )
    for key in kwargs:
        if key not in parameters:
            return f"Error: {called} got an unexpected keyword argument '{key}'"
    missing = [repr(parameter) for parameter in parameters if parameter not in kwargs]
    *most, last = missing
    listed = f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}" if most else last
    plural = "s" if most else ""
    return f"Error: {called} missing {len(missing)} required positional argument{plural}: {listed}"


def _calculate(db: Database, expression: Any) -> str:
    return calculate(expression)


def _think(db: Database, thought: Any) -> str:
    return ""


def _transfer(db: Database, summary: Any) -> str:
    return "Transfer successful"


_TOOLS: Final[Mapping[str, Callable[..., str]]] = {
    "calculate": _calculate,
    "cancel_pending_order": changes.cancel_pending_order,
    "exchange_delivered_order_items": swaps.exchange_delivered_order_items,
    "find_user_id_by_email": lookups.find_user_id_by_email,
    "find_user_id_by_name_zip": lookups.find_user_id_by_name_zip,
    "get_order_details": lookups.get_order_details,
    "get_product_details": lookups.get_product_details,
    "get_user_details": lookups.get_user_details,
    "list_all_product_types": lookups.list_all_product_types,
    "modify_pending_order_address": changes.modify_pending_order_address,
    "modify_pending_order_items": swaps.modify_pending_order_items,
    "modify_pending_order_payment": changes.modify_pending_order_payment,
    "modify_user_address": changes.modify_user_address,
    "return_delivered_order_items": changes.return_delivered_order_items,
    "think": _think,
    TRANSFER: _transfer,
}

PARAMETERS: Final[Mapping[str, Mapping[str, None]]] = {
    schema["function"]["name"]: dict.fromkeys(schema["function"]["parameters"]["required"])
    for schema in SCHEMAS
}
"""Tool -> its parameters in order; all of them are required."""

TOOL_NAMES: Final = tuple(_TOOLS)
