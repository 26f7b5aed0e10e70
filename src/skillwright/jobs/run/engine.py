"""The rollout engine of all jobs, for our own environments."""

from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

from skillwright.config import RlConfig, RunConfig
from skillwright.config.env import EnvSection
from skillwright.core import Agent, Task
from skillwright.envs import EnvSpec, TextEnv, spec
from skillwright.jobs.run.memory import EngineEvents
from skillwright.jobs.run.tasks import environment_of
from skillwright.rollout import EpisodeRecorder, Limits, LocalEngine, MakeEnv, PromptStyle
from skillwright.rollout.engine import Permit
from skillwright.rollout.player import Mode


def make_engine(
    config: RunConfig | RlConfig,
    agent: Agent,
    recorder: EpisodeRecorder | None,
    seen: EngineEvents,
    permit: Permit = nullcontext,
    *,
    mode: Mode = "free",
    max_turns: int | None = None,
) -> LocalEngine:
    """Return the engine in which an agent plays the configured environment."""
    rollout = config.rollout
    return LocalEngine(
        agent,
        make_env(config.env),
        limits=Limits.of(rollout, max_turns=max_turns or config.env.max_turns),
        prompt=PromptStyle(history_turns=rollout.history_turns),
        recorder=recorder,
        mode=mode,
        env_identity=env_identity(config.env),
        observer=seen,
        permit=permit,
    )


class _Builds:
    """Builds environments; an unpickled copy imports the class on first use."""

    def __init__(self, spec: EnvSpec, settings: object | None) -> None:
        self._spec = spec
        self._settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        return _Builds, (self._spec, self._settings)

    @cached_property
    def found(self) -> type[TextEnv]:
        """The environment's class."""
        return self._spec.load()

    def __call__(self, task: Task) -> TextEnv:
        return self.found(env_config=self._settings, extras=dict(task.extras))


def make_env(env: EnvSection) -> MakeEnv:
    """Return a function that builds the environment of a task."""
    builds = _Builds(replace(spec(env.name), env_config=None), _env_config(env))
    _ = builds.found  # raise an error for a missing class early
    return builds


def env_identity(env: EnvSection) -> dict[str, Any]:
    """Return the facts that identify an environment's episodes for reuse."""
    version = spec(env.name).load().version
    return {
        "config": _env_config(env),
        "version": version,
        **environment_of(env).identity(env.config),
    }


def _env_config(env: EnvSection) -> object | None:
    """Return the configured settings of an environment, or else the registered ones."""
    return env.config or spec(env.name).env_config
