"""The server behind the simulated users: its settings, and one pool of connections per loop."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

from skillwright.core import ChatModel, ConfigError
from skillwright.envs.tau_bench.config import TauBenchEnvConfig
from skillwright.models import EndpointConfig, parse_model_config
from skillwright.models.http.client import HttpClient
from skillwright.models.http.endpoint import EndpointModel
from skillwright.models.registry import dialect_of

_GARBLED: Final = 2  # a reply that is none is asked for again once


def user_endpoint(config: TauBenchEnvConfig) -> EndpointConfig:
    """Return the settings of the model that plays the user, as the models room takes them."""
    settings: dict[str, Any] = {
        "backend": config.user_backend,
        "model": config.user_simulator_model,
        "base_url": config.user_simulator_endpoint,
        "max_tokens": config.user_sim_max_tokens,
        "temperature": config.user_sim_temperature,
        "timeout_s": min(config.request_timeout, config.user_deadline_s),
        "deadline_s": config.user_deadline_s,
        "max_attempts": config.user_retries + 1,
        "max_concurrent": config.user_max_concurrent,
        # The episodes are bounded already, so there is no crowd to be let in slowly.
        "start_concurrent": config.user_max_concurrent,
        **({"api_key_env": config.user_api_key_env} if config.user_api_key_env else {}),
        **config.user_settings,
    }
    return _parsed(json.dumps(settings, sort_keys=True, default=str))


@lru_cache(maxsize=64)
def _parsed(settings: str) -> EndpointConfig:
    given = json.loads(settings)
    if "api_key" in given:
        # Settings are stored with a run.
        raise ConfigError(
            "tau_bench env_config: user_settings holds an api_key, which would be stored; name "
            "the environment variable that holds it in user_api_key_env"
        )
    try:
        parsed = parse_model_config(given, "the user's model")
    except ConfigError as error:
        raise ConfigError(
            f"tau_bench env_config: {error} (base_url is user_simulator_endpoint, model is "
            "user_simulator_model, backend is user_backend, all others are in user_settings)"
        ) from None
    if not isinstance(parsed, EndpointConfig) or given.get("transport") == "cli":
        raise ConfigError(
            "tau_bench env_config: the user is played by a model behind an HTTP endpoint, not by "
            "a program; take user_backend 'openai_chat', or leave out transport: cli"
        )
    return parsed


def open_model(
    config: EndpointConfig,
    client: HttpClient,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> ChatModel:
    """Make the model of a user; a reply that is no reply is asked for again once."""
    return EndpointModel(dialect_of(config), client, sleep=sleep, max_garbled=_GARBLED)


async def shared_model(config: EndpointConfig) -> ChatModel:
    """Return the model that all users with these settings share on the running loop."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = _Pool()
        await pool.open()
    name = config.model_dump_json()
    if name not in pool.models:
        pool.models[name] = open_model(config, pool.client)
    return pool.models[name]


class _Pool:
    """The connections of one event loop, and the models behind them."""

    def __init__(self) -> None:
        self.client = HttpClient()
        self.models: dict[str, ChatModel] = {}
        self._keeper = self._keep()

    async def open(self) -> None:
        await anext(self._keeper)

    async def _keep(self) -> AsyncGenerator[None]:
        # No episode knows whether it is the last one. But a loop that ends closes the generators
        # that were begun on it, and so the connections with them.
        async with self.client:
            yield


_pools: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool]" = WeakKeyDictionary()
