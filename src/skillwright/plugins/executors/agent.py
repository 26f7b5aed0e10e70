"""Agents that are programs at a command line, made of their settings."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from skillwright.core import Act, Agent, ChatModel, TurnContext
from skillwright.core.protocols import together
from skillwright.models.chat_agent import ChatAgent
from skillwright.models.dialects.config import ClaudeChatConfig
from skillwright.plugins.executors.claude import ClaudeCli, ClaudeCliConfig, ClaudeCodeExec
from skillwright.plugins.executors.codex import CodexExec
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, CodexExecConfig
from skillwright.plugins.executors.model import ExecModel, Request

# An agent that is a program at a command line, in any environment.


class ExecAgent(ExecModel):
    """Acts by running its program: each turn is one run in a fresh folder.

    The run is shown the conversation so far, with the skill inside its instructions, and finds the
    skill installed in its folder too. What it says last is the action. It has no seed, so two runs
    of one turn may differ.
    """

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Answer all contexts, ``max_concurrent`` at a time; the turns are in their order.

        Raises:
            ModelError: A run failed at every attempt; the runs beside it are killed.
        """
        return await together(self._act(context) for context in contexts)

    async def _act(self, context: TurnContext) -> Act:
        request = Request(context.messages, skill=context.skill, acts=True)
        completion = await self.ask(request)
        return Act.of(completion)


def agent_of(model: ChatModel) -> Agent:
    """Return who acts with a model: an executor itself, else a chat agent over it."""
    return model if isinstance(model, ExecAgent) else ChatAgent(model)


# Makes a model that is a program.


def make_executor(
    config: CodexExecConfig | ClaudeCodeExecConfig | ClaudeChatConfig,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ExecModel:
    """Make the model that is a program. Nothing is asked of its model yet."""
    match config:
        case CodexExecConfig():
            return ExecAgent(CodexExec(config), sleep=sleep, clock=clock)
        case ClaudeCodeExecConfig():
            return ExecAgent(ClaudeCodeExec(config), sleep=sleep, clock=clock)
        case ClaudeChatConfig():
            return ExecModel(ClaudeCli(ClaudeCliConfig.of(config)), sleep=sleep, clock=clock)
