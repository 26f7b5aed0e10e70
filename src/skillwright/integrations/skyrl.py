"""Our environments behind ``skyrl_gym.make``; `skyrl_gym_env` has theirs in our engine.

Source: skyrl-gym 0.4 (NovaSky-AI/SkyRL).
"""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from skillwright.core import DataError
from skillwright.envs import TextEnv, spec, specs
from skillwright.integrations.skyrl_gym_env import skyrl_gym

TRAINER_COLUMNS: Final = (
    "ability",
    "data_source",
    "env_class",
    "extra_info",
    "prompt",
    "reward_model",
    "reward_spec",
    "uid",
)
"""Columns of SkyRL's data sets that say nothing of the episode to an environment of ours."""

_OURS: Final = "skillwright.envs."


def register_with_skyrl(names: Iterable[str] | None = None) -> list[str]:
    """Let ``skyrl_gym.make`` build our environments.

    Registering again changes nothing. A trainer that runs its environments in other processes
    calls this in each of them, as it does for every environment of its own.

    Args:
        names: Which ones, or which one, by the name that they have here; ``None`` for all that are
            installed and whose name is free there.

    Returns:
        The names that are ours there now.

    Raises:
        DataError: skyrl-gym is not installed, a name is unknown, or skyrl-gym has another
            environment of that name.
    """
    gym = skyrl_gym()
    wanted = [names] if isinstance(names, str) else names
    ours = []
    for name in list(specs()) if wanted is None else wanted:
        spec(name)
        taken = gym.registry.get(name)
        if taken is None:
            gym.register(name, entry_point=_ENTRY_POINT, kwargs={"name": name})
        elif taken.entry_point != _ENTRY_POINT:
            if names is None:
                continue
            raise DataError(
                f"skyrl-gym has an environment {name!r} already, {taken.entry_point!r}; deregister "
                "it first (skyrl_gym.envs.deregister)"
            )
        ours.append(name)
    return ours


def make_for_skyrl(
    name: str, env_config: object | None = None, extras: dict[str, Any] | None = None
) -> Any:
    """Build one episode's environment as an instance of skyrl-gym's ``BaseTextEnv``.

    Args:
        name: The name that it has here.
        env_config: Settings shared by all episodes; an empty one counts as none.
        extras: Settings of this episode: the columns of a row. Those that belong to SkyRL's own
            data (`TRAINER_COLUMNS`) an environment that ships with us is not given: it refuses what
            it does not know, so that a misspelt setting is no default.

    Raises:
        DataError: skyrl-gym is not installed, or the name is unknown.
    """
    found = spec(name)
    is_empty = isinstance(env_config, Mapping) and not env_config
    config = found.env_config if env_config is None or is_empty else env_config
    ours = found.load()
    columns = dict(extras or {})
    if ours.__module__.startswith(_OURS):
        columns = {name: of for name, of in columns.items() if name not in TRAINER_COLUMNS}
    return _gym_class(ours)(config, columns)


_ENTRY_POINT: Final = f"{__name__}:{make_for_skyrl.__name__}"


def _gym_class(ours: type[TextEnv]) -> type:
    """Return an environment class of ours that skyrl-gym takes for one of its own."""
    found = _gym_classes.get(ours)
    if found is not None:
        return found
    theirs: Any = importlib.import_module(f"{skyrl_gym().__name__}.envs.base_text_env").BaseTextEnv

    def build(self: Any, env_config: object | None, extras: dict[str, Any] | None) -> None:
        theirs.__init__(self)
        ours.__init__(self, env_config, extras)

    made = type(ours.__name__, (ours, theirs), {"__init__": build, "__module__": __name__})
    return _gym_classes.setdefault(ours, made)


_gym_classes: dict[type[TextEnv], type] = {}
