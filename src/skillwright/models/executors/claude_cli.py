"""How the ``claude`` program is spoken to as a chat model: no tools, one JSON result."""

import os
from collections.abc import Mapping, Sequence

from skillwright.core import ConfigError, Message
from skillwright.core.jsonio import dumps
from skillwright.models.dialects.claude_config import ClaudeChatConfig
from skillwright.models.executors.claude_program import UNATTENDED, ClaudeProgram, claude_env
from skillwright.models.executors.config import ExecConfig
from skillwright.models.executors.model import Place, Request
from skillwright.models.executors.prompt import render_prompt, without_mentions

_SYSTEM = "system.md"
_NO_SYSTEM = "Answer the conversation that you are given."
# A model that must fill a schema calls a tool for it, and may have to try again.
_TURNS, _SCHEMA_TURNS = 2, 6
_WITHOUT_EFFECT = (
    *("temperature", "top_p", "top_k", "thinking", "thinking_budget", "betas"),
    *("extra_body", "headers", "stream", "prompt_cache", "api_version"),
)
_BOUNDS = frozenset({"timeout_s", "max_attempts", "max_concurrent", "max_tokens"})


class ClaudeCliConfig(ExecConfig):
    """The settings of ``claude_chat`` with ``transport: cli``, as those of a program."""

    effort: str | None = None
    max_tokens: int | None = None

    @classmethod
    def of(cls, config: ClaudeChatConfig) -> "ClaudeCliConfig":
        """Take over what the program has."""
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

    def argv(self, request: Request, place: Place) -> list[str]:
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

    def env(self, request: Request, place: Place) -> dict[str, str]:
        """Return the environment of a run."""
        asked = request.sampling.max_tokens
        return claude_env(self.config, place, asked or self.config.max_tokens)


def _split(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """Part the system messages that open a conversation from the rest of it."""
    opening = 0
    while opening < len(messages) and messages[opening]["role"] == "system":
        opening += 1
    system = "\n\n".join(message["content"] for message in messages[:opening])
    return system or _NO_SYSTEM, list(messages[opening:])
