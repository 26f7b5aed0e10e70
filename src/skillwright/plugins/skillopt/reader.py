"""Reads SkillOpt's configurations: files, options in its names, its defaults, a run's mode."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skillwright.config.readers import Mode, Reading
from skillwright.config.run import RunConfig
from skillwright.config.yaml_files import Layer, key_paths
from skillwright.plugins.skillopt import parity, parity_report
from skillwright.plugins.skillopt.config.files import (
    is_skillopt,
    only_in_base,
    resolve_layers,
    translate,
)
from skillwright.plugins.skillopt.config.keys import KEYS
from skillwright.plugins.skillopt.config.reading import in_our_names, sort_options
from skillwright.plugins.skillopt.environment import ignored_variables, settings_from_environment


class SkillOptReader:
    """The reader of SkillOpt's configurations; see `skillwright.config.readers.ConfigReader`."""

    def read(self, reading: Reading) -> Reading:
        """Translate a file of SkillOpt's, and options in its names."""
        is_theirs = is_skillopt(reading.values)
        known = [place.path for place in key_paths(RunConfig)]
        options = sort_options(reading.overrides, reading.their_options, known, is_theirs=is_theirs)
        if not is_theirs:
            overrides = [*in_our_names(options.theirs), *options.ours]
            return replace(reading, overrides=overrides, their_options=())
        layers = [*reading.layers, *_compatible(reading, options.ours), *options.layer]
        values, warnings = translate(resolve_layers(layers), quiet=only_in_base(layers))
        return replace(
            reading,
            values=values,
            overrides=options.ours,
            their_options=(),
            warnings=[*reading.warnings, *warnings],
        )

    def fill_in(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add SkillOpt's defaults for keys that are not given."""
        return parity.fill_in(values)

    def model_settings(
        self, settings: Mapping[str, Any], role: str, environ: Mapping[str, str]
    ) -> Mapping[str, Any]:
        """Fill in unset settings of a role's model from SkillOpt's variables."""
        return settings_from_environment(settings, role, environ)

    def ignored_variables(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return SkillOpt's variables that are set without effect, with the reason."""
        return ignored_variables(environ)

    def mode(self, config: RunConfig) -> Mode:
        """Return the mode of a run, and its differences from SkillOpt."""
        return parity_report.mode(config)

    def tables(self, config: RunConfig) -> Sequence[Any]:
        """Return the tables of ``doctor --parity``."""
        return parity_report.tables(config)

    def flat_names(self) -> Mapping[str, str]:
        """Return SkillOpt's flat names with the paths of equivalent keys."""
        return {key.flat: key.ours for key in KEYS if key.copied and key.ours and key.flat}


def _compatible(reading: Reading, overrides: Sequence[str]) -> list[Layer]:
    """Return a layer that marks the file as an adapter's, which may provide its own data."""
    said = [one.partition("=")[2] for one in overrides if one.startswith("env.compat=")]
    return [Layer(reading.path, {"env": {"compat": said[-1]}})] if said else []
