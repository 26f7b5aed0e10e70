"""What every job opens: one client, one budget, and models behind their cache.

Programs are fenced off from the run.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from skillwright.config.env import EnvSection
from skillwright.config.rl import RlConfig
from skillwright.config.run import RunConfig, why_here_only
from skillwright.core import Agent, ChatModel, ConfigError, Task
from skillwright.core.waits import waiting
from skillwright.datasets import cache_dir
from skillwright.envs import TextEnv, spec
from skillwright.envs.registry import EnvSpec
from skillwright.jobs.run.memory import EngineEvents, StoredCalls
from skillwright.jobs.run.money import Budget
from skillwright.jobs.run.progress import Callback
from skillwright.jobs.run.tasks import environment_of, is_adapter, side_models
from skillwright.models import EndpointConfig, ExecConfig, HttpClient, ModelConfig, agent_of
from skillwright.models.cache import cached
from skillwright.plugins.ray.engine import RaySettings, ray_pool
from skillwright.rollout import (
    Engine,
    EpisodeRecorder,
    Limits,
    LocalEngine,
    MakeEnv,
    PromptStyle,
)
from skillwright.rollout.engine import Permit
from skillwright.rollout.player import Mode
from skillwright.rollout.pool import PooledEngine, WorkerPool
from skillwright.runs import RunStore

MakeModel = Callable[[ModelConfig, HttpClient], ChatModel]
"""Makes a model of its settings; a notebook or a test may hand in its own."""

_KEPT_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Opened:
    """What a job holds open; it is closed at the end, models and all that was entered since."""

    client: HttpClient
    budget: Budget
    seen: EngineEvents
    held: AsyncExitStack
    elsewhere: "Elsewhere"
    _env: EnvSection
    _store: RunStore
    _make: MakeModel

    def model(self, config: ModelConfig) -> ChatModel:
        """Open a model."""
        return self.held.enter_context(
            opened_model(config, self.client, self._make, self._store, self._env)
        )

    def calls(self, model: ChatModel, permit: Callable[[str], Any] | None = None) -> StoredCalls:
        """Return a model whose answers are stored, and for which a permit is asked."""
        asked = partial(permit or self.budget.permit, "call")
        return StoredCalls(model, self._store, self.seen.callback, permit=asked)


@asynccontextmanager
async def opened(
    config: RunConfig | RlConfig,
    store: RunStore,
    callback: Callback,
    make: MakeModel,
    after: int = 0,
) -> AsyncIterator[Opened]:
    """Open what a job needs to play and to ask."""
    async with HttpClient() as client, AsyncExitStack() as held:
        budget = Budget(config.budget, store, after=after)
        seen = EngineEvents(callback, budget.note, lambda: client.limits.in_flight)
        elsewhere = Elsewhere(await opened_pool(config, held), make, config.env)
        yield Opened(client, budget, seen, held, elsewhere, config.env, store, make)


@contextmanager
def opened_model(
    config: ModelConfig,
    client: HttpClient,
    make: MakeModel,
    store: RunStore,
    env: EnvSection | None = None,
    *more: Path,
) -> Iterator[ChatModel]:
    """Make the model of a role, with the cache before it that its settings name.

    A program sees neither the folder of the store nor the data: it would find the answers there,
    whether it acts, proposes or teaches. What it printed when it failed is kept in that folder.
    """
    path = config.cache if isinstance(config, EndpointConfig) else None
    hidden = (store.folder, *(_data_places(env) if env is not None else ()), *more)
    with cached(make(_fenced(config, store.folder, hidden), client), path) as model:
        yield model


def _data_places(env: EnvSection) -> list[Path]:
    """List where answers may lie: the data, what was fetched, and every path in the settings.

    Settings of environments and adapters are their own affair, so each text in them that is the
    name of a file or folder counts; not the working directory, nor what it lies in.
    """
    variables = (value for name, value in os.environ.items() if name.startswith("SKILLWRIGHT_"))
    data = env.data.model_dump().get("path")
    return [*_places([*_texts(data), *_texts(env.config), *variables]), cache_dir()]


def _places(named: Iterable[str]) -> list[Path]:
    places = [Path(text) for text in named if text]
    here = Path.cwd()
    return [one for one in places if _exists(one) and not here.is_relative_to(one.resolve())]


def _texts(settings: Any) -> Iterator[str]:
    match settings:
        case str():
            yield settings
        case Mapping():
            yield from (text for value in settings.values() for text in _texts(value))
        case list() | tuple():
            yield from (text for value in settings for text in _texts(value))


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):  # too long for a name, or not one
        return False


def _fenced(config: ModelConfig, folder: Path, hidden: tuple[Path, ...]) -> ModelConfig:
    if not isinstance(config, ExecConfig):
        return config
    kept = {"keep_output": str(folder / "exec"), "keep_failures": _KEPT_FAILURES}
    fenced: ModelConfig = config.model_copy(
        update={
            **(kept if config.keep_output is None else {}),
            "hidden": (*config.hidden, *map(str, hidden)),
        }
    )
    return fenced


# The engine of every job: our own environments, played under the limits of a configuration.


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
    """Return the engine in which an agent plays what a configuration names."""
    rollout = config.rollout
    return LocalEngine(
        agent,
        make_env(config.env),
        limits=Limits(
            max_turns=max_turns or config.env.max_turns,
            episode_timeout_s=rollout.episode_timeout_s,
            max_concurrent=rollout.max_concurrent,
            retries=rollout.retries,
            give_up_after=rollout.give_up_after,
            max_failure_share=rollout.max_failure_share,
        ),
        prompt=PromptStyle(history_turns=rollout.history_turns),
        recorder=recorder,
        mode=mode,
        env_identity=env_identity(config.env),
        observer=seen,
        permit=permit,
    )


class _Builds:
    """Builds environments; in another process it imports the class anew, when it is first asked."""

    def __init__(self, spec: EnvSpec, settings: object | None) -> None:
        self._spec = spec
        self._settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        return _Builds, (self._spec, self._settings)

    @cached_property
    def found(self) -> type[TextEnv]:
        """The class."""
        return self._spec.load()

    def __call__(self, task: Task) -> TextEnv:
        return self.found(env_config=self._settings, extras=dict(task.extras))


def make_env(env: EnvSection) -> MakeEnv:
    """Return what builds the environment of a task."""
    builds = _Builds(replace(spec(env.name), env_config=None), _env_config(env))
    _ = builds.found  # refused here where it is not there
    return builds


def env_identity(env: EnvSection) -> dict[str, Any]:
    """Return what tells the episodes of an environment from those of another one."""
    version = spec(env.name).load().version
    return {
        "config": _env_config(env),
        "version": version,
        **environment_of(env).identity(env.config),
    }


def _env_config(env: EnvSection) -> object | None:
    """Return the configuration's settings of an environment, else those of its registration."""
    return env.config or spec(env.name).env_config


