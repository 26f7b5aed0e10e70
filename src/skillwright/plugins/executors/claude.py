"""The ``claude`` program as an agent, and as a chat model without tools."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.core import ConfigError, Message, Usage
from skillwright.core.jsonio import dumps
from skillwright.models.dialects.config import ClaudeChatConfig
from skillwright.models.http.wire import amount, count, mapping, sequence
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, ExecConfig
from skillwright.plugins.executors.model import (
    CommandLine,
    Config,
    Request,
    Workspace,
    render_prompt,
    tell_mount,
    without_mentions,
)
from skillwright.plugins.executors.report import ExecReport, json_events, no_text, one_line
from skillwright.plugins.executors.workspace import Login, child_env, find_login

_FINISH = {"max_tokens": "length", "refusal": "content_filter"}


def read_claude_events(stdout: str, *, trusts_cost: bool = True) -> ExecReport:
    """Read a run."""
    model, said_error = "", ""
    skills: tuple[str, ...] | None = None
    result: Mapping[str, Any] = {}
    reasoning: list[str] = []
    trace: list[str] = []
    for event in json_events(stdout):
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                model = str(event.get("model") or "")
                skills = tuple(str(name) for name in sequence(event.get("skills")))
            case "system":
                trace += _system_lines(event)
            case "assistant":
                said_error = str(event.get("error") or "")
                for block in map(mapping, sequence(mapping(event.get("message")).get("content"))):
                    if block.get("type") == "thinking":
                        reasoning.append(str(block.get("thinking") or ""))
                    elif block.get("type") == "tool_use":
                        asked = one_line(dumps(block.get("input")))
                        trace.append(f"{block.get('name')} {asked}")
            case "result":
                result = event
    ended_well = result.get("subtype") == "success" and not result.get("is_error")
    said, structured = result.get("result"), result.get("structured_output")
    answer = str(said or "") if structured is None else dumps(structured)
    failure = _failure(result, said_error)
    if ended_well:
        failure = no_text(said) if structured is None else ""
        ended_well = not failure
    return ExecReport(
        answer=answer if ended_well else "",
        ended_well=ended_well,
        is_whole=bool(result),
        failure=failure,
        usage=_usage(result, trusts_cost=trusts_cost),
        model=model,
        finish_reason=_FINISH.get(str(result.get("stop_reason")), "stop"),
        reasoning="\n\n".join(reasoning),
        trace=tuple(trace),
        skills=skills,
    )


def _failure(result: Mapping[str, Any], said_error: str) -> str:
    """Join all that is said about a failure; its cause may be in any of these."""
    parts = [
        said_error,
        str(result.get("subtype") or "") if result.get("subtype") != "success" else "",
        str(result.get("terminal_reason") or ""),
        f"status {status}" if (status := result.get("api_error_status")) else "",
        str(result.get("startup_failure_reason") or ""),
        str(result.get("result") or ""),
        *(str(error) for error in sequence(result.get("errors"))),
    ]
    return ": ".join(dict.fromkeys(part for part in parts if part))


def _usage(result: Mapping[str, Any], *, trusts_cost: bool) -> Usage:
    """Sum all calls of the run, with auxiliary models; input includes cached tokens."""
    models = [mapping(each) for each in mapping(result.get("modelUsage")).values()]
    if models:
        names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    else:
        models = [mapping(result.get("usage"))]
        names = (
            *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            "output_tokens",
        )
    fresh, read, written, output = (sum(count(each.get(n)) for each in models) for n in names)
    cost = amount(result.get("total_cost_usd"))
    guessed = any(each.get("costBasis") == "unknown" for each in models)
    known = trusts_cost and not guessed and fresh + output > 0
    return Usage(
        calls=1,
        input_tokens=fresh + read + written,
        output_tokens=output,
        cached_tokens=read,
        cost_usd=cost if known else None,
        cache_write_tokens=written,
        reasoning_tokens=min(output, sum(count(each.get("thinkingTokens")) for each in models)),
    )


def _system_lines(event: Mapping[str, Any]) -> list[str]:
    """Format a system event as a log line; most kinds have none."""
    match event.get("subtype"):
        case "api_retry":
            return [f"retry {event.get('attempt')}: {one_line(event.get('error'))}"]
        case "compact_boundary":
            return ["the conversation was summarized"]
        case "permission_denied":
            return [f"denied: {one_line(event.get('tool_name') or event.get('tool'))}"]
        case "model_refusal_fallback":
            return ["another model answered after a refusal"]
        case _:
            return []


_KEYS = ("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # By default it waits minutes, even for a key to become right; a run is made again by us.
    "CLAUDE_CODE_MAX_RETRIES": "4",
}
# Nothing is asked: what was not allowed before is denied. Only the work folder's settings load,
# no server of the person's own, and no transcript is kept.
UNATTENDED = (
    *("--permission-mode", "dontAsk", "--permission-prompts", "none"),
    *("--setting-sources", "project", "--strict-mcp-config", "--no-session-persistence"),
)


class ClaudeProgram(CommandLine[Config]):
    """The ``claude`` program; see `CommandLine`."""

    label = "claude"
    login_file = ".claude/.credentials.json"

    def login(self) -> Login:
        """Find the key or token, else the program's own login."""
        file = Path.home() / self.login_file
        return find_login(self.config, "ANTHROPIC_API_KEY", _KEYS, file)

    def report(self, stdout: str) -> ExecReport:
        """Read what a run printed."""
        return read_claude_events(stdout, trusts_cost=self.config.base_url is None)


