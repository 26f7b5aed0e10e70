"""Makes a mind that is a program."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from skillwright.models.dialects.claude_config import ClaudeChatConfig
from skillwright.models.executors.agent import ExecAgent
from skillwright.models.executors.claude_cli import ClaudeCli, ClaudeCliConfig
from skillwright.models.executors.claude_code_exec import ClaudeCodeExec
from skillwright.models.executors.codex_exec import CodexExec
from skillwright.models.executors.config import ClaudeCodeExecConfig, CodexExecConfig
from skillwright.models.executors.model import ExecModel


def make_executor(
    config: CodexExecConfig | ClaudeCodeExecConfig | ClaudeChatConfig,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ExecModel:
    """Make the mind that is a program. Nothing is asked of its model yet."""
    match config:
        case CodexExecConfig():
            return ExecAgent(CodexExec(config), sleep=sleep, clock=clock)
        case ClaudeCodeExecConfig():
            return ExecAgent(ClaudeCodeExec(config), sleep=sleep, clock=clock)
        case ClaudeChatConfig():
            return ExecModel(ClaudeCli(ClaudeCliConfig.of(config)), sleep=sleep, clock=clock)
