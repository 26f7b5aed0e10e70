"""Descriptions of the tools in our own words; a data set's ``tools.json`` replaces them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

CANCEL_REASONS: Final = ("no longer needed", "ordered by mistake")
ADDRESS: Final = ("address1", "address2", "city", "state", "country", "zip")

# Domain -> tool -> its description and its parameters in order; a text describes a text.
_DESCRIBED: Final[Mapping[str, Mapping[str, Any]]] = json.loads(
    Path(__file__).with_name("tool_schemas.json").read_text(encoding="utf-8")
)


def _functions(*domains: str, without: str = "") -> tuple[Mapping[str, Any], ...]:
    """Return the function schemas of several parts of the file, by tool name."""
    tools = {name: tool for domain in domains for name, tool in _DESCRIBED[domain].items()}
    return tuple(
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool["description"],
                "parameters": {
                    "type": "object",
                    "properties": {key: _property(one) for key, one in tool["parameters"].items()},
                    "required": [
                        key
                        for key, one in tool["parameters"].items()
                        if isinstance(one, str) or not one.get("optional")
                    ],
                },
            },
        }
        for name, tool in sorted(tools.items())
        if name != without
    )


def _property(described: Any) -> Any:
    if isinstance(described, str):
        return {"type": "string", "description": described}
    return {key: value for key, value in described.items() if key != "optional"}


RETAIL_SCHEMAS: Final = _functions("shared", "retail")
AIRLINE_SCHEMAS: Final = _functions("shared", "airline")
TAU3_RETAIL_SCHEMAS: Final = _functions("shared", "retail", "tau3_retail", without="think")
TAU3_AIRLINE_SCHEMAS: Final = _functions("shared", "airline", "tau3_airline", without="think")
TELECOM_SCHEMAS: Final = _functions("tau3_telecom")
PHONE_SCHEMAS: Final = _functions("phone")
BANKING_SCHEMAS: Final = _functions("tau3_banking")
BANK_USER_SCHEMAS: Final = _functions("bank_user")
