"""The definition of a tool domain: tables, tools and their descriptions."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

Record = Mapping[str, Any]
Records = Mapping[str, Mapping[str, Record]]
"""Table -> id -> record."""
Tool = Callable[..., str]
"""Takes the episode's `Database` and the arguments by name, and returns the observation."""

_DATA: Final = json.loads(Path(__file__).with_name("domains.json").read_text(encoding="utf-8"))
UPSTREAM: Final[Mapping[str, Mapping[str, str]]] = _DATA["upstream"]
"""Domain -> file -> SHA-256: tau-bench at 59a200c, tau2-bench at a2c0247, converted to JSON;
the bank of inspect-evals 0.26."""
AIRPORTS: Final[Mapping[str, str]] = _DATA["airports"]
CORRECTED: Final[Mapping[str, list[int]]] = _DATA["corrected"]
"""Domain -> indices of tasks whose labels tau2-bench corrected later, or removed."""

STOP: Final = "###STOP###"
"""The marker in a reply of a user that ends the conversation."""
TRANSFERRED: Final = "###TRANSFER###"
OUT_OF_SCOPE: Final = "###OUT-OF-SCOPE###"

READ_ONLY: Final = "read_only"
SEVERAL: Final = "several_kinds"


@dataclass(frozen=True, eq=False)
class Domain:
    """A domain of tau-bench.

    Attributes:
        name: Name in ``env.config.domain``.
        place: The called company, for a task's description.
        tables: Table -> fields of its records, with the JSON type; ``a.b`` is b in a.
        index: Builds the lookup index of the tools from the tables; `Tables.index` keeps it.
        tools: Name -> the tool; any exception becomes its observation.
        schemas: Function schemas of the tools in our own words; the order of the required
            parameters is the original's.
        task_types: Writing tool -> the type of a task whose gold actions write only by it.
        original: Name of scores on tau-bench's own data.
        upstream: File -> SHA-256 of the original's data.
        data_variable: Environment variable for a folder with data.
        fetch_command: Command that fetches the data.
        longest_observation: Characters of a long observation on the original data.
        toolkit: Class of the tools in tau2-bench, which errors name; "" for tau-bench's domains.
        user_tools: Tools of the simulated user, as ``tools``.
        user_schemas: Function schemas of ``user_tools``.
        functions: Who (``assistant`` or ``user``) -> functions that are no tools: they make a
            task's initial state, or return ``"True"`` or ``"False"`` about a final one.
        sync: Brings the two sides of the state in line; called after every successful call.
        check: Refuses tables that the tools cannot work on, with a `DataError`.
        is_extra: Tells whether a record may be there that the gold actions do not make.
    """

    name: str
    place: str
    tables: Mapping[str, Mapping[str, type]]
    index: Callable[[Records], Any]
    tools: Mapping[str, Tool]
    schemas: tuple[Mapping[str, Any], ...]
    task_types: Mapping[str, str]
    original: str
    upstream: Mapping[str, str]
    data_variable: str
    fetch_command: str
    longest_observation: int
    toolkit: str = ""
    user_tools: Mapping[str, Tool] = field(default_factory=dict)
    user_schemas: tuple[Mapping[str, Any], ...] = ()
    functions: Mapping[str, Mapping[str, Callable[..., Any]]] = field(default_factory=dict)
    sync: Callable[[Any], None] | None = None
    check: Callable[[Records], None] | None = None
    is_extra: Callable[[Record], bool] | None = None

    @property
    def is_tau3(self) -> bool:
        """Whether its rules are those of tau2-bench 1.0.1, called tau3, not tau-bench's."""
        return bool(self.toolkit)

    @property
    def stop_words(self) -> tuple[str, ...]:
        """The markers of the user that end a conversation."""
        return (STOP, TRANSFERRED, OUT_OF_SCOPE) if self.is_tau3 else (STOP,)

    @cached_property
    def parameters(self) -> Mapping[str, Mapping[str, bool]]:
        """Tool -> its parameters in order, and whether each is required."""
        described = (one["function"] for one in (*self.schemas, *self.user_schemas))
        return {
            one["name"]: {name: name in shape["required"] for name in shape["properties"]}
            for one in described
            for shape in [one["parameters"]]
        }

    @property
    def all_task_types(self) -> tuple[str, ...]:
        """All return values of `task_type`."""
        return (*dict.fromkeys(self.task_types.values()), READ_ONLY, SEVERAL)

    def task_type(self, called: Iterable[str]) -> str:
        """Return a task's type by its gold actions' tools: one kind of write, several, or none.

        It is also the category in a skill bank. The gold actions are a hint that the published
        protocol does not give, so a score with skills chosen by it has to say so.
        """
        kinds = {self.task_types[tool] for tool in called if tool in self.task_types}
        if len(kinds) > 1:
            return SEVERAL
        return kinds.pop() if kinds else READ_ONLY
