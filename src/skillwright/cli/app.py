"""The commands of ``skillwright``."""

import gc
import io
import logging
import re
import sys
from ast import literal_eval
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from skillwright.cli.streams import keep_output_to_ourselves
from skillwright.entry_points import Command, entry_points
from skillwright.version import __version__

GROUP = "skillwright.commands"
"""The entry points of commands that packages add."""


class LazyCommand(TyperCommand):
    """A command or a group that is imported when it runs; help and completion need no import."""

    def __init__(self, name: str, about: Command) -> None:
        super().__init__(name, help=about.summary, rich_help_panel=about.heading)
        self._place = about.place

    def load(self) -> Any:
        """Import the command, and add plug-in commands to a group."""
        module, _, attribute = self._place.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            group = get_group(found)
            command: Any = group.commands.get(self.name or "", group)
        else:
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            command = get_command(alone)
        command.name = self.name
        if isinstance(command, TyperGroup):
            _add_plug_ins(command, f"{self.name}.")
        return command

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Import the command, and parse its arguments."""
        return self.load().make_context(*args, **settings)


class BrokenCommand(TyperCommand):
    """A plug-in command that cannot be imported; calling it explains why."""

    def __init__(self, name: str, package: str, error: Exception) -> None:
        super().__init__(name, help=f"Not available: {package} fails to import.")
        self._error = error

    def make_context(self, *args: Any, **settings: Any) -> Any:
        """Raise the import error with advice."""
        typer.echo(f"error: {self._error}", err=True)
        raise typer.Exit(2)


def _add_plug_ins(group: TyperGroup, prefix: str) -> None:
    """Add the commands whose entry points have the prefix, each at the place that it names."""
    for name, point in sorted(entry_points(GROUP).items()):
        short = name.removeprefix(prefix)
        if not name.startswith(prefix) or "." in short or short in group.commands:
            continue
        try:
            about: Command = point.load()
            command: TyperCommand = LazyCommand(short, about)
            before = about.before
        except Exception as error:  # noqa: BLE001 - the other commands stay available
            command, before = BrokenCommand(short, point.package, error), ""
        later = list(group.commands)
        later = later[later.index(before) :] if before in later else []
        group.add_command(command)
        for one in later:
            group.commands[one] = group.commands.pop(one)


_PLACES = {
    "regrade": "replay:regrade",
    "train": "training:app",
    "sft": "rl:sft",
    "internalize": "rl:internalize",
    "coevolve": "rl:coevolve",
    "resume": "training:app",
    "estimate": "estimate:estimate_command",
    "eval": "training:app",
    "runs": "runs:app",
    "report": "view:report",
    "config": "training:config_app",
    "fork": "replay:fork",
    "policy": "policy:app",
    "skill": "skill:app",
    "bank": "bank:app",
    "env": "env:app",
    "models": "models:app",
}
"""Where a command is in this package, if not under its own name in a module of that name."""
COMMANDS = {
    "Train": """
demo: Train a skill document, then a bank and a tiny policy: offline, no key, no GPU.
init: Write the configuration for a file of rows, or for a skill's folder with evals.
train: Train a skill document; ends with the best skill and its score on held-out tasks.
rl: Train a small policy with a skill bank: cold start, GRPO, evolution, final test.
sft: Train a policy on demonstrations alone, and compare it with its initial weights.
internalize: Distill skills into a run's released weights, and retire them if nothing is lost.
coevolve: Train a skill bank and a policy in alternation; a step that loses is reverted.
resume: Continue a stopped run or study; it ends as it would have without the stop.
doctor: Check what could stop a run: Python, disk, extras, environments, keys, endpoints.
estimate: Estimate calls, tokens and money of a training and an evaluation.
""",
    "Inspect": """
eval: Measure a skill: success by task type with intervals, and pass^k over several trials.
check: Is a changed skill better, not worse, or worse? Exit with 1 if worse or undecided.
compare: Compare two runs, paired by task: the effect with its interval, and which tasks flipped.
runs: Look into runs: episodes and what was prompted, decisions, costs; exports.
view: Show runs in a browser: tasks, verdicts, skills, episodes, costs; local.
report: Write a run as one HTML file, or as Markdown.
config: Look at configurations.
regrade: Score a run's stored episodes again; exit with 1 if a score changes.
replay: Play recorded actions in fresh environments; exit with 1 if anything differs.
fork: Continue a recorded episode from one of its turns, several times, with any skill.
""",
    "Skills": """
policy: Take trained weights out of a run.
skill: Versions of a trained skill document: look, compare, take away.
bank: Skill banks: distill, look into, evolve, move.
verify: Check an exported skill: rules, links, hashes, proof; exit with 1 if one fails.
""",
    "Data and environments": """
env: Look at environments, and begin one.
models: Look at model backends.
""",
}
"""The first line of each command of the core, by heading of the help."""


class Program(TyperGroup):
    """All commands, none of them imported yet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for heading, listed in COMMANDS.items():
            for line in listed.strip().splitlines():
                name, _, summary = line.partition(": ")
                place = f"skillwright.cli.{_PLACES.get(name, f'{name}:{name}')}"
                self.add_command(LazyCommand(name, Command(place, summary, heading)))
        _add_plug_ins(self, "")

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit quietly when its output is closed."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except typer.BadParameter as error:
            error.message = _with_nearest(error.message)
            raise
        except BrokenPipeError:
            from skillwright.cli.words import leave_quietly

            leave_quietly()
        return result


def _with_nearest(problem: str) -> str:
    """Name the nearest choice in typer's message on a value that is none of an option's."""
    found = re.fullmatch(r"Value error, (['\"].*['\"]) is not one of (.+)\.", problem)
    if found is None:
        return problem
    from skillwright.core import did_you_mean

    word, choices = literal_eval(found[1]), literal_eval(f"[{found[2]}]")
    return f"there is no {word!r}. {did_you_mean(word, choices)}"


app = typer.Typer(
    name="skillwright",
    cls=Program,
    help="Train the skills of LLM agents, behind a gate that lets proven improvements through.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"skillwright {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    # Imported here, because help does not need it and it is slow.
    from skillwright.cli.json_log import JsonFormatter, wants_json_log, why_no_log
    from skillwright.cli.words import PlainFormatter, is_worth_saying

    if problem := why_no_log():
        typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(2)
    if logging.lastResort is not None:  # what shows warnings by default
        logging.lastResort.setFormatter(JsonFormatter() if wants_json_log() else PlainFormatter())
        logging.lastResort.addFilter(is_worth_saying)


def run() -> None:
    """Parse the command line, and run its command."""
    # With a thousand calls in flight, the default collector takes a tenth of the time.
    gc.set_threshold(10_000, 10, 10)
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot encode a task's name must not end the run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    keep_output_to_ourselves()
    app()
