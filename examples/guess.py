"""A complete environment: guess a number.

    skillwright env check examples/guess.py:Guess

There are 1,000 numbers and seven guesses, so halving the range finds one number in eight. The
numbers of `guess_data` all end in 7. No text of the game says so, but an agent that knows it
needs no more than seven guesses for every one of them: that sentence is the skill to be found.
"""

import re
from collections.abc import Sequence
from typing import Any

from skillwright.core import Message
from skillwright.envs import StepOutput, TextEnv, register

GUESSES = 7
RULES = """\
I think of a number from 1 to 1000. Answer with one number per turn; I say whether mine is higher
or lower. You have {guesses} guesses."""


class Guess(TextEnv):
    """One number to be found.

    Args:
        env_config: Not used.
        extras: ``answer``, from 1 to 1000, and ``max_turns``, the guesses (default 7).
    """

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, {"max_turns": GUESSES, **(extras or {})})
        self._answer = int(self.extras["answer"])

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return two games for ``skillwright env check``."""
        return [{"answer": 7}, {"answer": 997}]

    @classmethod
    def gold_actions(cls, extras: dict[str, Any]) -> list[str]:
        """Return a solution; ``skillwright env check`` plays it."""
        return [str(extras["answer"])]

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Tell the rules."""
        rules: Message = {"role": "system", "content": RULES.format(guesses=self.max_turns)}
        return [*prompt, rules, {"role": "user", "content": "What is your first guess?"}], {}

    def step(self, action: str) -> StepOutput:
        """Compare the last number in the reply; a reply without one costs a guess."""
        self.turns += 1
        numbers = re.findall(r"\b[0-9]{1,4}\b", action)
        if not numbers:
            return self.reply("That is no number. Answer with a number from 1 to 1000.")
        guess = int(numbers[-1])
        if guess == self._answer:
            return self.finish("Correct.", reward=1.0)
        return self.reply("Higher." if guess < self._answer else "Lower.")


# Where this module is imported, "guess" is a name like "alfworld"; the file says where it is.
register("guess", f"{__file__}:Guess")
