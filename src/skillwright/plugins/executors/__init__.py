"""Programs at a command line as agents and models: ``codex exec`` and ``claude -p``."""

from typing import Any, Final

from skillwright.models.backends import Backend
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, CodexExecConfig

# A run against endpoints starts no programs, so what runs them is imported when a model is made.


def _make_codex(*args: Any, **timing: Any) -> Any:
    from skillwright.plugins.executors.agent import make_codex

    return make_codex(*args, **timing)


def _make_claude_code(*args: Any, **timing: Any) -> Any:
    from skillwright.plugins.executors.agent import make_claude_code

    return make_claude_code(*args, **timing)


CODEX_EXEC: Final = Backend(
    "codex_exec",
    "the Codex command line",
    "the codex program, with CODEX_API_KEY or signed in",
    CodexExecConfig,
    _make_codex,
    aliases=("codex", "codex_cli"),
)
CLAUDE_CODE_EXEC: Final = Backend(
    "claude_code_exec",
    "the Claude Code command line",
    "the claude program, with ANTHROPIC_API_KEY or signed in",
    ClaudeCodeExecConfig,
    _make_claude_code,
    roles=("agent",),
    aliases=("claude_code",),
)
