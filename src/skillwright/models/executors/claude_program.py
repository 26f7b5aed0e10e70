"""What both ways to run the ``claude`` program share: its key, its environment and its result."""

from pathlib import Path

from skillwright.models.executors.claude_events import read_claude_events
from skillwright.models.executors.config import ExecConfig
from skillwright.models.executors.environment import Login, child_env, find_login
from skillwright.models.executors.model import CommandLine, Config, Place
from skillwright.models.executors.report import ExecReport

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


def claude_env(config: ExecConfig, place: Place, max_tokens: int | None) -> dict[str, str]:
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
