"""Parsers of the clients' logs. Unknown forms are skipped and counted.

Sources, as documented by the clients and by readers of their logs: Claude Code's
``~/.claude/projects/<folder>/<session>.jsonl``; Codex's rollouts, ``~/.codex/sessions/YYYY/MM/DD/
rollout-*.jsonl``; OpenCode's ``storage/{session,message,part}`` (until 1.2), and the document that
``opencode export`` prints (every version).
"""

from collections.abc import Callable
from typing import Any, Final

import orjson

from skillwright.plugins.sessions.logs.recorder import LeftOut, Recorder, field_of, text_of, texts

MOST_SEEN: Final = 1_000_000
"""Messages of Claude Code to remember, because resumed sessions repeat them."""

_STOPPED: Final = "[Request interrupted by user"
_REFUSED: Final = "The user doesn't want to"
# Texts that Claude Code itself adds to a user's message.
_NOT_TYPED: Final = ("<command-", "<local-command", "Caveat:", "This session is being continued")
_CONTEXT: Final = ("<environment_context", "<user_instructions", "# AGENTS.md", "<ENVIRONMENT")
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "shell", "local_shell"})
_SHELL_TOOLS: Final = frozenset({"shell", "shell_command", "exec_command", "container.exec"})

Reader = Callable[[dict[str, Any], Recorder, LeftOut, str], None]


class ClaudeLines:
    """Reads lines of Claude Code; a message repeated in another log is read once."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def read(self, line: dict[str, Any], into: Recorder, left_out: LeftOut, where: str) -> None:
        """Add one line to a session's recorder, or count it as left out, with its place."""
        kind = line.get("type")
        if kind not in ("user", "assistant"):
            known = kind in ("summary", "system", "progress", "file-history-snapshot")
            left_out.add("lines that say nothing of use" if known else "lines: unknown type", where)
            return
        own = line.get("uuid")
        if isinstance(own, str):
            if hash(own) in self._seen:
                left_out.add("lines that another session had", where)
                return
            if len(self._seen) < MOST_SEEN:
                self._seen.add(hash(own))
        into.at(line.get("timestamp"))
        into.id = into.id or text_of(line, "sessionId")
        into.project = into.project or text_of(line, "cwd")
        if line.get("isSidechain"):
            left_out.add("lines of sub-agents", where)
            return
        content = field_of(line, "message", "content")
        if kind == "assistant":
            _claude_calls(content, into)
        else:
            _claude_user(line, content, into)


def _claude_calls(content: object, into: Recorder) -> None:
    for block in content if isinstance(content, list) else ():
        if text_of(block, "type") == "tool_use" and text_of(block, "name") == "Bash":
            into.called(text_of(block, "id"), text_of(block, "input", "command"))


def _claude_user(line: dict[str, Any], content: object, into: Recorder) -> None:
    blocks = content if isinstance(content, list) else []
    results = [one for one in blocks if text_of(one, "type") == "tool_result"]
    for block in results:
        said = "\n".join(texts(field_of(block, "content")))
        failed = bool(field_of(block, "is_error"))
        if failed and said.startswith(_REFUSED):
            into.ended(text_of(block, "tool_use_id"), said, None)
            into.interrupted()
        else:
            # A failed command says "Exit code 2"; without an error the code is 0.
            code = None if failed else 0
            into.ended(text_of(block, "tool_use_id"), said, code)
    is_ours = any(line.get(key) for key in ("isMeta", "isCompactSummary", "toolUseResult"))
    if results or is_ours or line.get("userType", "external") != "external":
        return
    for text in texts(content):
        if text.startswith(_STOPPED):
            into.interrupted()
        elif not text.lstrip().startswith(_NOT_TYPED):
            into.said(text)


def read_codex_line(line: dict[str, Any], into: Recorder, left_out: LeftOut, where: str) -> None:
    """Read one line of a Codex rollout."""
    kind, payload = line.get("type"), line.get("payload")
    into.at(line.get("timestamp"))
    inner = text_of(payload, "type")
    match kind, inner:
        case "session_meta", _:
            into.id = into.id or text_of(payload, "id")
            into.project = into.project or text_of(payload, "cwd")
        case "event_msg", "user_message":
            text = text_of(payload, "message")
            if not text.lstrip().startswith(_CONTEXT):
                into.said(text)
        case "event_msg", "turn_aborted":
            into.interrupted()
        case "response_item", "function_call" | "local_shell_call" | "custom_tool_call":
            if command := _codex_command(payload):
                into.called(text_of(payload, "call_id"), command)
        case "response_item", "function_call_output" | "custom_tool_call_output":
            _codex_output(payload, into)
        case (("turn_context" | "compacted" | "event_msg" | "response_item"), _):
            # Models' texts, and duplicates: a user's message is an event as well.
            left_out.add("lines that say nothing of use", where)
        case _:
            left_out.add("lines: unknown type", where)


def _codex_command(payload: object) -> str:
    if text_of(payload, "type") == "local_shell_call":
        return _joined(field_of(payload, "action", "command"))
    if text_of(payload, "name") not in _SHELL_TOOLS:
        return ""
    arguments = _parsed(text_of(payload, "arguments"))
    return _joined(field_of(arguments, "command") or field_of(arguments, "cmd"))


def _joined(command: object) -> str:
    """Return a command as one shell line; for ``["bash", "-lc", LINE]``, the line."""
    if isinstance(command, str):
        return command
    words = [one for one in command if isinstance(one, str)] if isinstance(command, list) else []
    if len(words) > 2 and words[0].rpartition("/")[2] in _SHELLS:
        return words[-1]
    return " ".join(words)


def _codex_output(payload: object, into: Recorder) -> None:
    output = field_of(payload, "output")
    text = output if isinstance(output, str) else "\n".join(texts(field_of(output, "content")))
    inner = _parsed(text) if text.startswith("{") else None
    code = field_of(inner, "metadata", "exit_code")
    said = text_of(inner, "output") if isinstance(code, int) else text
    into.ended(text_of(payload, "call_id"), said, code if isinstance(code, int) else None)


def _parsed(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def read_opencode_message(
    info: dict[str, Any], parts: list[Any], into: Recorder, left_out: LeftOut, where: str
) -> None:
    """Read a message of OpenCode with its parts."""
    into.at(field_of(info, "time", "created"))
    role = info.get("role")
    for part in parts:
        kind = text_of(part, "type")
        if kind == "text" and role == "user":
            # Synthetic texts are OpenCode's own: files that were attached, reminders.
            if not (field_of(part, "synthetic") or field_of(part, "ignored")):
                into.said(text_of(part, "text"))
        elif kind == "tool" and text_of(part, "tool") == "bash":
            _opencode_command(part, into)
        elif kind == "tool":
            into.ended("", text_of(part, "state", "output"))
        else:
            left_out.add("parts that say nothing of use", where)
    if text_of(info, "error", "name") == "MessageAbortedError":
        into.interrupted()


def _opencode_command(part: object, into: Recorder) -> None:
    call = text_of(part, "callID") or text_of(part, "id")
    into.called(call, text_of(part, "state", "input", "command"))
    code = field_of(part, "state", "metadata", "exit")
    said = text_of(part, "state", "output") or text_of(part, "state", "error")
    into.ended(call, said, code if isinstance(code, int) else None)
