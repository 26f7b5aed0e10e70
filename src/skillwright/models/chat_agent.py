"""The agent that acts with a chat model, in any environment."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import ClassVar, cast

from skillwright.core import (
    Act,
    Agent,
    ChatModel,
    Completion,
    Purpose,
    RequestRefused,
    Sampling,
    TurnContext,
)
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest


class ChatAgent:
    """Acts with a `ChatModel`; each turn's seed replaces that of ``sampling``."""

    takes_tools: ClassVar[bool] = True

    def __init__(self, model: ChatModel, sampling: Sampling = Sampling()) -> None:
        self._model = model
        self._sampling = replace(sampling, seed=None)

    @property
    def identity(self) -> str:
        """The model's identity, with a digest of the decoding settings where any is set."""
        if self._sampling == Sampling():
            return self._model.identity
        return f"{self._model.identity}+{digest(asdict(self._sampling))[:12]}"

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Answer all contexts concurrently, in their order; an error cancels the other calls."""
        if len(contexts) == 1:
            return [await self._act(contexts[0])]
        return await together(self._act(context) for context in contexts)

    async def _act(self, context: TurnContext) -> Act:
        completion = await self._model.complete(
            context.messages,
            tools=context.tools,
            sampling=replace(self._sampling, seed=context.seed),
            purpose=Purpose.ROLLOUT,
        )
        _refuse_blocked(completion)
        return Act.of(completion, offered_tools=bool(context.tools), tools=context.tools)


def agent_of(model: ChatModel) -> Agent:
    """Return the model itself if it has ``act_batch``, else a `ChatAgent` with it."""
    return cast("Agent", model) if hasattr(model, "act_batch") else ChatAgent(model)


def _refuse_blocked(completion: Completion) -> None:
    """Raise an error for an answer withheld by the endpoint: it is no move of the agent."""
    said = completion.text or completion.tool_calls
    if completion.finish_reason == "content_filter" and not said:
        raise RequestRefused(
            f"the content filter of model {completion.model!r} withheld its answer; the episode "
            "has no score. Use another model, or change the filter's settings"
        )