# Where agents play that need not be in this process: on workers, where a configuration says so.


@dataclass(frozen=True, slots=True)
class _Agent:
    """Makes an agent of its settings, on whatever machine it is called."""

    config: ModelConfig
    make: MakeModel

    def __call__(self, client: HttpClient) -> Agent:
        return agent_of(self.make(self.config, client))


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The workers of a job, where it has any.

    Attributes:
        pool: Who plays there; ``None`` where everything is played in this process.
        make: Makes models.
        env: What is played.
    """

    pool: WorkerPool | None
    make: MakeModel
    env: EnvSection

    def placed(self, engine: Engine, model: ModelConfig) -> Engine:
        """Return an engine whose episodes are played by the workers.

        Args:
            engine: Plays in this process; a policy's, in lockstep, is returned as it is.
            model: Who acts in it.

        Raises:
            ConfigError: The model, or what was handed in to make it, stays in this process.
        """
        if self.pool is None or not isinstance(engine, LocalEngine) or engine.mode == "lockstep":
            return engine
        if problem := why_here_only(model):
            raise ConfigError(f"rollout.engine is 'ray': {problem}")
        if isinstance(model, ExecConfig):
            # A program runs where its worker does, and what it printed would stay there.
            model = model.model_copy(update={"keep_output": None})
        parts = {one.name: getattr(engine, one.name) for one in fields(engine)}
        make_agent = _Agent(model, self.make)
        keys = _keys([model, *side_models(self.env).values()])
        files = _files_read(self.env, model)
        return PooledEngine(
            **parts, pool=self.pool, make_agent=make_agent, environ=keys, files=files
        )


async def opened_pool(config: RunConfig | RlConfig, held: AsyncExitStack) -> WorkerPool | None:
    """Start the workers that a configuration asks for; ``held`` ends them.

    Raises:
        ConfigError: See `ray_engine.connect`.
    """
    rollout = config.rollout
    if rollout.engine == "local" or is_adapter(config.env):
        return None
    ray = rollout.ray
    settings = RaySettings(ray.address, ray.workers, ray.labels)
    with waiting("connecting to Ray"):
        return await held.enter_async_context(ray_pool(settings))


def _keys(llms: Iterable[ModelConfig]) -> dict[str, str]:
    """Return the variables that hold the keys of endpoints, and those that name our data."""
    names = {one.api_key_env for one in llms if isinstance(one, EndpointConfig)}
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith("SKILLWRIGHT_")
    }


def _files_read(env: EnvSection, model: ModelConfig) -> list[Path]:
    """List the files that episodes read: databases, catalogs, and modules of one's own."""
    modules = [name.rpartition(":")[0] for name in (env.name, getattr(model, "model", ""))]
    places = _places([*_texts(env.config), *(name for name in modules if name.endswith(".py"))])
    found = (file for place in places for file in (place, *sorted(place.rglob("*"))))
    return list(dict.fromkeys(file for file in found if file.is_file()))
