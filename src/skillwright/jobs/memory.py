"""What a run remembers of its rollouts and calls, so that nothing is paid for twice."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from skillwright.core import (
    ChatModel,
    Completion,
    EpisodeResult,
    Message,
    ModelError,
    ModelRefused,
    Purpose,
    RequestRefused,
    Sampling,
    Usage,
)
from skillwright.core.jsonio import digest
from skillwright.jobs.progress import CallFinished, EpisodeFinished, Watcher
from skillwright.rollout import EpisodeFinished as Played
from skillwright.rollout import TurnFinished
from skillwright.runs import CallRecord, RunStore


class StoredEpisodes:
    """The engine's recorder over a run's store."""

    def __init__(self, store: RunStore, agent_identity: str) -> None:
        self._store = store
        self._agent = agent_identity

    def find(self, key: str) -> EpisodeResult | None:
        """Return the episode stored under a key, or ``None``."""
        return self._store.find_episode(key)

    def record(self, result: EpisodeResult) -> None:
        """Store a finished episode in one transaction."""
        self._store.record_episode(result, agent=self._agent)


class StoredCalls:
    """A chat model whose answers are stored; an equal question is answered from the store.

    Every question of a run is its own: the optimiser seeds each by its step and place, so that a
    stored answer is never taken for a second, independent one.

    Attributes:
        step: The training step that calls are stored with; the job moves it on.
        refusal: The error with which the endpoint refused every question alike, or ``None``.
    """

    def __init__(self, model: ChatModel, store: RunStore, watcher: Watcher) -> None:
        self.step: int | None = None
        self.refusal: ModelRefused | None = None
        self._model = model
        self._store = store
        self._watcher = watcher

    @property
    def identity(self) -> str:
        """The model's identity."""
        return self._model.identity

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer from the store, or ask the model and store what it says.

        Raises:
            ModelError: The model failed; the fault is stored, and the question may be asked again.
        """
        question = {
            "model": self.identity,
            "messages": [dict(message) for message in messages],
            "tools": list(tools),
            "sampling": asdict(sampling),
            "purpose": purpose.value,
        }
        key = digest(question)
        known = self._store.find_call(key)
        if known is not None:
            return known
        try:
            answer = await self._model.complete(
                messages, tools=tools, sampling=sampling, purpose=purpose
            )
        except ModelError as error:
            said = str(error) or type(error).__name__
            spent = Usage(failed_calls=error.failed_calls)
            self._keep(
                CallRecord(key, purpose, self.identity, messages, None, said, spent, self.step)
            )
            if isinstance(error, ModelRefused) and not isinstance(error, RequestRefused):
                self.refusal = error
            raise
        self._keep(CallRecord(key, purpose, self.identity, messages, answer, step=self.step))
        # As it was stored, without known secrets: a resumed run is told exactly the same.
        return self._store.find_call(key) or answer

    def _keep(self, call: CallRecord) -> None:
        self._store.record_call(call)
        usage = call.usage if call.completion is None else call.completion.usage
        self._watcher.see(CallFinished(call.purpose.value, usage))


class EngineEvents:
    """Passes on what an engine tells to the watcher of a job."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def on_turn(self, event: TurnFinished) -> None:
        """Say nothing: turns come by the ten thousand."""

    def on_episode(self, event: Played) -> None:
        """Tell of a finished episode."""
        self._watcher.see(EpisodeFinished(event.result, event.reused))
