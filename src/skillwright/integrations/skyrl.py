"""SkyRL-Gym, both ways: our environments behind ``skyrl_gym.make``, and theirs in our engine.

Source: skyrl-gym 0.4 (NovaSky-AI/SkyRL).
"""

import asyncio
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from skillwright.core import DataError, Message, did_you_mean
from skillwright.envs import StepOutput, TextEnv, spec, specs

INSTALL: Final = "pip install 'skillwright[skyrl]'"


def register_with_skyrl(names: Iterable[str] | None = None) -> list[str]:
    """Let ``skyrl_gym.make`` build our environments.

    Registering again changes nothing. A trainer that runs its environments in other processes
    calls this in each of them, as it does for every environment of its own.

    Args:
        names: Which ones, by the name that they have here; ``None`` for all that are installed and
            whose name is free there.

    Returns:
        The names that are ours there now.

    Raises:
        DataError: skyrl-gym is not installed, a name is unknown, or skyrl-gym has another
            environment of that name.
    """
    gym = _skyrl_gym()
    ours = []
    for name in list(specs()) if names is None else names:
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
        extras: Settings of this episode: the columns of a row.

    Raises:
        DataError: skyrl-gym is not installed, or the name is unknown.
    """
    found = spec(name)
    is_empty = isinstance(env_config, Mapping) and not env_config
    config = found.env_config if env_config is None or is_empty else env_config
    return _gym_class(found.load())(config, extras)


_ENTRY_POINT: Final = f"{__name__}:{make_for_skyrl.__name__}"


def _gym_class(ours: type[TextEnv]) -> type:
    """Return an environment class of ours that skyrl-gym takes for one of its own."""
    found = _gym_classes.get(ours)
    if found is not None:
        return found
    theirs: Any = importlib.import_module(f"{_skyrl_gym().__name__}.envs.base_text_env").BaseTextEnv

    def build(self: Any, env_config: object | None, extras: dict[str, Any] | None) -> None:
        theirs.__init__(self)
        ours.__init__(self, env_config, extras)

    made = type(ours.__name__, (ours, theirs), {"__init__": build, "__module__": __name__})
    return _gym_classes.setdefault(ours, made)


_gym_classes: dict[type[TextEnv], type] = {}


class SkyRLGymEnv(TextEnv):
    """An environment of skyrl-gym, unchanged, for our engine.

    Its blocking calls run in threads, so that one search does not hold up the other episodes.

    Args:
        env_config: ``env_class``, the name in skyrl-gym's registry, and ``config``, the settings
            that the environment reads, such as ``search_url``.
        extras: A row of its data set: ``prompt``, a list of messages, and the columns that the
            environment asks for, such as ``reward_spec``. ``env_class`` may stand here too.

    Raises:
        DataError: skyrl-gym is not installed, the environment is unknown, or it refuses the row.
    """

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, extras)
        settings = env_config if isinstance(env_config, Mapping) else {}
        name = self.extras.get("env_class") or settings.get("env_class")
        self._prompt: Any = self.extras.get("prompt")
        if not isinstance(name, str) or not isinstance(self._prompt, Sequence):
            raise DataError(
                "an environment of skyrl-gym needs env_class (its name there, such as 'gsm8k') and "
                "a row with a prompt, a list of messages"
            )
        self._gym_env = _make(name, settings.get("config") or {}, self.extras)

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Open the episode with the row's prompt, behind the messages that come before it."""
        messages, metadata = self._gym_env.init([*prompt, *self._prompt])
        return list(messages), dict(metadata or {})

    def step(self, action: str) -> StepOutput:
        """Take one action."""
        self.turns += 1
        output = self._gym_env.step(action)
        return StepOutput(
            observations=list(output["observations"]),
            reward=float(output["reward"]),
            done=bool(output["done"]),
            metadata=dict(output.get("metadata") or {}),
        )

    async def ainit(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Do what `init` does, in a thread."""
        return await asyncio.to_thread(self.init, prompt)

    async def astep(self, action: str) -> StepOutput:
        """Do what `step` does, in a thread."""
        return await asyncio.to_thread(self.step, action)

    def close(self) -> None:
        """Release what the episode holds."""
        self._gym_env.close()

    def get_metrics(self) -> dict[str, float]:
        """Return the numbers among the environment's metrics."""
        metrics = self._gym_env.get_metrics() or {}
        return {name: float(n) for name, n in metrics.items() if isinstance(n, int | float)}


def _make(name: str, config: Mapping[str, Any], extras: dict[str, Any]) -> Any:
    gym = _skyrl_gym()
    if name not in gym.registry:
        near = did_you_mean(name, gym.registry)
        raise DataError(f"skyrl-gym has no environment {name!r}. {near}")
    given = {key: value for key, value in extras.items() if key not in ("prompt", "env_class")}
    # Its environments read settings as attributes, from what its trainer parses them into.
    settings = importlib.import_module("omegaconf").OmegaConf.create(dict(config))
    try:
        return gym.make(name, env_config=settings, extras=given)
    except (AssertionError, KeyError, TypeError, ValueError, OSError, NotImplementedError) as error:
        why = str(error) or type(error).__name__
        raise DataError(f"skyrl-gym's {name!r} refuses its row or its settings: {why}") from error


def _skyrl_gym() -> Any:
    try:
        return importlib.import_module("skyrl_gym")
    except ImportError as error:
        raise DataError(f"skyrl-gym is not installed ({error}); {INSTALL}") from error
