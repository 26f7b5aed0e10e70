"""The banking domain of tau2-bench: a bank's records, and documents that an agent has to search.

Most tools are named in the documents only. The agent unlocks one of its own and calls it through
``call_discoverable_agent_tool``, or gives one to the user. What each takes is in the data.

Source: tau2-bench 1.0.1 (arXiv:2506.07982), domain banking_knowledge. As there, whole numbers in
the arguments of such a tool are decimal numbers, transactions of an account begin with the latest,
and a call of a tool that only reads counts in the final state only if the gold actions have it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwright.core import DataError
from skillwright.worlds.tau_bench.tau_core.banking_rules import WORDS, seeded_id
from skillwright.worlds.tau_bench.tau_core.banking_steps import TODAY, listed, run_tool
from skillwright.worlds.tau_bench.tau_core.database import Database, freeze
from skillwright.worlds.tau_bench.tau_core.domain import UPSTREAM, Domain, Record, Records, Tool
from skillwright.worlds.tau_bench.tau_core.schemas import BANK_USER_SCHEMAS, BANKING_SCHEMAS
from skillwright.worlds.tau_bench.tau_core.tools import Refused, misfit

DOCUMENTS: Final = "documents"
MANUALS: Final = "manuals"
"""The table of the tools that documents name: side, description and parameters."""
GREP: Final = "grep"

RETRIEVALS: Final = ("grep_only", "full_kb", "golden_retrieval", "no_knowledge")
"""How the agent reads documents: it searches, or has all, those that its task needs, or none."""

_CALLED: Final = "agent_discoverable_tools"
_GIVEN: Final = "user_discoverable_tools"
_MOST_FOUND: Final = 10
_READS: Final = re.compile(r"get_|initial_transfer_|emergency_")
# May take longer than any conversation: (a+b)+, (a|b)*, .*.*
_SLOW: Final = re.compile(
    r"\A(?:\(\?|[^*+?}|])*+[*+?}|].*(?<!\\)\)[*+{]|(?:\.[*+]\??){2}", re.DOTALL
)
_BETWEEN: Final = "\n\n---\n\n"


def policy(prompt: str, documents: Mapping[str, Record], needed: Sequence[str]) -> str:
    """Return a policy with the documents that it has a place for.

    Args:
        prompt: Its template.
        documents: All, by id.
        needed: Ids or titles of those that the task needs.

    Raises:
        DataError: One is not there.
    """
    titled = {of["title"]: of for of in documents.values()} | dict(documents)
    if lost := [name for name in needed if name not in titled]:
        raise DataError(f"the task needs the document {lost[0]!r}, which {DOCUMENTS}.json lacks")
    for place, names in (("full_knowledge_base", documents), ("required_documents", needed)):
        shown = [f"## {titled[name]['title']}\n\n{titled[name]['content']}" for name in names]
        text = _BETWEEN.join(shown) or "(No documents provided)"
        prompt = prompt.replace(f"{{{{{place}}}}}", text)
    return prompt


def _grep(db: Database, pattern: Any) -> str:
    """Return the documents in which a pattern is found most often."""
    if GREP not in db.unlocked:
        raise Refused(f"Tool '{GREP}' not found.")
    nothing = f"No matches found for pattern: {pattern}"
    if not pattern.strip():
        return nothing
    if _SLOW.search(pattern):
        raise Refused(f"the pattern {pattern!r} repeats a repeat or a choice; search for words")
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error:
        compiled = re.compile(re.escape(pattern), re.IGNORECASE)
    counts = [(len(compiled.findall(of["content"])), name, of) for name, of in db.rows(DOCUMENTS)]
    found = sorted((one for one in counts if one[0]), key=lambda one: -one[0])
    return (
        "\n".join(
            f"{rank}. {of['title']}\n   ID: {name}\n   Score: {float(count):.4f}\n"
            f"   Content: {of['content']}\n"
            for rank, (count, name, of) in enumerate(found[:_MOST_FOUND], 1)
        )
        or nothing
    )


def _manual(db: Database, name: Any, side: str) -> Record | None:
    found = db.find(MANUALS, name)
    return found if found is not None and found["side"] == side else None


def _unlock(db: Database, agent_tool_name: Any) -> str:
    manual = _manual(db, agent_tool_name, "assistant")
    if manual is None:
        return f"Error: Unknown agent tool '{agent_tool_name}'. This tool is not available."
    db.unlocked.add(agent_tool_name)
    described = [
        f"  - {name}: {of['type']} ({'required' if of['required'] else 'optional'}) - "
        f"{of['description']}"
        for name, of in manual["parameters"].items()
    ]
    about = f"Description: {manual['description']}"
    parameters = "\n".join(described) or "  (no parameters)"
    return (
        f"Tool unlocked: {agent_tool_name}\n{about}\n\nTool: {agent_tool_name}\n{about}\n"
        f"Parameters:\n{parameters}\n\n"
        "You can now use this tool by calling `call_discoverable_agent_tool` with "
        f"agent_tool_name='{agent_tool_name}' and the required arguments."
    )


def _arguments(text: Any, **how: Any) -> Any:
    """Read the arguments of a tool; the error is the original's."""
    try:
        return json.loads(text, **how)
    except json.JSONDecodeError as error:
        raise Refused(f"Invalid JSON in arguments: {error}") from None


