"""The tools of a server in an episode of a table: checks, carries out and records calls."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from skillwright.core import EnvError, Message, ToolCall, Trajectory, did_you_mean
from skillwright.core.call_json import Unreadable, read_arguments
from skillwright.core.calls import read_calls
from skillwright.core.jsonio import dumps
from skillwright.core.marks import spoken
from skillwright.envs.table.tool_server import (
    ToolServer,
    ToolSession,
    complaints,
    named,
    tool_client,
)

ANSWERS: Final = "answers"
"""The key of the server's answers in a turn's metadata; ``None`` stands for a refused call."""
_TOOLS: Final = "tools"

RULE_TAGS: Final = """\
You may use tools before you answer. Call one by writing a line such as
<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>
and wait for its result. The tools, with the JSON schemas of their arguments:
{tools}"""


class Toolbox:
    """The tool calls of an episode; the server is not contacted before the first call."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._session: ToolSession | None = None
        self._record: Trajectory | None = None
        self._known: list[Sequence[str | None]] = []  # recorded answers by turn
        self._made: list[tuple[ToolCall, str]] = []  # calls so far, with their answers

    @property
    def tools(self) -> Sequence[dict[str, Any]]:
        """The tools in OpenAI's form, from the record if there is one."""
        recorded = None if self._record is None else self._record.metadata.get(_TOOLS)
        if recorded is not None:
            return tuple(recorded)
        return tool_client().offered_tools(self._server)

    @property
    def native(self) -> Sequence[dict[str, Any]]:
        """The tools that are offered natively."""
        return self.tools if self._server.calls == "native" else ()

    def opening(self) -> tuple[list[Message], dict[str, Any]]:
        """Return the messages before the question, and the metadata of the opening."""
        about = {_TOOLS: [dict(tool) for tool in self.tools]}
        if self._server.calls == "native":
            return [], about
        listed = "\n".join(dumps(tool["function"]) for tool in self.tools)
        return [{"role": "system", "content": RULE_TAGS.format(tools=listed)}], about

    def use_record(self, record: Trajectory, turns: int | None) -> None:
        """Use the recorded answers of the server; after ``turns`` it is called again."""
        self._record = record
        self._known = [turn.metadata.get(ANSWERS) or () for turn in record.turns[:turns]]

    def written(self, action: str) -> list[ToolCall]:
        """Return the calls that are written in an action."""
        found = read_calls(spoken(action), self.tools).calls
        return [
            ToolCall(f"call_{number}", one.name, one.problem or dumps(one.arguments))
            for number, one in enumerate(found)
        ]

    async def answer(
        self, turn: int, calls: Sequence[ToolCall]
    ) -> tuple[list[str], list[str | None]]:
        """Carry out the calls of a turn, in order.

        Returns:
            The result of each call, and the answer to record for it.

        Raises:
            EnvError: The server is missing, died, or took too long.
        """
        recorded = self._known[turn] if turn < len(self._known) else ()
        results: list[str] = []
        kept: list[str | None] = []
        for number, call in enumerate(calls):
            refusal, arguments = self._checked(call)
            if refusal:
                results.append(f"Error: {refusal}")
                kept.append(None)
                continue
            known = recorded[number] if number < len(recorded) else None
            answer = await self._call(call, arguments) if known is None else known
            self._made.append((call, answer))
            results.append(answer)
            kept.append(answer)
        return results, kept

    def close(self) -> None:
        """End the session. Closing twice is allowed."""
        if self._session is not None:
            self._session.close()

    async def _call(self, call: ToolCall, arguments: Mapping[str, Any]) -> str:
        if self._session is None:
            self._session = tool_client().open_session(self._server)
            # Recorded calls are repeated first, because the server may have a state.
            for earlier, then in self._made:
                now = await self._session.call(earlier.name, self._checked(earlier)[1])
                if now.text != then:
                    raise EnvError(
                        f"tool {earlier.name!r} does not answer as it is recorded, so nothing can "
                        "continue from there"
                    )
        return (await self._session.call(call.name, arguments)).text

    def _checked(self, call: ToolCall) -> tuple[str, Mapping[str, Any]]:
        """Return the error of a call, ``""`` if it is valid, and its arguments."""
        tools = named(self.tools)
        if not call.name:
            return f"could not parse tool call ({call.arguments[:80]})", {}
        if call.name not in tools:
            return f"there is no tool {call.name[:80]!r}. {did_you_mean(call.name, tools)}", {}
        try:
            arguments = read_arguments(call.arguments)
        except Unreadable as error:
            return f"the arguments of {call.name!r} are no JSON object: {error}", {}
        wrong = complaints(tools[call.name], arguments)
        return "; ".join(wrong), arguments
