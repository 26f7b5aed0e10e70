"""What a tool domain is made of: tables, tools over them, and what is known about both."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

Record = Mapping[str, Any]
Records = Mapping[str, Mapping[str, Record]]
"""Table -> id -> record."""
Tool = Callable[..., str]
"""Takes the episode's `Database` and the arguments by name, and returns what the agent reads."""

READ_ONLY: Final = "read_only"
SEVERAL: Final = "several_kinds"


@dataclass(frozen=True, eq=False)
class Domain:
    """A domain of tau-bench. What plays, grades, stores and reports is the same for all of them.

    Attributes:
        name: What ``env.config.domain`` calls it.
        place: Who is called, in the words of a task's description.
        tables: Table -> what each of its records has, with the JSON type; ``a.b`` is b in a.
        index: Reads out of the tables what tools look up; `Tables.index` keeps it.
        tools: Name -> the tool. Whatever it raises is its answer.
        schemas: The tools as function schemas in our own words; the order of the required
            parameters is that of the original.
        task_types: Tool that writes -> the type of a task whose gold actions write by it alone.
        original: The name of scores on tau-bench's own data.
        upstream: File -> SHA-256: tau-bench's data at commit 59a200c, converted to JSON.
        data_variable: The environment variable that names a folder with data.
        fetch_command: What fetches it.
        longest_observation: Characters of a long answer of a tool, over the original data.
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
        """Tool -> its parameters in order; all of them are required."""
        described = (schema["function"] for schema in self.schemas)
        return {one["name"]: dict.fromkeys(one["parameters"]["required"]) for one in described}

    @property
    def all_task_types(self) -> tuple[str, ...]:
        """All that `task_type` returns."""
        return (*self.task_types.values(), READ_ONLY, SEVERAL)

    def task_type(self, called: Iterable[str]) -> str:
        """Name a task by what its gold actions write: one kind of it, several kinds, or nothing.

        It is the category of the task for a skill bank too. The gold actions tell it before the
        customer has said a word, a hint that the published protocol does not give: a score that was
        reached with skills chosen by it has to say so.

        Args:
            called: The tools of the gold actions.
        """
        kinds = {self.task_types[tool] for tool in called if tool in self.task_types}
        if len(kinds) > 1:
            return SEVERAL
        return kinds.pop() if kinds else READ_ONLY