def claude_env(config: ExecConfig, place: Workspace, max_tokens: int | None) -> dict[str, str]:
    """Return the environment of the ``claude`` program, without its key."""
    env = {**child_env(config, place.home, place.temporary), **_QUIET}
    env["CLAUDE_CONFIG_DIR"] = str(place.home / ".claude")
    if max_tokens is not None:
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(max_tokens)
    if config.base_url is not None:
        # Auxiliary calls name a model of Anthropic's, which another endpoint does not know.
        env |= {
            "ANTHROPIC_BASE_URL": config.base_url,
            "ANTHROPIC_DEFAULT_HAIKU_MODEL": config.model,
        }
    return env


_SYSTEM = "system.md"
_NO_SYSTEM = "Answer the conversation that you are given."
# A model that must fill a schema calls a tool for it, and may have to try again.
_TURNS, _SCHEMA_TURNS = 2, 6
_WITHOUT_EFFECT = (
    *("temperature", "top_p", "thinking", "thinking_budget"),
    *("extra_body", "headers", "stream", "prompt_cache", "api_version"),
)
_BOUNDS = frozenset({"timeout_s", "max_attempts", "max_concurrent", "max_tokens"})


class ClaudeCliConfig(ExecConfig):
    """The settings of ``claude_chat`` with ``transport: cli``, as those of a program."""

    effort: str | None = None
    max_tokens: int | None = None

    @classmethod
    def of(cls, config: ClaudeChatConfig) -> "ClaudeCliConfig":
        """Convert endpoint settings to those of the program; refuse any that it does not have."""
        vain = [name for name in _WITHOUT_EFFECT if name in config.model_fields_set]
        if vain:
            raise ConfigError(
                f"backend 'claude_chat' with transport 'cli' takes no {vain[0]}: the program "
                "decides. Leave it out, or use transport 'api' with a key"
            )
        has_own_url = "base_url" in config.model_fields_set
        is_bearer = config.key_header == "authorization"
        named = "api_key_env" in config.model_fields_set
        return cls(
            backend="claude_chat",
            model=config.model,
            path=config.path or os.environ.get("CLAUDE_CLI_BIN") or "claude",
            api_key_env="ANTHROPIC_AUTH_TOKEN" if is_bearer and not named else config.api_key_env,
            api_key=config.api_key,
            base_url=config.base_url if has_own_url else None,
            effort=config.effort,
            prices=config.prices,
            # What an endpoint has by default is too many at once for programs, and too short.
            **{name: getattr(config, name) for name in _BOUNDS & config.model_fields_set},
        )


