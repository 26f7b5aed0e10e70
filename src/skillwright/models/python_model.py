"""A mind that is a Python class of one's own, named by file or import path."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from inspect import isawaitable
from pathlib import Path
from typing import Any

from skillwright.core import ChatModel, Completion, ConfigError, Message, Purpose, Sampling
from skillwright.core.found_code import find_code
from skillwright.core.jsonio import digest, read_text, text_digest
from skillwright.models.http.wire import cost_usd
from skillwright.models.python_config import PythonConfig

_SHOWN_DIGITS = 12


class PythonModel:
    """Answers by an instance of the class that a configuration names.

    Its identity holds a digest of the file that the class stands in and of its settings, so that
    what another version answered is not taken for its own. What the file imports is not looked at.

    Raises:
        DataError: The class is not found, or cannot be imported.
        ConfigError: It is no class with ``complete``, or its constructor raised.
    """

    def __init__(self, config: PythonConfig) -> None:
        made = find_code(config.model, f"model {config.model!r}")
        if not (isinstance(made, type) and callable(getattr(made, "complete", None))):
            raise ConfigError(
                f"{config.model!r} is no chat model: it needs a class with "
                "async complete(messages, *, tools, sampling, purpose)"
            )
        try:
            self._model: ChatModel = made(**config.settings)
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


def _digest(made: type, config: PythonConfig) -> str:
    file = getattr(sys.modules[made.__module__], "__file__", None)
    code = text_digest(read_text(Path(file), "model")) if file and file.endswith(".py") else ""
    return digest([code, config.settings])
