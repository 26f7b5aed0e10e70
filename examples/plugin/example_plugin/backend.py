r"""A model that answers by regular expressions.

In a configuration: ``target: {backend: patterns, replies: {'from 1 to (\d+)': '\1'}}``.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import digest
from skillwright.models import Backend, HttpClient, ModelConfig


class PatternsConfig(ModelConfig):
    """A model that answers with the reply of the first pattern found in the conversation."""

    backend: Literal["patterns"] = "patterns"
    model: str = "patterns"
    replies: dict[str, str]
    r"""Replies by regular expression; ``\1`` in a reply is the first group of its pattern."""
    default: str = ""
    """The reply where no pattern is found."""

    @property
    def is_free(self) -> bool:
        """Always."""
        return True


class Patterns:
    """The model of a `PatternsConfig`."""

    def __init__(self, config: PatternsConfig) -> None:
        self._config = config
        self.identity = f"patterns:{config.model}#{digest(config.model_dump())[:12]}"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer a conversation."""
        said = "\n".join(message["content"] for message in messages)
        for pattern, reply in self._config.replies.items():
            if found := re.search(pattern, said, re.DOTALL):
                return Completion(found.expand(reply))
        return Completion(self._config.default)


def make(config: PatternsConfig, client: HttpClient, **timing: Any) -> Patterns:
    """Make the model; it needs neither the HTTP client nor the clock."""
    return Patterns(config)


PATTERNS = Backend("patterns", "regular expressions", "nothing", PatternsConfig, make)
