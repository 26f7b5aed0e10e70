"""A customer played by a person at the terminal: the strategy ``human``."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final

from skillwright.core import ModelRefused
from skillwright.core.plain_text import without_controls
from skillwright.envs.tau_bench.users import STOP, UserSetting, UserSimulator

# One question at a time, however many episodes are played at once.
_terminal: Final = threading.Lock()


class HumanUser(UserSimulator):
    """Asks a person for every message; a blank line is asked for again. It costs nothing."""

    def __init__(self, setting: UserSetting, read_line: Callable[[str], str] = input) -> None:
        super().__init__()
        self._task = f"{setting.split} {setting.task_index}"
        self._read_line = read_line

    async def areset(self, instruction: str) -> str:
        """Show who the person plays, and return the opening message."""
        return await self._line(
            f"\nYou are the customer of task {self._task}: {instruction}\n"
            f"Write {STOP} when you have what you want.\n"
        )

    async def astep(self, content: str) -> str:
        """Show what the agent says, and return the answer."""
        return await self._line(f"\n[{self._task}] Agent: {content}\n")

    async def _line(self, shown: str) -> str:
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[str | None] = loop.create_future()

        def settle(line: str | None) -> None:
            if not typed.done():
                typed.set_result(line)

        def ask() -> None:
            with _terminal:
                line = self._typed(shown)
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, line)

        # A daemon and not the loop's executor: that one is waited for, and nobody would end the
        # program before the person has pressed Enter.
        threading.Thread(target=ask, name="tau_bench human", daemon=True).start()
        line = await typed
        if line is None:
            raise ModelRefused(
                "nobody is at the terminal to play the customer: its input is closed. Choose "
                "another user_strategy, such as 'llm'."
            )
        return line

    def _typed(self, shown: str) -> str | None:
        """Return a line that is not blank, or ``None`` where the input has ended."""
        try:
            shown = without_controls(shown)  # an agent's words are a model's
            while not (line := self._read_line(f"{shown}You: ").strip()):
                shown = ""
        except (EOFError, OSError):
            return None
        return line
