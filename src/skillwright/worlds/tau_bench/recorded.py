"""A user that repeats the replies of a recorded episode, without a model."""

from collections.abc import Callable
from typing import Any

from skillwright.core import EnvError, SkillwrightError, Trajectory, Usage
from skillwright.core.result import USER_TURN
from skillwright.worlds.tau_bench.users import GREETING, Heard, UserSimulator


class NotAsked(SkillwrightError):
    """The user is addressed in a turn in which the record has no message to it."""


class RecordedUser(UserSimulator):
    """Answers from a record; after it a live user continues, if there is one.

    Args:
        record: The recorded episode.
        turn: Returns the number of the current turn, from 0.
        turns: Number of turns answered from the record; ``None`` for all.
        successor: The live user.
    """

    def __init__(
        self,
        record: Trajectory,
        turn: Callable[[], int],
        turns: int | None = None,
        successor: UserSimulator | None = None,
    ) -> None:
        super().__init__()
        self._record = record
        self._turn = turn
        self._turns = len(record.turns) if turns is None else turns
        self._successor = successor
        self._instruction = ""
        self._conversation: list[Heard] = []
        self._repeated = Usage()
        self._continues = False
        self._at, self._calls = -1, list[str]()

    async def areset(self, instruction: str) -> str:
        """Return the opening message."""
        self._instruction = instruction
        return self._said(GREETING, self._record.opening, {})

    async def astep(self, content: str) -> str:
        """Return the recorded reply of this turn, or let the successor answer."""
        at = self._turn()
        if at >= self._turns:
            return await self._continued(content)
        then = self._record.turns[at]
        if then.metadata.get("source") != "user":
            raise NotAsked("the agent would speak to the user where it called a tool")
        beside = then.metadata.get(USER_TURN) or {}
        calls = beside.get("tool_calls") or ()
        if self._at != at:  # the calls of its own tools come before the reply
            self._at, self._calls = at, [str(one["said"]) for one in calls]
        said = self._calls.pop(0) if self._calls else then.observation
        return self._said(content, said, beside)

    def _said(self, heard: str, said: str, beside: dict[str, Any]) -> str:
        self._conversation.append(Heard(heard, said, str(beside.get("thought", ""))))
        self._repeated += Usage(cache_hits=1)  # an answer without a model call
        self.usage = self._repeated
        return said

    async def _continued(self, content: str) -> str:
        user = self._successor
        if user is None:
            raise NotAsked("the agent would speak to the user after the end of the record")
        if not self._continues:
            user.take_over(self._instruction, self._conversation)
            self._continues = True
        try:
            return await user.astep(content)
        finally:
            self.usage = self._repeated + user.usage
            self.backstage = user.backstage


def refuse_newcomer(user: Any) -> UserSimulator:
    """Return a user that can continue a conversation, or raise `EnvError`."""
    if isinstance(user, UserSimulator) and type(user).take_over is not UserSimulator.take_over:
        return user
    raise EnvError(
        f"the simulated user {type(user).__name__} cannot continue a conversation that is "
        "recorded: it has no take_over()"
    )
