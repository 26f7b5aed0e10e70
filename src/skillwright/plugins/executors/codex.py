"""The ``codex`` program: its arguments, and how its output is read."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillwright.core import Usage
from skillwright.core.jsonio import dumps
from skillwright.models.http.wire import count, mapping, sequence
from skillwright.plugins.executors.config import CodexExecConfig
from skillwright.plugins.executors.model import (
    CommandLine,
    Request,
    Workspace,
    render_prompt,
    tell_mount,
)
from skillwright.plugins.executors.report import ExecReport, json_events, no_text, one_line
from skillwright.plugins.executors.workspace import Login, child_env, find_login

# Reads the events that ``codex exec --json`` prints. Unknown events and keys are ignored.


def read_codex_events(stdout: str) -> ExecReport:
    """Read a run: the last message is the answer, the last event on the turn tells how it ended."""
    answer: Any = ""
    failure, ended_well, is_whole = "", False, False
    usage = Usage(calls=1, cost_usd=None)
    reasoning: list[str] = []
    trace: list[str] = []
    for event in json_events(stdout):
        match event.get("type"):
            case "turn.started":
                ended_well = is_whole = False
            case "turn.completed":
                ended_well, is_whole, failure = True, True, ""
                usage = _usage(mapping(event.get("usage")))
            case "turn.failed":
                ended_well, is_whole, failure = False, True, _message(event.get("error"))
            case "error":
                # Reconnecting is reported as an error too, so a turn that completes makes it good.
                failure = _message(event)
                trace.append(f"error: {one_line(failure)}")
            case "item.completed":
                item = mapping(event.get("item"))
                if item.get("type") == "agent_message":
                    answer = item.get("text")
                elif item.get("type") == "reasoning":
                    reasoning.append(str(item.get("text") or ""))
                else:
                    trace.append(_trace_line(item))
    if ended_well and (problem := no_text(answer)):
        ended_well, failure = False, problem
    return ExecReport(
        answer=answer if isinstance(answer, str) else "",
        ended_well=ended_well,
        is_whole=is_whole,
        failure="" if ended_well else failure,
        usage=usage,
        reasoning="\n\n".join(reasoning),
        trace=tuple(trace),
    )


def _usage(counts: Mapping[str, Any]) -> Usage:
    """Read token counts: cached ones are part of the input, reasoning is part of the output."""
    input_tokens, output_tokens = (
        count(counts.get("input_tokens")),
        count(counts.get("output_tokens")),
    )
    cached = min(input_tokens, count(counts.get("cached_input_tokens")))
    return Usage(
        calls=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cost_usd=None,
        cache_write_tokens=min(
            input_tokens - cached, count(counts.get("cache_write_input_tokens"))
        ),
        reasoning_tokens=min(output_tokens, count(counts.get("reasoning_output_tokens"))),
    )


def _message(error: Any) -> str:
    return str(mapping(error).get("message") or error or "")


def _trace_line(item: Mapping[str, Any]) -> str:
    match item.get("type"):
        case "command_execution":
            code = item.get("exit_code")
            ended = item.get("status") if code is None else f"exit {code}"
            return f"$ {one_line(item.get('command'))} ({ended})"
        case "file_change":
            changes = map(mapping, sequence(item.get("changes")))
            return "files: " + ", ".join(f"{c.get('kind')} {c.get('path')}" for c in changes)
        case "mcp_tool_call":
            return f"tool {item.get('server')}.{item.get('tool')} ({item.get('status')})"
        case "web_search":
            return f"search: {one_line(item.get('query'))}"
        case "error":
            return f"warning: {one_line(item.get('message'))}"
        case kind:
            return str(kind)


_KEY = "CODEX_API_KEY"
_SCHEMA = "schema.json"
_PROVIDER = "model_providers.skillwright"


class CodexExec(CommandLine[CodexExecConfig]):
    """The Codex command line; see `CommandLine`.

    Commands that it runs inherit a core environment without keys, are written to no session file,
    and are held by Codex's own sandbox unless that is ``danger-full-access``.
    """

    label = "codex"
    login_file = ".codex/auth.json"

    def login(self) -> Login:
        """Find the key, else the login of ``codex login``."""
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        return find_login(self.config, _KEY, ("CODEX_ACCESS_TOKEN",), home / "auth.json")

    def nests(self, request: Request) -> bool:
        """Tell whether Codex builds its own sandbox."""
        return self._sandbox(request) != "danger-full-access"

    def prompt(self, request: Request) -> str:
        """Return what Codex reads from stdin."""
        mount = tell_mount(request.mounted) if request.mounted else ""
        return render_prompt(request.messages, mount, request.note)

    def files(self, request: Request) -> Mapping[str, str]:
        """Return the answer's JSON Schema, where one is asked for."""
        schema = request.sampling.json_schema
        return {_SCHEMA: dumps(schema)} if schema is not None else {}

    def argv(self, request: Request, place: Workspace) -> list[str]:
        """Return the arguments of one run; the prompt comes by stdin."""
        config = self.config
        argv = ["exec", "--json", "--color", "never", "--skip-git-repo-check", "--ephemeral"]
        argv += ["--ignore-user-config", "--ignore-rules"]
        argv += ["--sandbox", self._sandbox(request), "--cd", str(place.work)]
        argv += ["--model", config.model]
        searches = request.acts and config.web_search
        overrides = {
            "web_search": "live" if searches else "disabled",
            "shell_environment_policy.inherit": "core",
        }
        if config.effort is not None:
            overrides["model_reasoning_effort"] = config.effort
        if config.base_url is not None:
            overrides["model_provider"] = "skillwright"
            overrides[f"{_PROVIDER}.name"] = "skillwright"
            overrides[f"{_PROVIDER}.base_url"] = config.base_url
            overrides[f"{_PROVIDER}.env_key"] = _KEY
            overrides[f"{_PROVIDER}.wire_api"] = "responses"
        # A JSON string is a TOML string.
        for name, value in overrides.items():
            argv += ["-c", f"{name}={dumps(value)}"]
        if request.acts and config.network:
            argv += ["-c", "sandbox_workspace_write.network_access=true"]
        if request.sampling.json_schema is not None:
            argv += ["--output-schema", str(place.root / _SCHEMA)]
        return [*argv, "-"]

    def env(self, request: Request, place: Workspace) -> dict[str, str]:
        """Return the environment; Codex demands that its home is there."""
        env = child_env(self.config, place.home, place.temporary)
        return {**env, "CODEX_HOME": str(place.home / ".codex")}

    def report(self, stdout: str) -> ExecReport:
        """Read the events of a run."""
        return read_codex_events(stdout)

    def _sandbox(self, request: Request) -> str:
        config = self.config
        # Who has both named wants bubblewrap to be the only sandbox, as where none can nest.
        is_outer = config.sandbox == "danger-full-access" and config.isolation == "bwrap"
        return config.sandbox if request.acts or is_outer else "read-only"
