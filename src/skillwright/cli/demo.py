"""The command ``demo`` trains a skill document and then weights, offline."""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from skillwright.cli.faults import err, exit_codes
from skillwright.cli.options import NO_OVERRIDES, AsJson, Overrides
from skillwright.cli.rl import play
from skillwright.cli.training import play_training
from skillwright.cli.words import make_console, print_words
from skillwright.config import load_config, load_rl_config
from skillwright.core import ConfigError
from skillwright.jobs.run import demo_file
from skillwright.jobs.text import begin_run
from skillwright.jobs.weights import begin_rl, refuse_without_torch

_OF_BOTH = "run."

out = make_console()


class Half(StrEnum):
    """The half to run: text or weights."""

    TEXT = "text"
    WEIGHTS = "weights"


def demo(
    overrides: Overrides = NO_OVERRIDES,
    half: Annotated[Half | None, typer.Option(help="Run one half; unset, both.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a skill document, then a bank and a tiny policy: offline, no key, no GPU.

    In generated houses, with scripted models: under a minute for the text, a few for the weights.
    With --json, each half prints one object on one line.
    """
    with exit_codes():
        _refuse_ambiguous(overrides, half)
    if half != Half.WEIGHTS:
        _show_text(overrides, as_json)
    if half != Half.TEXT:
        _show_weights(overrides, as_json, is_asked_for=half is not None)


def _show_text(overrides: list[str], as_json: bool) -> None:
    with exit_codes(), demo_file("text") as path:
        run = asyncio.run(begin_run(load_config(path, overrides)))
    play_training(run, as_json)


def _show_weights(overrides: list[str], as_json: bool, *, is_asked_for: bool) -> None:
    console = err if as_json else out
    try:
        refuse_without_torch()
    except ConfigError as problem:
        if is_asked_for:
            with exit_codes():
                raise
        print_words(console, f"The other half, weights, was left out: {problem}")
        return
    if not is_asked_for:
        console.print("\n[bold]The other half: a bank of skills, and a policy that reads it.[/]\n")
    with exit_codes(), demo_file("weights") as path:
        run, maker = asyncio.run(begin_rl(load_rl_config(path, overrides)))
    play(run, as_json, maker)


def _refuse_ambiguous(overrides: list[str], half: Half | None) -> None:
    for setting in overrides if half is None else ():
        if not setting.startswith(_OF_BOTH):
            raise ConfigError(
                f"--set {setting} is about one half of the demo; say which, with --half text or "
                "--half weights"
            )
