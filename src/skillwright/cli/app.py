"""The commands of ``skillwright``."""

import gc
import io
import logging
import sys
from typing import Annotated

import typer

from skillwright import __version__
from skillwright.cli import bank, data, doctor, env, models, runs, training
from skillwright.cli.compare import compare
from skillwright.cli.demo import demo
from skillwright.cli.estimate import estimate_command
from skillwright.cli.regrade import regrade
from skillwright.cli.rl import rl
from skillwright.cli.streams import keep_output_to_ourselves
from skillwright.cli.words import PlainFormatter

app = typer.Typer(
    name="skillwright",
    help="Train the skills of LLM agents, behind a gate that lets proven improvements through.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
training.add_to(app)
app.command("demo")(demo)
app.command("rl")(rl)
app.command("doctor")(doctor.doctor)
app.command("estimate")(estimate_command)
app.command("compare")(compare)
app.command("regrade")(regrade)
app.add_typer(runs.app, name="runs")
app.add_typer(bank.app, name="bank")
app.add_typer(env.app, name="env")
app.add_typer(models.app, name="models")
app.add_typer(data.app, name="data")
app.add_typer(training.config_app, name="config")


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
    if logging.lastResort is not None:  # what shows warnings where nobody chose something else
        logging.lastResort.setFormatter(PlainFormatter())


def run() -> None:
    """Parse the command line, and run its command."""
    # A thousand calls in flight are so many young objects that Python, left to itself, would spend
    # a tenth of the time looking for garbage among them.
    gc.set_threshold(10_000, 10, 10)
    for stream in (sys.stdout, sys.stderr):
        # A console that cannot write a task's name must not end the run that it shows.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    keep_output_to_ourselves()
    app()