class ClaudeCli(ClaudeProgram[ClaudeCliConfig]):
    """The ``claude`` program without tools; see `CommandLine`."""

    def prompt(self, request: Request) -> str:
        """Return what the program reads from stdin: all but the system prompt."""
        _, rest = _split(request.messages)
        return without_mentions(render_prompt(rest, request.note))

    def files(self, request: Request) -> Mapping[str, str]:
        """Return the system prompt, which takes the place of the program's own."""
        system, _ = _split(request.messages)
        return {_SYSTEM: system}

    def argv(self, request: Request, place: Workspace) -> list[str]:
        """Return the arguments of one run; the prompt comes by stdin."""
        schema = request.sampling.json_schema
        turns = _TURNS if schema is None else _SCHEMA_TURNS
        argv = ["-p", "--output-format", "json", "--model", self.config.model, "--tools", ""]
        argv += [*UNATTENDED, "--disable-slash-commands", "--max-turns", str(turns)]
        argv += ["--system-prompt-file", str(place.root / _SYSTEM)]
        if self.config.effort is not None:
            argv += ["--effort", self.config.effort]
        if schema is not None:
            argv += ["--json-schema", dumps(schema)]
        return argv

    def env(self, request: Request, place: Workspace) -> dict[str, str]:
        """Return the environment of a run."""
        asked = request.sampling.max_tokens
        return claude_env(self.config, place, asked or self.config.max_tokens)


def _split(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the opening system messages as one text, and the other messages."""
    opening = 0
    while opening < len(messages) and messages[opening]["role"] == "system":
        opening += 1
    system = "\n\n".join(message["content"] for message in messages[:opening])
    return system or _NO_SYSTEM, list(messages[opening:])


_READING = ("Read", "Glob", "Grep", "Skill")
_WRITING = ("Edit", "Write", "Bash")
_SEARCHING = ("WebSearch", "WebFetch")


class ClaudeCodeExec(ClaudeProgram[ClaudeCodeExecConfig]):
    """The Claude Code command line; see `CommandLine`.

    Its tools are bounded by ``sandbox``: reading; also editing and commands; and bubblewrap bounds
    where those write.
    """

    def prompt(self, request: Request) -> str:
        """Return what Claude Code reads from stdin."""
        mount = tell_mount(request.mounted) if request.mounted else ""
        return without_mentions(render_prompt(request.messages, mount, request.note))

    def argv(self, request: Request, place: Workspace) -> list[str]:
        """Return the arguments of one run; the prompt comes by stdin."""
        config = self.config
        tools = ",".join(self._tools(request))
        argv = ["-p", "--output-format", "stream-json", "--verbose", "--model", config.model]
        argv += ["--tools", tools, "--allowedTools", tools, *UNATTENDED]
        argv += ["--exclude-dynamic-system-prompt-sections", "--max-turns", str(config.max_turns)]
        if not request.mounted:
            argv += ["--disable-slash-commands"]
        if config.effort is not None:
            argv += ["--effort", config.effort]
        if request.sampling.json_schema is not None:
            argv += ["--json-schema", dumps(request.sampling.json_schema)]
        return argv

    def env(self, request: Request, place: Workspace) -> dict[str, str]:
        """Return the environment of a run."""
        return claude_env(self.config, place, request.sampling.max_tokens)

    def _tools(self, request: Request) -> tuple[str, ...]:
        writes = request.acts and self.config.sandbox != "read-only"
        searches = request.acts and self.config.web_search
        return (*_READING, *(_WRITING if writes else ()), *(_SEARCHING if searches else ()))