def _call_of_agent(db: Database, agent_tool_name: Any, arguments: Any = "{}") -> str:
    manual = _manual(db, agent_tool_name, "assistant")
    if manual is None:
        return f"Error: Unknown agent tool '{agent_tool_name}'. This tool is not available."
    if agent_tool_name not in db.unlocked:
        return (
            f"Error: Tool '{agent_tool_name}' has not been unlocked. You must first use "
            "`unlock_discoverable_agent_tool` to unlock this tool before calling it."
        )
    given = _arguments(arguments, parse_int=float)
    try:
        answer = _run(db, agent_tool_name, given, manual)
    except TypeError as error:
        return f"Error: Invalid arguments: {error}"
    _record(db, _CALLED, f"agent_discoverable_tool:{agent_tool_name}", agent_tool_name, "CALLED")
    return answer


def _run(db: Database, name: str, given: Mapping[str, Any], manual: Record) -> str:
    called = f"{BANKING.toolkit}.{name}()"
    if not isinstance(given, dict):
        called = f"tau2.domains.banking_knowledge.tools.{called}"
        kind = type(given).__name__
        raise TypeError(f"{called} argument after ** must be a mapping, not {kind}")
    needed = {one: of["required"] for one, of in manual["parameters"].items()}
    if wrong := misfit(called, needed, given):
        raise TypeError(wrong)
    return run_tool(db, name, {one: given[one] for one in needed if one in given})


def _record(db: Database, table: str, seed: str, name: str, status: str) -> None:
    key = seeded_id(seed)
    if db.find(table, key) is None:
        db.put(table, key, freeze({"tool_name": name, "status": status}))


def _give(db: Database, discoverable_tool_name: Any, arguments: Any = "{}") -> str:
    name, manual = discoverable_tool_name, _manual(db, discoverable_tool_name, "user")
    if manual is None:
        return f"Error: Unknown discoverable tool '{name}'."
    given = _arguments(arguments)
    for one in given:
        if one not in manual["parameters"] and one != "self":
            return f"Error: Unexpected parameter: {one}"
    _record(db, _GIVEN, f"user_discoverable_tool:{name}", name, "GIVEN")
    shown = json.dumps(given, indent=2) if given else "(no arguments)"
    return (
        f"Tool given to user: {name}\nDescription: {manual['description']}\nArguments: {shown}\n\n"
        "The user can now execute this action by calling `call_discoverable_user_tool` with "
        f"discoverable_tool_name='{name}' and the same arguments."
    )


