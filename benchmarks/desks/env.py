"""The environment: tickets of a shop, one after the other, each answered with a desk."""

from collections.abc import Sequence
from typing import Any

from skillwright.core import DataError, Message, Task
from skillwright.envs import StepOutput, TextEnv

DESKS = ("Red", "Blue", "Green", "White", "Black", "Brown")
RULES = "Each ticket goes to a desk. Answer with one of: {desks}"


class Desks(TextEnv):
    """Tickets of one shop.

    Several in an episode are read with one sheet: a row of training then teaches several answers.
    No ticket is answered with whether the one before it was right.

    Args:
        env_config: Not used.
        extras: ``shop``, its name; ``tickets``, a list of ``[text, desk]``, at least one.

    Raises:
        DataError: There is no ticket.
    """

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        given = extras or {}
        self._tickets = [(str(text), str(desk)) for text, desk in given.get("tickets", ())]
        if not self._tickets:
            raise DataError(f"desks extras list 'tickets', and these are {sorted(given)}")
        super().__init__(env_config, {**given, "max_turns": len(self._tickets)})
        self._right = 0

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return an episode of two tickets."""
        tickets = [["I forgot my password.", "Red"], ["I would like to work for you.", "Blue"]]
        return [{"shop": "shop 0", "tickets": tickets}]

    @classmethod
    def gold_actions(cls, extras: dict[str, Any]) -> list[str]:
        """Return the right desks."""
        return [desk for _, desk in extras["tickets"]]

    @classmethod
    def scope(cls, task: Task) -> str:
        """Return the shop."""
        return str(task.extras.get("shop", ""))

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Show the first ticket."""
        rules: Message = {"role": "system", "content": RULES.format(desks=", ".join(DESKS))}
        first: Message = {"role": "user", "content": self._tickets[0][0]}
        return [*prompt, rules, first], self._offered(self._tickets[0][0])

    def step(self, action: str) -> StepOutput:
        """Score an answer, and show the next ticket."""
        right = self._tickets[self.turns][1]
        given = action.strip().strip(".\"'")
        self._right += given.casefold() == right.casefold()
        self.turns += 1
        if self.turns < len(self._tickets):
            text = self._tickets[self.turns][0]
            return self.reply(text, metadata=self._offered(text))
        said = "Right." if given.casefold() == right.casefold() else None
        shown = given[:80].replace('"', "'")
        return self.finish(
            said or f'Expected "{right}", and you answered "{shown}".',
            reward=self._right / len(self._tickets),
        )

    def _offered(self, text: str) -> dict[str, Any]:
        return {"observation": text, "admissible_commands": sorted(DESKS)}
