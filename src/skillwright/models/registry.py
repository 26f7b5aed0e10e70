"""The built-in backends, and `make_model` for all backends."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from skillwright.core import ChatModel
from skillwright.entry_points import entry_point
from skillwright.models.backends import Backend, ModelConfig, find_backend, register_backend
from skillwright.models.config import PythonConfig, ScriptedConfig
from skillwright.models.dialects.config import (
    ClaudeChatConfig,
    MiniMaxChatConfig,
    OpenAIChatConfig,
    QwenChatConfig,
)
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.scripted.named import make_scripted_model

# The network stack is imported when a model is made: it takes longer to import than all the rest.
if TYPE_CHECKING:
    from skillwright.models.http.client import HttpClient
    from skillwright.models.http.endpoint import Dialect

TRANSPORTS: Final = "skillwright.transports"
"""Entry points (`MakeModel`) of alternative transports of a built-in backend."""


def make_model(
    config: ModelConfig,
    client: "HttpClient",
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ChatModel:
    """Make the model of a configuration, without sending anything.

    Raises:
        ConfigError: A key, program or package is missing, or the user's class is no model.
        DataError: The user's class, a scripted model or local weights are missing or damaged.
    """
    backend = find_backend(config.backend)
    backend.check_package()
    make: Any = backend.make or _make_endpoint
    model: ChatModel = make(config, client, sleep=sleep, clock=clock)
    return model


def dialect_of(config: EndpointConfig) -> "Dialect[EndpointConfig]":
    """Return the dialect of a configured endpoint."""
    dialect = find_backend(config.backend).dialect
    if dialect is None:
        raise TypeError(f"no dialect is known for {type(config).__name__}")
    made: Dialect[EndpointConfig] = dialect(config)
    return made


def _make_endpoint(config: Any, client: "HttpClient", **timing: Any) -> ChatModel:
    from skillwright.models.http.endpoint import EndpointModel

    return EndpointModel(dialect_of(config), client, **timing)


def _make_claude(config: ClaudeChatConfig, client: "HttpClient", **timing: Any) -> ChatModel:
    if config.transport == "api":
        return _make_endpoint(config, client, **timing)
    make = entry_point(TRANSPORTS, "claude_cli", "transport").load()
    model: ChatModel = make(config, client, **timing)
    return model


def _make_scripted(config: ScriptedConfig, client: "HttpClient", **timing: Any) -> ChatModel:
    return make_scripted_model(config.model, config.noise)


def _make_python(config: PythonConfig, client: "HttpClient", **timing: Any) -> ChatModel:
    from skillwright.models.python_model import PythonModel

    return PythonModel(config)


def _openai(config: OpenAIChatConfig) -> "Dialect[Any]":
    from skillwright.models.dialects.openai_chat import OpenAIChat
    from skillwright.models.dialects.openai_responses import OpenAIResponses

    return (OpenAIResponses if config.transport == "responses" else OpenAIChat)(config)


def _claude(config: ClaudeChatConfig) -> "Dialect[Any]":
    from skillwright.models.dialects.claude import ClaudeChat

    return ClaudeChat(config)


def _qwen(config: QwenChatConfig) -> "Dialect[Any]":
    from skillwright.models.dialects.qwen import QwenChat

    return QwenChat(config)


def _minimax(config: MiniMaxChatConfig) -> "Dialect[Any]":
    from skillwright.models.dialects.minimax import MiniMaxChat

    return MiniMaxChat(config)


register_backend(
    Backend(
        "openai_chat",
        "any endpoint that speaks OpenAI chat completions (OpenAI, Azure, vLLM, SGLang, "
        "llama.cpp, Ollama, OpenRouter, ...)",
        "a model name; a key for hosted endpoints, a base_url or server for all but OpenAI",
        OpenAIChatConfig,
        dialect=_openai,
        other_names=("azure", "azure-openai", "azure_openai"),
        aliases=("openai_compatible", "openai_compatible_chat", "openai-compatible", "compat"),
    )
)
register_backend(
    Backend(
        "claude_chat",
        "the Anthropic messages API, or with transport: cli the claude program",
        "ANTHROPIC_API_KEY; with transport: cli a login of the program will do",
        ClaudeChatConfig,
        _make_claude,
        _claude,
        other_names=("anthropic", "claude"),
    )
)
register_backend(
    Backend(
        "qwen_chat",
        "Qwen through vLLM, SGLang or DashScope, with its thinking switch",
        "a server, by default on localhost:8000; DASHSCOPE_API_KEY where it is hosted",
        QwenChatConfig,
        dialect=_qwen,
        other_names=("qwen",),
    )
)
register_backend(
    Backend(
        "minimax_chat",
        "the MiniMax chat API",
        "MINIMAX_API_KEY",
        MiniMaxChatConfig,
        dialect=_minimax,
        other_names=("minimax",),
    )
)
register_backend(
    Backend(
        "scripted",
        "small deterministic models for tests and the demo",
        "nothing",
        ScriptedConfig,
        _make_scripted,
    )
)
register_backend(
    Backend(
        "python",
        "a class of your own, by file or import path: a model in this process, or a fake",
        "the file, and what it imports",
        PythonConfig,
        _make_python,
    )
)
