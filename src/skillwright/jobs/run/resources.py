"""The open resources of a job: HTTP client, budget, models and workers."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from skillwright.bank import Teacher, TeacherDown, TeacherFault
from skillwright.config import RlConfig, RunConfig
from skillwright.config.env import EnvSection
from skillwright.core import Agent, ChatModel, ConfigError, Sampling
from skillwright.core.seeds import derive_seed
from skillwright.core.waits import waiting
from skillwright.datasets import cache_dir
from skillwright.jobs.run.memory import EngineEvents, StoredCalls
from skillwright.jobs.run.money import Budget
from skillwright.jobs.run.progress import Callback
from skillwright.jobs.run.tasks import is_adapter, side_models
from skillwright.models import EndpointConfig, HttpClient, ModelConfig, agent_of
from skillwright.models.cache import cached
from skillwright.rollout import Engine, LocalEngine
from skillwright.rollout.workers import Workers, worker_engine
from skillwright.runs import RunStore

MakeModel = Callable[[ModelConfig, HttpClient], ChatModel]
"""Makes a model from its settings; notebooks and tests may pass their own function."""
TEACHER_TOKENS = 8_192
"""Default maximum tokens of a teacher's answer."""


@contextmanager
def open_model(
    config: ModelConfig,
    client: HttpClient,
    make: MakeModel,
    store: RunStore,
    env: EnvSection | None = None,
    *more: Path,
) -> Iterator[ChatModel]:
    """Make the model of a role, with the configured cache.

    A program cannot read the folder of the store and the data. Its output after an error is stored
    in that folder.
    """
    path = config.cache if isinstance(config, EndpointConfig) else None
    hidden = (store.folder, *(_data_paths(env) if env is not None else ()), *more)
    with cached(make(config.fenced(store.folder, hidden), client), path) as model:
        yield model


def make_teacher(calls: StoredCalls, llm: ModelConfig, seed: int, stage: str) -> Teacher:
    """Return a model in the role of the teacher, with the stage's own seed."""
    most = getattr(llm, "max_tokens", None) or TEACHER_TOKENS
    return Teacher(
        calls, sampling=Sampling(max_tokens=most), seed=derive_seed("teacher", seed, stage)
    )


@contextmanager
def asked_anew(model: ChatModel, faults: Sequence[TeacherFault]) -> Iterator[None]:
    """Have failed requests answered anew by the next command, if this one stops for them."""
    try:
        yield
    except TeacherDown:
        if isinstance(model, StoredCalls):
            model.forget(fault.prompt_digest for fault in faults)
        raise


def _data_paths(env: EnvSection) -> list[Path]:
    """List the paths that may hold answers: the data, and every path in the settings.

    Any text in the settings of an environment that names a file or folder counts, except for the
    working directory and its parents.
    """
    variables = (value for name, value in os.environ.items() if name.startswith("SKILLWRIGHT_"))
    data = env.data.model_dump().get("path")
    return [*paths_named([*texts_in(data), *texts_in(env.config), *variables]), cache_dir()]


def paths_named(named: Iterable[str]) -> list[Path]:
    """Return the existing paths among texts, without the working directory and its parents."""
    places = [Path(text) for text in named if text]
    here = Path.cwd()
    return [one for one in places if _exists(one) and not here.is_relative_to(one.resolve())]


def texts_in(settings: Any) -> Iterator[str]:
    """Yield every text in settings, at any depth."""
    match settings:
        case str():
            yield settings
        case Mapping():
            yield from (text for value in settings.values() for text in texts_in(value))
        case list() | tuple():
            yield from (text for value in settings for text in texts_in(value))


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):  # too long for a name, or not one
        return False


@dataclass(frozen=True, slots=True)
class _Agent:
    """Makes an agent of its settings, on whatever machine it is called."""

    config: ModelConfig
    make: MakeModel

    def __call__(self, client: HttpClient) -> Agent:
        return agent_of(self.make(self.config, client))


@dataclass(frozen=True, slots=True)
class Placement:
    """The workers of a job, if it has any; without a ``pool``, this process plays."""

    pool: Workers | None
    make: MakeModel
    env: EnvSection

    def place(self, engine: Engine, model: ModelConfig) -> Engine:
        """Return an engine whose episodes are played by the workers; lockstep engines stay here.

        Raises:
            ConfigError: The model cannot be sent to another process.
        """
        if self.pool is None or not isinstance(engine, LocalEngine) or engine.mode == "lockstep":
            return engine
        if problem := model.why_here_only:
            raise ConfigError(f"episodes are played by workers: {problem}")
        keys = _keys([model, *side_models(self.env).values()])
        files = _files_read(self.env, model)
        return self.pool.engine(engine, _Agent(model.for_worker(), self.make), keys, files)


async def start_workers(config: RunConfig | RlConfig, held: AsyncExitStack) -> Workers | None:
    """Start the workers that a configuration asks for; ``held`` ends them.

    Raises:
        ConfigError: See `WorkerEngine.workers`.
    """
    rollout = config.rollout
    if rollout.engine == "local" or is_adapter(config.env):
        return None
    engine = worker_engine(rollout.engine)
    with waiting(f"connecting to {rollout.engine}"):
        return await held.enter_async_context(engine.workers(rollout.ray))


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
    places = paths_named(
        [*texts_in(env.config), *(name for name in modules if name.endswith(".py"))]
    )
    found = (file for place in places for file in (place, *sorted(place.rglob("*"))))
    return list(dict.fromkeys(file for file in found if file.is_file()))


@dataclass(frozen=True, slots=True)
class Resources:
    """The open resources of a job, closed at its end."""

    client: HttpClient
    budget: Budget
    seen: EngineEvents
    held: AsyncExitStack
    placement: Placement
    _env: EnvSection
    _store: RunStore
    _make: MakeModel

    def model(self, config: ModelConfig) -> ChatModel:
        """Open a model."""
        return self.held.enter_context(
            open_model(config, self.client, self._make, self._store, self._env)
        )

    def calls(self, model: ChatModel, permit: Callable[[str], Any] | None = None) -> StoredCalls:
        """Wrap a model so that its answers are stored and its calls need a permit."""
        asked = partial(permit or self.budget.permit, "call")
        return StoredCalls(model, self._store, self.seen.callback, permit=asked)


@asynccontextmanager
async def open_resources(
    config: RunConfig | RlConfig,
    store: RunStore,
    callback: Callback,
    make: MakeModel,
    after: int = 0,
) -> AsyncIterator[Resources]:
    """Open the resources of a job."""
    async with HttpClient() as client, AsyncExitStack() as held:
        budget = Budget(config.budget, store, after=after)
        seen = EngineEvents(callback, budget.note, lambda: client.limits.in_flight)
        placement = Placement(await start_workers(config, held), make, config.env)
        yield Resources(client, budget, seen, held, placement, config.env, store, make)
