"""The open resources of a job: HTTP client, budget, models and workers."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from skillwright.config.env import EnvSection
from skillwright.config.rl import RlConfig
from skillwright.config.run import RunConfig
from skillwright.core import ChatModel
from skillwright.jobs.run.memory import EngineEvents, StoredCalls
from skillwright.jobs.run.models import MakeModel, open_model
from skillwright.jobs.run.money import Budget
from skillwright.jobs.run.progress import Callback
from skillwright.jobs.run.workers import Placement, start_workers
from skillwright.models import HttpClient, ModelConfig
from skillwright.runs import RunStore


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
