"""The models that an adapter asks through `skillopt.model`: those of its run."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from skillwright.config.run import RunConfig
from skillwright.core import ChatModel, ConfigError
from skillwright.integrations.skillopt_session import NO_RUN, Mind, ModelSession, Role
from skillwright.jobs.adapters.calls import AdapterCalls
from skillwright.jobs.parts.money import Budget
from skillwright.jobs.parts.progress import Watcher
from skillwright.runs import RunStore

MakeMind = Callable[[Role], ChatModel]


def bound_models(
    config: RunConfig, make: MakeMind, store: RunStore, watcher: Watcher, budget: Budget
) -> AbstractContextManager[ModelSession | None]:
    """Let an adapter ask the models of its run until the block ends."""
    return _bound(config, lambda role: AdapterCalls(make(role), store, watcher, budget))


def named_models(config: RunConfig) -> AbstractContextManager[ModelSession | None]:
    """Let an adapter read until the block ends which models its run will have; none answers."""

    def refuse(role: Role) -> ChatModel:
        raise ConfigError(NO_RUN)

    return _bound(config, refuse)


def set_up_within(session: ModelSession | None) -> AbstractContextManager[object]:
    """Let an adapter that is built meanwhile belong to this run, whichever others go on."""
    return nullcontext() if session is None else session.hear()


@contextmanager
def _bound(config: RunConfig, make: MakeMind) -> Iterator[ModelSession | None]:
    if config.env.compat is None:
        yield None
        return

    def mind(role: Role) -> Mind:
        settings = getattr(config.models, role)
        effort = getattr(settings, "reasoning_effort", None) or ""
        name = getattr(settings, "model", None) or settings.backend
        bound = getattr(settings, "max_tokens", None)
        return Mind(str(name), settings.backend, lambda: make(role), str(effort), bound)

    session = ModelSession(mind("target"), mind("optimizer"), asyncio.get_running_loop())
    try:
        yield session
    finally:
        session.close()
