"""How the Codex command line is spoken to: ``codex exec``, read from its JSON events."""

import os
from collections.abc import Mapping
from pathlib import Path

from skillwright.core.jsonio import dumps
from skillwright.models.executors.codex_events import read_codex_events
from skillwright.models.executors.config import CodexExecConfig
from skillwright.models.executors.environment import Login, child_env, find_login
from skillwright.models.executors.model import CommandLine, Place, Request
from skillwright.models.executors.prompt import render_prompt, tell_mount
from skillwright.models.executors.report import ExecReport

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

    def argv(self, request: Request, place: Place) -> list[str]:
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

    def env(self, request: Request, place: Place) -> dict[str, str]:
        """Return the environment; Codex demands that its home is there."""
        del request
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
