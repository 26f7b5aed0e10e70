"""How the Claude Code command line is spoken to as an agent: ``claude -p``."""

from skillwright.core.jsonio import dumps
from skillwright.models.executors.claude_program import UNATTENDED, ClaudeProgram, claude_env
from skillwright.models.executors.config import ClaudeCodeExecConfig
from skillwright.models.executors.model import Place, Request
from skillwright.models.executors.prompt import render_prompt, tell_mount, without_mentions

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

    def argv(self, request: Request, place: Place) -> list[str]:
        """Return the arguments of one run; the prompt comes by stdin."""
        del place
        config = self.config
        tools = ",".join(self._tools(request))
        argv = ["-p", "--output-format", "stream-json", "--verbose", "--model", config.model]
        argv += ["--tools", tools, "--allowedTools", tools, *UNATTENDED]
        argv += ["--exclude-dynamic-system-prompt-sections", "--max-turns", str(config.max_turns)]
        if not request.mounted:
            argv += ["--disable-slash-commands"]
        if config.max_budget_usd is not None:
            argv += ["--max-budget-usd", f"{config.max_budget_usd:g}"]
        if config.effort is not None:
            argv += ["--effort", config.effort]
        if request.sampling.json_schema is not None:
            argv += ["--json-schema", dumps(request.sampling.json_schema)]
        return argv

    def env(self, request: Request, place: Place) -> dict[str, str]:
        """Return the environment of a run."""
        return claude_env(self.config, place, request.sampling.max_tokens)

    def _tools(self, request: Request) -> tuple[str, ...]:
        writes = request.acts and self.config.sandbox != "read-only"
        searches = request.acts and self.config.web_search
        return (*_READING, *(_WRITING if writes else ()), *(_SEARCHING if searches else ()))
