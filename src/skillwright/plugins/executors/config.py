"""Settings of the models that are programs at a command line."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
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

from skillwright.models.backends import Keyed
from skillwright.models.http.endpoint_config import OPENAI_BASE_URL, BaseUrl
from skillwright.models.prices import Prices, list_prices
from skillwright.models.validation import VARIABLE

_NO_ANSWER_DEPENDS_ON = frozenset(
    {
        *("backend", "model", "path", "api_key_env", "timeout_s", "max_concurrent"),
        *("max_attempts", "keep_output", "prices", "isolation", "pass_env"),
        *("keep_failures", "hidden"),
    }
)

_KEPT_FAILURES = 20

Sandbox = Literal["read-only", "workspace-write", "danger-full-access"]
Isolation = Literal["auto", "bwrap", "none"]


class ExecConfig(Keyed):
    """Program that is run once per answer."""

    backend: str
    model: Annotated[str, Field(min_length=1)]
    """Model name for the program."""
    path: Annotated[str, Field(min_length=1)]
    """Program name on ``PATH``, or a file."""
    api_key_env: str
    """Environment variable with the key; if it is not set, the program's login is used."""
    api_key: Annotated[SecretStr | None, Field(exclude=True, repr=False)] = None
    """Key, used before ``api_key_env``; never stored."""
    base_url: BaseUrl | None = None
    """Endpoint that replaces the vendor's."""
    sandbox: Sandbox = "read-only"
    """Permissions: read the folder; also write and run commands; or anything."""
    isolation: Isolation = "auto"
    """Bubblewrap: ``auto`` uses it where it works, ``bwrap`` requires it, ``none`` disables it."""
    web_search: bool = False
    """Allow web search."""
    timeout_s: PositiveFloat = 600.0
    """Seconds per run of the program."""
    max_attempts: PositiveInt = 2
    """Runs per answer, for temporary failures."""
    empty_retries: SkipJsonSchema[NonNegativeInt] = 1
    """How often an empty answer is asked for again, with a reminder."""
    max_concurrent: PositiveInt = 4
    """Maximum concurrent runs; each takes several hundred MB."""
    keep_output: str | None = None
    """Folder for the output of every run; unset, the latest 20 failures are in ``exec`` in the
    run's folder."""
    keep_failures: SkipJsonSchema[PositiveInt | None] = None
    """Keep only this many failed runs, the latest; unset, ``keep_output`` keeps all."""
    hidden: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Additional paths that are hidden from programs in bubblewrap."""
    pass_env: tuple[Annotated[str, Field(pattern=f"^{VARIABLE}$")], ...] = ()
    """Additional environment variables for the program."""
    prices: Prices | None = None
    """Prices; unset, the cost that the program reports, or unknown."""

    no_answer_depends_on: ClassVar[frozenset[str]] = _NO_ANSWER_DEPENDS_ON
    # Field -> the variables that fill it where the configuration is silent, the first set one.
    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "empty_retries": ("EXEC_EMPTY_RESPONSE_RETRIES",)
    }
    # Variable -> why it cannot be followed.
    refused_variables: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _with_environment_variables(cls, settings: Any) -> Any:
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
    def _check_pass_env(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        taken = {"HOME", "TMPDIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR"} & set(names)
        if taken:
            raise ValueError(f"{min(taken)} is a fresh folder in every run; leave it out")
        return names

    @property
    def address(self) -> str:
        """The endpoint that takes the place of the vendor's, or ""."""
        return self.base_url or ""

    @property
    def calls_tools(self) -> bool:
        """Never: programs have tools of their own."""
        return False

    def fenced(self, folder: Path, hidden: Sequence[Path]) -> Self:
        """Return settings that hide files from the program and keep the output of failed runs."""
        kept = {"keep_output": str(folder / "exec"), "keep_failures": _KEPT_FAILURES}
        return self.model_copy(
            update={
                **(kept if self.keep_output is None else {}),
                "hidden": (*self.hidden, *map(str, hidden)),
            }
        )

    def for_worker(self) -> Self:
        """Return settings that keep no output, which would stay on the worker."""
        return self.model_copy(update={"keep_output": None})


class CodexExecConfig(ExecConfig):
    """Codex command line (``codex exec``)."""

    backend: Literal["codex_exec"] = "codex_exec"
    path: str = "codex"
    api_key_env: str = "CODEX_API_KEY"
    """Environment variable with the key; if it is not set, the program's login is used."""
    effort: (
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "persistent"]
        | None
    ) = None
    """Reasoning effort; unset, the program's default."""
    network: bool = False
    """Allow network access for commands; needs ``sandbox: workspace-write``."""

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
        "and write model, effort and sandbox into the configuration"
    }

    @model_validator(mode="after")
    def _check_settings(self) -> Self:
        if self.network and self.sandbox == "read-only":
            raise ValueError(
                "network: true needs sandbox: workspace-write; commands in a read-only folder have "
                "no network"
            )
        return self

    @property
    def known_prices(self) -> Prices | None:
        """The prices in the settings, else the vendor's; a login has no price per token."""
        names = (self.api_key_env, "CODEX_ACCESS_TOKEN")
        has_key = self.given_key or any(os.environ.get(name, "").strip() for name in names)
        listed = list_prices(self.model, self.base_url or OPENAI_BASE_URL) if has_key else None
        return self.prices or listed


class ClaudeCodeExecConfig(ExecConfig):
    """Claude Code command line (``claude -p``), as target only.

    Claude Code cannot cut the network of the commands that it runs; bubblewrap keeps their writes
    inside the folder.
    """

    backend: Literal["claude_code_exec"] = "claude_code_exec"
    path: str = "claude"
    api_key_env: str = "ANTHROPIC_API_KEY"
    """Environment variable with the key; if it is not set, the program's login is used."""
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    """Reasoning effort; unset, the program's default."""
    max_turns: Annotated[int, Field(ge=2)] = 40
    """Model calls per run."""

    variables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "path": ("CLAUDE_CODE_EXEC_PATH", "CLAUDE_CLI_BIN"),
        "sandbox": ("CLAUDE_CODE_EXEC_SANDBOX",),
        "effort": ("CLAUDE_CODE_EXEC_EFFORT",),
        "empty_retries": ("EXEC_EMPTY_RESPONSE_RETRIES",),
    }
    refused_variables: ClassVar[Mapping[str, str]] = {
        "CLAUDE_CODE_EXEC_PROFILE": "a profile lies in your own settings, which no run sees; unset "
        "it, and write model, effort and sandbox into the configuration"
    }

    @model_validator(mode="after")
    def _check_sandbox(self) -> Self:
        if self.sandbox == "workspace-write" and self.isolation == "none":
            raise ValueError(
                "sandbox: workspace-write needs bubblewrap here, because Claude Code has no "
                "sandbox of its own; set isolation: auto, or name it sandbox: danger-full-access"
            )
        return self

    @property
    def reports_cost(self) -> bool:
        """Whether its reported cost is valid; with ``base_url``, it uses its vendor's prices."""
        return self.base_url is None