def _call_of_user(db: Database, discoverable_tool_name: Any, arguments: Any = "{}") -> str:
    name, manual = discoverable_tool_name, _manual(db, discoverable_tool_name, "user")
    if manual is None:
        return f"Error: Unknown discoverable tool '{name}'."
    given, known = _arguments(arguments, parse_int=float), manual["parameters"]
    for one, of in known.items():
        if of["required"] and one not in given:
            return f"Error: Missing required parameter: {one}"
    for one in given:
        if one not in known:
            return f"Error: Unexpected parameter: {one}"
    if "No records found" in listed(db, _GIVEN, "tool_name", name):
        return (
            f"Error: Tool '{name}' has not been given to you by the agent. The agent must first "
            "use `give_discoverable_user_tool` to give this tool to you."
        )
    ordered = {one: given[one] for one in known if one in given}
    called = {"tool_name": name, "arguments": ordered, "called_at": TODAY, "status": "CALLED"}
    seed = f"user_discoverable_tool_call:{name}:{json.dumps(ordered, sort_keys=True)}"
    if db.find("user_discoverable_tool_calls", key := seeded_id(seed)) is None:
        db.put("user_discoverable_tool_calls", key, freeze(called))
    try:
        return run_tool(db, name, ordered)
    except TypeError as error:
        return f"Error: Invalid arguments for tool '{name}': {error}"


def _merge(db: Database, tables: Mapping[str, Any]) -> None:
    """Add records to tables, and fields to records, as a task's initial state says."""
    for table, given in tables.items():
        if table not in BANKING.tables:
            raise DataError(f"the bank has no table {table!r}")
        for key, record in given.get("data", given).items():
            db.put(table, key, freeze(_merged(db.find(table, key) or {}, record)))


def _merged(base: Any, given: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(given, dict)):
        return given
    return {**base, **{key: _merged(base.get(key), value) for key, value in given.items()}}


def _is_extra(record: Record) -> bool:
    return bool(_READS.match(record.get("tool_name", ""))) and record.get("status") == "CALLED"


def _check(records: Records) -> None:
    """Refuse data that lacks the manual of a tool."""
    if lost := sorted(DISCOVERABLE - records[MANUALS].keys()):
        raise DataError(f"{MANUALS}.json lacks {', '.join(lost)}")


def _direct(side: str) -> dict[str, Tool]:
    def tool(name: str) -> Tool:
        return lambda db, **given: run_tool(db, name, given)

    return {name: tool(name) for name in WORDS["direct"][side]}


_AGENTS: Final[Mapping[str, Tool]] = {
    GREP: _grep,
    **_direct("assistant"),
    "call_discoverable_agent_tool": _call_of_agent,
    "give_discoverable_user_tool": _give,
    "unlock_discoverable_agent_tool": _unlock,
}
_USERS: Final[Mapping[str, Tool]] = {
    **_direct("user"),
    "call_discoverable_user_tool": _call_of_user,
}
DISCOVERABLE: Final = frozenset(
    name for name in WORDS["steps"] if name not in {**_AGENTS, **_USERS} and name[0] != "_"
)
"""The tools that only documents name."""

BANKING: Final = Domain(
    name="tau3_banking",
    place="bank",
    tables={
        **{name: dict.fromkeys(fields, str) for name, fields in WORDS["tables"].items()},
        MANUALS: {"side": str, "description": str, "parameters": dict},
    },
    index=lambda records: None,
    tools=_AGENTS,
    schemas=BANKING_SCHEMAS,
    task_types=WORDS["task_types"],
    original="tau2-bench banking, 97 tasks of inspect-evals 0.26",
    upstream=UPSTREAM["tau3_banking"],
    data_variable="SKILLWRIGHT_TAU3_BANKING_DATA",
    fetch_command="skillwright data tau-bench --tasks tau3 --domain banking",
    longest_observation=20_000,
    toolkit="KnowledgeTools",
    user_tools=_USERS,
    user_schemas=BANK_USER_SCHEMAS,
    functions={"assistant": {"initialization_data": _merge}},
    check=_check,
    is_extra=_is_extra,
)
