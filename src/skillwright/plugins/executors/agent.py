"""Agents that are programs at a command line, and the models made of their settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skillwright.core import Act, Completion, Message, TurnContext
from skillwright.core.concurrency import together
from skillwright.models import ClaudeChatConfig, HttpClient
from skillwright.plugins.executors.claude import ClaudeCli, ClaudeCliConfig, ClaudeCodeExec
from skillwright.plugins.executors.codex import CodexExec
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, CodexExecConfig
from skillwright.plugins.executors.model import ExecModel, Request


class ExecAgent(ExecModel):
    """Acts by running its program: each turn is one run in a fresh folder.

    The prompt is the conversation so far, with the skill inside its instructions; the skill is also
    installed in the folder. The last message of the program is the action. Programs take no seed,
    so two runs of one turn may differ.
    """

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Answer all contexts in order, ``max_concurrent`` at a time; an error kills all runs."""
        return await together(self._act(context) for context in contexts)

    async def _act(self, context: TurnContext) -> Act:
        request = Request(context.messages, skill=context.skill, acts=True)
        return Act.of(await self.ask(request))

    async def work(
        self, messages: Sequence[Message], folder: Path, *, keeps_edits: bool
    ) -> Completion:
        """Work on a copy of a folder; with ``keeps_edits`` copy what changed back into it."""
        return await self.ask(Request(messages, acts=True, folder=folder, keeps_edits=keeps_edits))


def make_codex(config: CodexExecConfig, client: HttpClient, **timing: Any) -> ExecAgent:
    """Make an agent of the Codex command line."""
    return ExecAgent(CodexExec(config), **timing)


def make_claude_code(config: ClaudeCodeExecConfig, client: HttpClient, **timing: Any) -> ExecAgent:
    """Make an agent of the Claude Code command line."""
    return ExecAgent(ClaudeCodeExec(config), **timing)


def make_claude_cli(config: ClaudeChatConfig, client: HttpClient, **timing: Any) -> ExecModel:
    """Make the model of ``claude_chat`` with ``transport: cli``."""
    return ExecModel(ClaudeCli(ClaudeCliConfig.of(config)), **timing)
