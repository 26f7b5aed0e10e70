"""Models that an environment calls besides the agent: a simulated user, a judge.

They share one pool of connections per event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from skillwright.core import ChatModel, Message, ModelError, Usage
from skillwright.models.http.client import HttpClient
from skillwright.models.http.traffic import EndpointLimits

Config = TypeVar("Config", bound=BaseModel)


async def shared_model(
    config: Config, make: Callable[[Config, HttpClient], ChatModel]
) -> ChatModel:
    """Return the model that all episodes with these settings share on the running loop."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = _Pool()
        await pool.open()
    key = (make, config.model_dump_json())
    if key not in pool.models:
        pool.models[key] = make(config, pool.client)
    return pool.models[key]


def share_limits(limits: EndpointLimits) -> None:
    """Apply limits that are shared with other processes to this process's side models."""
    _shared.append(limits)


@dataclass(slots=True)
class Counted:
    """A model that counts its usage, that of failed requests included."""

    model: ChatModel
    usage: Usage = field(default_factory=Usage)

    @property
    def identity(self) -> str:
        """The model's."""
        return self.model.identity

    async def complete(self, messages: Sequence[Message], **asked: Any) -> Any:
        """Ask the model."""
        try:
            completion = await self.model.complete(messages, **asked)
        except ModelError as error:
            self.usage += error.usage + Usage(failed_calls=error.failed_calls)
            raise
        self.usage += completion.usage
        return completion


_shared: list[EndpointLimits] = []


class _Pool:
    """The connections of one event loop, and the models behind them."""

    def __init__(self) -> None:
        self.client = HttpClient(limits=_shared[-1] if _shared else None)
        self.models: dict[tuple[Any, str], ChatModel] = {}
        self._keeper = self._keep()

    async def open(self) -> None:
        await anext(self._keeper)

    async def _keep(self) -> AsyncGenerator[None]:
        # No episode knows whether it is the last one. When an event loop ends, it closes its async
        # generators, and closing this one closes the connections.
        async with self.client:
            yield


_pools: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]" = WeakKeyDictionary()
