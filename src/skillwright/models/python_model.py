"""Models that are the user's Python code, named by file or import path."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any

from skillwright.core import (
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
from skillwright.models.config import PythonConfig
from skillwright.models.http.wire import cost_usd

_SHOWN_DIGITS = 12


class _Function:
    """A function of messages that returns a text, as a chat model; a blocking one has a thread."""

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
    """Answers with a class or function of the user's code.

    The identity has a digest of the settings and of the class's file, so that stored answers of
    other versions are not reused. Imported files are not part of the digest.
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
        """Call the class or function; its errors become a `ModelError`.

        A ``complete`` that is not async or returns no `Completion` is a `ConfigError`.
        """
        given: Any = self._model.complete(messages, tools=tools, sampling=sampling, purpose=purpose)
        answer = await given if isawaitable(given) else given
        if answer is given or not isinstance(answer, Completion):
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
