"""Settings of the models that are programs at a command line."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from skillwright.models.http.endpoint_config import OPENAI_BASE_URL, BaseUrl
from skillwright.models.prices import Prices, list_prices
from skillwright.models.validation import VARIABLE, Keyed

_NO_ANSWER_DEPENDS_ON = frozenset(
    {
        *("backend", "model", "path", "api_key_env", "timeout_s", "max_concurrent"),
        *("max_attempts", "max_output_mb", "keep_output", "prices", "isolation", "pass_env"),
        *("keep_failures", "hidden"),
    }
)

Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
Isolation = Literal["auto", "bwrap", "none"]


class ExecConfig(Keyed):
    """A program that is run once per answer; each kind adds its own settings."""

    backend: str
    model: Annotated[str, Field(min_length=1)]
    """The model's name, as the program knows it."""
    path: Annotated[str, Field(min_length=1)]
    """The program: a name on the ``PATH``, or a file."""
    api_key_env: str
    """The environment variable that holds the key; where it is not set, the program's own login is
    used."""
    api_key: Annotated[SecretStr | None, Field(exclude=True, repr=False)] = None
    """The key itself, before ``api_key_env``; never written anywhere."""
    base_url: BaseUrl | None = None
    """An endpoint in the place of the vendor's."""
    sandbox: Sandbox = "read-only"
    """What the agent may do: read its folder; also write there and run commands; or anything."""
    isolation: Isolation = "auto"
    """``auto``: inside bubblewrap where that works, so that nothing else can be written; ``bwrap``:
    or not at all; ``none``: without. Codex brings a sandbox of its own, and many containers let
    none nest: there ``bwrap`` with ``sandbox: danger-full-access`` leaves bubblewrap alone."""
    web_search: bool = False
    """Let the agent search the web."""
    timeout_s: PositiveFloat = 600.0
    """Seconds that one run of the program may take; then it is killed."""
    max_attempts: PositiveInt = 2
    """Runs per answer, if they fail in a way that may pass."""
    empty_retries: SkipJsonSchema[NonNegativeInt] = 1
    """How often an empty answer is asked for again, with a reminder."""
    max_concurrent: PositiveInt = 4
    """Runs at a time; each is a program of some hundred MB."""
    max_output_mb: SkipJsonSchema[PositiveFloat] = 16.0
    """What one run may print, in millions of bytes; then it is killed."""
    keep_output: str | None = None
    """A folder that keeps what each run printed, without the key; unset, a job keeps the latest
    20 that failed in its own folder, under ``exec``."""
    keep_failures: SkipJsonSchema[PositiveInt | None] = None
    """Keep only runs that failed, the latest so many; unset, ``keep_output`` keeps all."""
    hidden: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Files and folders that no program inside bubblewrap sees, beside the keys that people keep at
    home; every job adds its own folder and its data."""
    pass_env: tuple[Annotated[str, Field(pattern=f"^{VARIABLE}$")], ...] = ()
    """Further environment variables that the program is given; by default only what it needs."""
    prices: Prices | None = None
    """Unset, the cost is what the program says, and unknown where it says nothing."""

    no_answer_depends_on: ClassVar[frozenset[str]] = _NO_ANSWER_DEPENDS_ON
    # Field -> the variables that fill it where the configuration is silent, the first set one.
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "empty_retries": ("EXEC_EMPTY_RESPONSE_RETRIES",)
    }
    # Variable -> why it cannot be followed.
    refused_variables: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _ask_the_environment(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            return settings
        for name, reason in cls.refused_variables.items():
            if os.environ.get(name):
                raise ValueError(f"the environment variable {name} is set: {reason}")
        found = {
            field: value
            for field, names in cls.variables.items()
            if (value := next(filter(None, map(os.environ.get, names)), None))
        }
        return {**found, **settings}

    @field_validator("pass_env")
    @classmethod
    def _is_not_ours(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        taken = {"HOME", "TMPDIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR"} & set(names)
        if taken:
            raise ValueError(f"{min(taken)} is a fresh folder in every run; leave it out")
        return names

    @property
    def known_prices(self) -> Prices | None:
        """The prices that are given, else ``None``: the program says itself what a run cost."""
        return self.prices


class CodexExecConfig(ExecConfig):
    """The Codex command line (``codex exec``): an agent in a folder, or an optimizer."""

    backend: Literal["codex_exec"] = "codex_exec"
    path: str = "codex"
    """The program: a name on the ``PATH``, or a file."""
    api_key_env: str = "CODEX_API_KEY"
    """The environment variable that holds the key; where it is not set, the login of
    ``codex login`` is used."""
    effort: (
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "persistent"]
        | None
    ) = None
    """How hard the model works; unset, the program decides."""
    network: bool = False
    """Let commands reach the network; needs ``sandbox: workspace-write``."""

    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "path": ("CODEX_EXEC_PATH", "CODEX_CLI_BIN"),
        "sandbox": ("CODEX_EXEC_SANDBOX", "CODEX_SANDBOX_MODE"),
        "effort": ("CODEX_EXEC_REASONING_EFFORT",),
        "network": ("CODEX_EXEC_NETWORK_ACCESS",),
        "web_search": ("CODEX_EXEC_WEB_SEARCH",),
        "empty_retries": ("EXEC_EMPTY_RESPONSE_RETRIES",),
    }
    refused_variables: ClassVar[Mapping[str, str]] = {
        "CODEX_EXEC_PROFILE": "a profile lies in your own CODEX_HOME, which no run sees; unset it, "
        "and write model, effort and sandbox into the configuration",
    }

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.network and self.sandbox == "read-only":
            raise ValueError(
                "network: true needs sandbox: workspace-write; commands in a read-only folder have "
                "no network"
            )
        return self

    @property
    def pays_per_token(self) -> bool:
        """Whether a key is there; a login is a plan, which has no price per token."""
        names = (self.api_key_env, "CODEX_ACCESS_TOKEN")
        return bool(self.given_key) or any(os.environ.get(name, "").strip() for name in names)

    @property
    def known_prices(self) -> Prices | None:
        """The prices that are given, else those of the vendor's list, else ``None``."""
        return self.prices or list_prices(self.model, self.base_url or OPENAI_BASE_URL)


