"""Makes a model of its settings."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import assert_never

from skillwright.core import ChatModel
from skillwright.models.config import ModelConfig, ScriptedConfig
from skillwright.models.dialects.claude_chat import ClaudeChat
from skillwright.models.dialects.claude_config import ClaudeChatConfig
from skillwright.models.dialects.minimax_chat import MiniMaxChat
from skillwright.models.dialects.minimax_config import MiniMaxChatConfig
from skillwright.models.dialects.openai_chat import OpenAIChat
from skillwright.models.dialects.openai_config import OpenAIChatConfig
from skillwright.models.dialects.openai_responses import OpenAIResponses
from skillwright.models.dialects.qwen_chat import QwenChat
from skillwright.models.dialects.qwen_config import QwenChatConfig
from skillwright.models.executors.config import ClaudeCodeExecConfig, CodexExecConfig
from skillwright.models.http.client import HttpClient
from skillwright.models.http.endpoint import Dialect, EndpointModel
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.python_config import PythonConfig
from skillwright.models.python_model import PythonModel
from skillwright.models.stand_ins import make_stand_in


def make_model(
    config: ModelConfig,
    client: HttpClient,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ChatModel:
    """Make the model that a configuration names. Nothing is sent yet.

    Raises:
        ConfigError: A key that the endpoint needs is missing, or a program, or a class of one's own
            is no model.
        DataError: A class of one's own is not found, or a scripted model.
    """
    match config:
        case ScriptedConfig():
            return make_stand_in(config.model, config.noise)
        case PythonConfig():
            return PythonModel(config)
        case ClaudeChatConfig(transport="cli") | CodexExecConfig() | ClaudeCodeExecConfig():
            # Imported here, as a run against endpoints starts no programs.
            from skillwright.models.executors.make import make_executor

            return make_executor(config, sleep=sleep, clock=clock)
        case EndpointConfig():
            return EndpointModel(dialect_of(config), client, sleep=sleep, clock=clock)
        case _:
            assert_never(config)


def dialect_of(config: EndpointConfig) -> Dialect[EndpointConfig]:
    """Return the dialect that the endpoint of a configuration speaks."""
    match config:
        case OpenAIChatConfig(transport="responses"):
            return OpenAIResponses(config)
        case OpenAIChatConfig():
            return OpenAIChat(config)
        case ClaudeChatConfig():
            return ClaudeChat(config)
        case QwenChatConfig():
            return QwenChat(config)
        case MiniMaxChatConfig():
            return MiniMaxChat(config)
        case _:
            raise TypeError(f"no dialect is known for {type(config).__name__}")
