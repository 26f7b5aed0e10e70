"""The commands of ``skillwright``."""

from typing import Annotated

import typer

from skillwright import __version__
from skillwright.cli import doctor, env, models, runs, training

app = typer.Typer(
    name="skillwright",
    help="Train the skills of LLM agents, behind a gate that lets proven improvements through.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
training.add_to(app)
app.command("doctor")(doctor.doctor)
app.add_typer(runs.app, name="runs")
app.add_typer(env.app, name="env")
app.add_typer(models.app, name="models")
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


def main() -> None:
    """Run the command line."""
    app()
