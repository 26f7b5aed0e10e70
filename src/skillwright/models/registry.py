"""Makes a model of its settings."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any, assert_never

from skillwright.core import (
    ChatModel,
    Completion,
    ConfigError,
    Message,
    ModelError,
    Purpose,
    Sampling,
    SkillwrightError,
)
from skillwright.core.found_code import find_code
from skillwright.core.jsonio import digest, read_text, text_digest
from skillwright.models.backends import make_scripted_model
from skillwright.models.config import ModelConfig, PythonConfig, ScriptedConfig
from skillwright.models.dialects.claude import ClaudeChat
from skillwright.models.dialects.config import (
    ClaudeChatConfig,
    MiniMaxChatConfig,
    OpenAIChatConfig,
    QwenChatConfig,
)
from skillwright.models.dialects.minimax import MiniMaxChat
from skillwright.models.dialects.openai_chat import OpenAIChat
from skillwright.models.dialects.openai_responses import OpenAIResponses
from skillwright.models.dialects.qwen import QwenChat
from skillwright.models.http.client import HttpClient
from skillwright.models.http.endpoint import Dialect, EndpointModel
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.wire import cost_usd
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, CodexExecConfig
from skillwright.plugins.local.config import LocalConfig
from skillwright.plugins.local.model import LocalChat, local_client

# A model that is a Python class of one's own, named by file or import path.


_SHOWN_DIGITS = 12


class _Function:
    """A function of messages that returns a text, as a chat model; one that blocks has a thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        del tools, sampling, purpose
        asked = [{**message} for message in messages]
        name = getattr(self._function, "__qualname__", repr(self._function))
        try:
            if iscoroutinefunction(self._function):
                text = await self._function(asked)
            else:
                text = await asyncio.to_thread(self._function, asked)
        except SkillwrightError:
            raise
        except Exception as error:
            raise ModelError(f"{name} raised {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise ConfigError(
                f"{name} answered with a {type(text).__name__}; a model "
                "that is a function of messages returns a text"
            )
        return Completion(text)


class PythonModel:
    """Answers by an instance of the class, or by the function, that a configuration names.

    Its identity holds a digest of the file that the class is in and of its settings, so that
    what another version answered is not taken for its own. What the file imports is not looked at.

    Raises:
        DataError: It is not found, or cannot be imported.
        ConfigError: It is no class with ``complete`` and no function, or a constructor raised.
    """

    def __init__(self, config: PythonConfig) -> None:
        made = find_code(config.model, f"model {config.model!r}")
        is_class = isinstance(made, type) and callable(getattr(made, "complete", None))
        if isinstance(made, type) != is_class or not callable(made):
            raise ConfigError(
                f"{config.model!r} is no chat model: it needs a class with "
                "async complete(messages, *, tools, sampling, purpose), or a function of messages"
            )
        arguments = config.settings if is_class else {**config.settings, "function": made}
        try:
            self._model: Any = (made if is_class else _Function)(**arguments)
        except Exception as error:
            given = ", ".join(sorted(config.settings)) or "no settings"
            raise ConfigError(
                f"{config.model!r} cannot be built: {type(error).__name__}: {error}. "
                f"It was given {given}."
            ) from error
        self._prices = config.prices
        self.is_scripted = config.scripted
        self.identity = f"python:{config.model}#{_digest(made, config)[:_SHOWN_DIGITS]}"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Hand the question on.

        Raises:
            ModelError: The class says so.
            ConfigError: It is not async, or what it returned is no `Completion`.
        """
        said: Any = self._model.complete(messages, tools=tools, sampling=sampling, purpose=purpose)
        answer = await said if isawaitable(said) else said
        if answer is said or not isinstance(answer, Completion):
            raise ConfigError(
                f"{self.identity} answered with a {type(answer).__name__}; complete() is async and "
                "returns a skillwright.core.Completion"
            )
        if self._prices is None:
            return answer
        return replace(
            answer, usage=replace(answer.usage, cost_usd=cost_usd(answer.usage, self._prices))
        )


def _digest(made: Any, config: PythonConfig) -> str:
    module = sys.modules.get(getattr(made, "__module__", ""))
    file = getattr(module, "__file__", None)
    code = text_digest(read_text(Path(file), "model")) if file and file.endswith(".py") else ""
    return digest([code, config.settings])


def make_model(
    config: ModelConfig,
    client: HttpClient,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> ChatModel:
    """Make the model that a configuration names. Nothing is sent yet.

    Raises:
        ConfigError: A key that the endpoint needs is missing, or a program, or what serves local
            models, or a class of one's own is no model.
        DataError: A class of one's own is not found, or a scripted model, or the weights of a local
            one; or these are damaged.
    """
    match config:
        case ScriptedConfig():
            return make_scripted_model(config.model, config.noise)
        case PythonConfig():
            return PythonModel(config)
        case ClaudeChatConfig(transport="cli") | CodexExecConfig() | ClaudeCodeExecConfig():
            # Imported here, as a run against endpoints starts no programs.
            from skillwright.plugins.executors.agent import make_executor

            return make_executor(config, sleep=sleep, clock=clock)
        case EndpointConfig():
            posts = local_client(config, client) if isinstance(config, LocalConfig) else client
            return EndpointModel(dialect_of(config), posts, sleep=sleep, clock=clock)
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
        case LocalConfig():
            return LocalChat(config)
        case _:
            raise TypeError(f"no dialect is known for {type(config).__name__}")
