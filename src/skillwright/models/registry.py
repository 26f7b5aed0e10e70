"""Makes a model of its settings."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

from skillwright.core import ChatModel
from skillwright.models.config import ModelConfig, OpenAIChatConfig, ScriptedConfig
from skillwright.models.http import HttpClient
from skillwright.models.openai_chat import OpenAIChat


def make_model(
    config: ModelConfig,
    client: HttpClient,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> ChatModel:
    """Make the model that a configuration names. Nothing is sent yet.

    Args:
        config: Which mind.
        client: Shared by all models of a run; it opens no connection before it is used.
        sleep: Waits between attempts; a test passes one that returns at once.

    Raises:
        ConfigError: A key that the endpoint needs is missing.
    """
    match config:
        case OpenAIChatConfig():
            return OpenAIChat(config, client, sleep=sleep)
        case ScriptedConfig():
            return _scripted(config)
        case _:
            assert_never(config)


def _scripted(config: ScriptedConfig) -> ChatModel:
    # Imported here, so that a run against an endpoint does not load minds that it does not use.
    match config.model:
        case "household":
            from skillwright.models.scripted.household import ScriptedHousehold

            return ScriptedHousehold()
        case "analyst":
            from skillwright.models.scripted.analyst import ScriptedAnalyst

            return ScriptedAnalyst()
        case _:
            assert_never(config.model)
