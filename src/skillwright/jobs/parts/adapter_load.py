"""The adapter that a configuration names, and what its code needs around it while it runs."""

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from skillwright.config.env import EnvSection
from skillwright.config.skillopt_benchmarks import how_to_play
from skillwright.core import ConfigError, DataError
from skillwright.envs import EnvAdapter
from skillwright.integrations.skillopt_alias import missing_names, module_of, skillopt_alias
from skillwright.rollout.foreign import Around, ForeignAdapter
from skillwright.rollout.foreign_build import build_adapter, load_adapter

_log = logging.getLogger(__name__)


def find_adapter(env: EnvSection) -> type[EnvAdapter] | None:
    """Find the adapter class that ``env.name`` names; ``None`` for a text environment."""
    try:
        with missing_names() as missed, around(env)():
            found = load_adapter(_import_name(env))
    except DataError as error:
        if how_to_play(env.name):
            raise DataError(f"{error}{how_to_play(env.name)}") from error
        missing = getattr(error.__cause__, "name", None) or ""
        if env.compat is None and missing.partition(".")[0] == "skillopt":
            raise DataError(
                f"{env.name!r} imports from 'skillopt'. To run it over our code, set env.compat: "
                "skillopt, or say --compat skillopt"
            ) from error
        raise
    if found is None and env.compat is not None:
        raise ConfigError(
            f"{env.name!r} is an environment of ours, and env.compat lends modules to an adapter: "
            f"leave it out, or name an adapter.{how_to_play(env.name)}"
        )
    for said in missed:  # a fallback for an older release, or the beginning of a silent zero
        _log.warning("%s was loaded without something that it looked for: %s", env.name, said)
    return found


def is_adapter(env: EnvSection) -> bool:
    """Tell an adapter, which plays by itself, from a text environment; raises as `find_adapter`."""
    return find_adapter(env) is not None


def around(env: EnvSection) -> Around:
    """Return what opens the modules that the adapter's code imports; see `skillopt_alias`."""
    return partial(skillopt_alias, _file(env)) if env.compat == "skillopt" else nullcontext


async def make_adapter(env: EnvSection, settings: Mapping[str, Any]) -> ForeignAdapter:
    """Build the adapter that ``env.name`` names, from a flat configuration."""
    found = find_adapter(env)
    if found is None:
        raise ConfigError(f"{env.name!r} is no EnvAdapter, so it has no splits of its own")
    return await build_adapter(found, settings, env.name, around(env))


def _import_name(env: EnvSection) -> str:
    """Return the name to load it by: ``skillopt.envs.<name>...`` where its file lies so."""
    file = _file(env)
    inside = module_of(file) if file is not None and env.compat == "skillopt" else ""
    return f"{inside}:{env.name.rpartition(':')[2]}" if inside else env.name


def _file(env: EnvSection) -> Path | None:
    module = env.name.rpartition(":")[0]
    return Path(module) if module.endswith(".py") else None
