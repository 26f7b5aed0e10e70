"""The commands of ``skillwright``."""

import gc
import io
import logging
import sys
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
        del args, settings
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


_TRAIN, _INSPECT, _SKILLS = "Train", "Inspect", "Skills"
_DATA = "Data and environments"
_HERE = "skillwright.cli"
COMMANDS = (
    (
        "demo",
        "demo:demo",
        "Train a skill document, then a bank and a tiny policy: offline, no key, no GPU.",
        _TRAIN,
    ),
    (
        "init",
        "init:init",
        "Write the configuration for a file of rows, or for a skill's folder with evals.",
        _TRAIN,
    ),
    (
        "train",
        "training:app",
        "Train a skill document; ends with the best skill and its score on held-out tasks.",
        _TRAIN,
    ),
    (
        "rl",
        "rl:rl",
        "Train a small policy with a skill bank: cold start, GRPO, evolution, final test.",
        _TRAIN,
    ),
    (
        "sft",
        "rl:sft",
        "Train a policy on demonstrations alone, and compare it with its initial weights.",
        _TRAIN,
    ),
    (
        "internalize",
        "rl:internalize",
        "Distill skills into a run's released weights, and retire them if nothing is lost.",
        _TRAIN,
    ),
    (
        "coevolve",
        "rl:coevolve",
        "Train a skill bank and a policy in alternation; a step that loses is reverted.",
        _TRAIN,
    ),
    (
        "resume",
        "training:app",
        "Continue a stopped run or study; it ends as it would have without the stop.",
        _TRAIN,
    ),
    (
        "doctor",
        "doctor:doctor",
        "Check what could stop a run: Python, disk, extras, environments, keys, endpoints.",
        _TRAIN,
    ),
    (
        "estimate",
        "estimate:estimate_command",
        "Estimate calls, tokens and money of a training and an evaluation.",
        _TRAIN,
    ),
    (
        "eval",
        "training:app",
        "Measure a skill: success by task type with intervals, and pass^k over several trials.",
        _INSPECT,
    ),
    (
        "check",
        "check:check",
        "Is a changed skill better, not worse, or worse? Exit with 1 if worse or undecided.",
        _INSPECT,
    ),
    (
        "compare",
        "compare:compare",
        "Compare two runs, paired by task: the effect with its interval, and which tasks flipped.",
        _INSPECT,
    ),
    (
        "runs",
        "runs:app",
        "Look into runs: episodes and what was prompted, decisions, costs; exports.",
        _INSPECT,
    ),
    (
        "view",
        "view:view",
        "Show runs in a browser: tasks, verdicts, skills, episodes, costs; local.",
        _INSPECT,
    ),
    ("report", "view:report", "Write a run as one HTML file, or as Markdown.", _INSPECT),
    ("config", "training:config_app", "Look at configurations.", _INSPECT),
    (
        "regrade",
        "regrade:regrade",
        "Score a run's stored episodes again; exit with 1 if a score changes.",
        _INSPECT,
    ),
    (
        "replay",
        "replay:replay",
        "Play recorded actions in fresh environments; exit with 1 if anything differs.",
        _INSPECT,
    ),
    (
        "fork",
        "replay:fork",
        "Continue a recorded episode from one of its turns, several times, with any skill.",
        _INSPECT,
    ),
    ("policy", "policy:app", "Take trained weights out of a run.", _SKILLS),
    (
        "skill",
        "skill:app",
        "Versions of a trained skill document: look, compare, take away.",
        _SKILLS,
    ),
    ("bank", "bank:app", "Skill banks: distill, look into, evolve, move.", _SKILLS),
    (
        "verify",
        "verify:verify",
        "Check an exported skill: rules, links, hashes, proof; exit with 1 if one fails.",
        _SKILLS,
    ),
    ("env", "env:app", "Look at environments, and begin one.", _DATA),
    ("models", "models:app", "Look at model backends.", _DATA),
)
"""Name, place in this package, first line and heading of every command of the core."""


class Program(TyperGroup):
    """All commands, none of them imported yet."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, place, summary, heading in COMMANDS:
            self.add_command(LazyCommand(name, Command(f"{_HERE}.{place}", summary, heading)))
        _add_plug_ins(self, "")

    def invoke(self, ctx: Any) -> Any:
        """Run a command; exit quietly when its output is closed."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            from skillwright.cli.words import leave_quietly

            leave_quietly()
        return result


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
    del version
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
