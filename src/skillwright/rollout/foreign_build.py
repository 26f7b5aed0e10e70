"""An adapter, found by its name and built from a run's configuration."""

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from skillwright.core import ConfigError, SkillwrightError, did_you_mean
from skillwright.envs.adapter import EnvAdapter
from skillwright.envs.registry import spec
from skillwright.rollout.foreign import Around, ForeignAdapter

_NEVER_PASSED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def load_adapter(name: str) -> type[EnvAdapter] | None:
    """Find the adapter class of a name, ``package.module:Class`` or ``path/to/file.py:Class``.

    Returns:
        The class, or ``None`` where the name is that of a text environment.

    Raises:
        DataError: Nothing is found under the name, or it cannot be imported.
        ConfigError: The class is an adapter that leaves methods of the contract unwritten.
    """
    found = spec(name).find()
    if not (isinstance(found, type) and issubclass(found, EnvAdapter)):
        return None
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(
            f"adapter {name!r} does not write {', '.join(missing)}(); every adapter needs "
            "build_train_env, build_eval_env, rollout and get_task_types"
        )
    return found


def constructor_arguments(
    adapter_type: type[EnvAdapter], cfg: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """Return what a constructor is given: each of its parameters that the configuration names."""
    parameters = [
        one
        for one in inspect.signature(adapter_type).parameters.values()
        if one.kind not in _NEVER_PASSED
    ]
    for one in parameters:
        if one.default is inspect.Parameter.empty and one.name not in cfg:
            raise ConfigError(
                f"adapter {name!r} needs {one.name!r}, and the configuration does not have it. "
                f"{did_you_mean(one.name, cfg)} Set env.config.{one.name}."
            )
    return {one.name: cfg[one.name] for one in parameters if one.name in cfg}


async def build_adapter(
    adapter_type: type[EnvAdapter],
    cfg: Mapping[str, Any],
    name: str,
    around: Around = nullcontext,
) -> ForeignAdapter:
    """Build an adapter, and refuse one that cannot be run here.

    Raises:
        ConfigError: An argument is missing, the constructor raised, or the adapter needs Ray.
    """
    arguments = constructor_arguments(adapter_type, cfg, name)
    try:
        foreign = await ForeignAdapter.build(adapter_type, arguments, around)
        needs_ray = await foreign.call(foreign.adapter.requires_ray)
    except SkillwrightError:
        raise
    except Exception as error:
        raise ConfigError(
            f"adapter {name!r} cannot be built: {type(error).__name__}: {error}. It was given "
            f"{', '.join(sorted(arguments)) or 'no arguments'}; its settings stand in env.config."
        ) from error
    if needs_ray:
        foreign.close()
        raise ConfigError(
            f"adapter {name!r} rolls out on Ray (requires_ray() is true), and this version has no "
            "Ray rollouts. Let requires_ray() return False and roll out with a thread pool, or as "
            "'async def rollout'."
        )
    return foreign
