"""Readers of other systems' configuration files.

A package adds a reader by an entry point of ``skillwright.config_readers`` that names its class.
Every reader gets every file of text training; it translates files of its own system and returns
others unchanged.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from skillwright.config.yaml_files import Layer, Values
from skillwright.core import ConfigError
from skillwright.core.settings import Settings
from skillwright.entry_points import entry_points

READERS = "skillwright.config_readers"
"""Entry-point group of readers."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A configuration that is being read.

    Attributes:
        layers: The file and those it inherits from, the base first.
        values: The merged layers; after reading, in our sections.
        overrides: ``section.key=value`` settings that override the file.
        their_options: The same in the names of another system (``--cfg-options``).
    """

    path: Path
    layers: Sequence[Layer]
    values: Values
    overrides: Sequence[str] = ()
    their_options: Sequence[str] = ()
    warnings: Sequence[str] = ()


class Mode(NamedTuple):
    """How the defaults of a run relate to those of another system.

    Attributes:
        lines: One line for the mode, then one per setting that differs.
        facts: The same as JSON values by name.
    """

    lines: tuple[str, ...] = ()
    facts: dict[str, Any] = {}  # noqa: RUF012 - never changed


class ConfigReader(Protocol):
    """Reads configuration files of another system."""

    def read(self, reading: Reading) -> Reading:
        """Translate a file of the other system, and options in its names, into our sections.

        Raises:
            ConfigError: A key or value is wrong; the message names the nearest right one.
        """

    def fill_in(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the other system's defaults for keys that are not given, if ``run.parity``."""

    def model_settings(
        self, settings: Mapping[str, Any], role: str, environ: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Fill in unset settings of a role's model from the other system's variables.

        Raises:
            ConfigError: A variable has a wrong or unsupported value.
        """

    def ignored_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the other system's variables that are set without effect, with the reason."""

    def mode(self, config: Any) -> Mode:
        """Return how the defaults of a `RunConfig` relate to the other system's."""

    def tables(self, config: Any) -> Sequence[Any]:
        """Return the `rich` tables of a `RunConfig` for ``doctor --parity``."""

    def flat_names(self) -> Mapping[str, str]:
        """Return the flat names that its adapters use, each with the path of our key."""


def config_readers() -> tuple[ConfigReader, ...]:
    """Return the readers of all installed packages."""
    return tuple(point.load()() for point in entry_points(READERS).values())


def read_with_all(reading: Reading) -> Reading:
    """Have every reader read a configuration.

    Raises:
        ConfigError: See `ConfigReader.read`; or no reader takes ``their_options``.
    """
    for reader in config_readers():
        reading = reader.read(reading)
    if reading.their_options:
        raise ConfigError(
            f"--cfg-options {reading.their_options[0]!r}: no installed reader of configurations "
            "takes it; write --set section.key=value"
        )
    return reading


def fill_in(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add another system's defaults for keys that are not given, if ``run.parity`` is true."""
    run = values.get("run")
    asked = run.get("parity") if isinstance(run, Mapping) else getattr(run, "parity", False)
    if asked is not True:
        return values
    readers = config_readers()
    if not readers:
        raise ValueError("run.parity needs the plug-in that knows the other system's defaults")
    for reader in readers:
        values = reader.fill_in(values)
    return values


def settings_from_environment(settings: Mapping[str, Any], role: str) -> Mapping[str, Any]:
    """Fill in unset settings of a role's model from environment variables of other systems."""
    for reader in config_readers():
        settings = reader.model_settings(settings, role, os.environ)
    return settings


def ignored_variables() -> dict[str, str]:
    """Return the variables of other systems that are set without effect, with the reason."""
    found = [reader.ignored_variables(os.environ) for reader in config_readers()]
    return {name: why for each in found for name, why in each.items()}


def mode_of(config: Settings) -> Mode:
    """Return how the defaults of a run relate to those of all systems with a reader."""
    modes = [reader.mode(config) for reader in config_readers()]
    facts = {name: fact for mode in modes for name, fact in mode.facts.items()}
    return Mode(tuple(line for mode in modes for line in mode.lines), facts)