class ClaudeCodeExecConfig(ExecConfig):
    """The Claude Code command line (``claude -p``): an agent in a folder.

    Claude Code cannot cut the network of the commands that it runs; bubblewrap keeps their writes
    inside the folder.
    """

    backend: Literal["claude_code_exec"] = "claude_code_exec"
    path: str = "claude"
    """The program: a name on the ``PATH``, or a file."""
    api_key_env: str = "ANTHROPIC_API_KEY"
    """The environment variable that holds the key; where it is not set, ``ANTHROPIC_AUTH_TOKEN``,
    ``CLAUDE_CODE_OAUTH_TOKEN`` and the program's own login are tried."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """How hard the model works; unset, the program decides."""
    max_turns: Annotated[int, Field(ge=2)] = 40
    """Model calls per run."""
    max_budget_usd: SkipJsonSchema[PositiveFloat | None] = None
    """Estimated cost at which a run stops."""

    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "path": ("CLAUDE_CODE_EXEC_PATH", "CLAUDE_CLI_BIN"),
        "sandbox": ("CLAUDE_CODE_EXEC_SANDBOX",),
        "effort": ("CLAUDE_CODE_EXEC_EFFORT",),
        "empty_retries": ("EXEC_EMPTY_RESPONSE_RETRIES",),
    }
    refused_variables: ClassVar[Mapping[str, str]] = {
        "CLAUDE_CODE_EXEC_PROFILE": "a profile lies in your own settings, which no run sees; unset "
        "it, and write model, effort and sandbox into the configuration",
    }

    @model_validator(mode="after")
    def _runs_commands_inside_a_fence(self) -> Self:
        if self.sandbox == "workspace-write" and self.isolation == "none":
            raise ValueError(
                "sandbox: workspace-write needs bubblewrap here, because Claude Code has no "
                "sandbox of its own; set isolation: auto, or name it sandbox: danger-full-access"
            )
        return self
