"""The definition of a tool domain: tables, tools and their descriptions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

Record = Mapping[str, Any]
Records = Mapping[str, Mapping[str, Record]]
"""Table -> id -> record."""
Tool = Callable[..., str]
"""Takes the episode's `Database` and the arguments by name, and returns the observation."""

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
        upstream: File -> SHA-256: tau-bench's data at commit 59a200c, converted to JSON.
        data_variable: Environment variable for a folder with data.
        fetch_command: Command that fetches the data.
        longest_observation: Characters of a long observation on the original data.
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

    @cached_property
    def parameters(self) -> Mapping[str, Mapping[str, None]]:
        """Tool -> its parameters in order; all are required."""
        described = (schema["function"] for schema in self.schemas)
        return {one["name"]: dict.fromkeys(one["parameters"]["required"]) for one in described}

    @property
    def all_task_types(self) -> tuple[str, ...]:
        """All return values of `task_type`."""
        return (*self.task_types.values(), READ_ONLY, SEVERAL)

    def task_type(self, called: Iterable[str]) -> str:
        """Return a task's type by its gold actions' tools: one kind of write, several, or none.

        It is also the category in a skill bank. The gold actions are a hint that the published
        protocol does not give, so a score with skills chosen by it has to say so.
        """
        kinds = {self.task_types[tool] for tool in called if tool in self.task_types}
        if len(kinds) > 1:
            return SEVERAL
        return kinds.pop() if kinds else READ_ONLY
