"""Store and reuse the rollouts and calls of a run, so that nothing is paid for twice."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

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
    StopReason,
    Usage,
)
from skillwright.core.chat import question
from skillwright.core.jsonio import digest
from skillwright.evaluation import RELEASE_PHASE
from skillwright.jobs.run.progress import Callback, CallFinished, EpisodeFinished
from skillwright.jobs.run.turn_ends import NotMeasured
from skillwright.rollout import EpisodeFinished as Played
from skillwright.rollout import TurnFinished
from skillwright.rollout.engine import Permit
from skillwright.runs import CallRecord, RunStore

_ASKED: Final = 2
"""Number of messages in a first request, before replies and requests for repair."""


def consumed(result: EpisodeResult) -> dict[str, Usage]:
    """Return the usage of an episode over all its attempts, by purpose.

    ``side_usage`` is the usage of other models than the agent, from `TextEnv.get_usage`.
    """
    agent = result.trajectory.usage + result.lost_usage
    return {Purpose.ROLLOUT.value: agent, **result.side_usage}


class StoredEpisodes:
    """The engine's recorder, which writes to a run's store.

    Args:
        store: The run's store.
        agent_identity: Identity of the agent, stored with each episode.
        settle: Called after each stored episode, to store the usage of other models (embedder).
        earlier: Stores of other runs, whose episodes are reused.
    """

    def __init__(
        self,
        store: RunStore,
        agent_identity: str,
        settle: Callable[[], None] = lambda: None,
        earlier: Sequence[RunStore] = (),
    ) -> None:
        self._store = store
        self._settle = settle
        self._earlier = earlier
        self._agent = agent_identity
        self._lone_failures: set[str] | None = None  # read when the first episode fails
        self._latest_failures: set[str] = set()  # failures since the last scored episode

    def find(self, key: str) -> EpisodeResult | None:
        """Return the episode stored under a key, or ``None``; one of another run is copied."""
        found = self._store.find_episode(key)
        for store in self._earlier if found is None else ():
            theirs = store.find_episode(key)
            if theirs is not None and theirs.spec.phase != RELEASE_PHASE:
                # Keep the phase, but not the step, which is the other run's.
                kept = replace(theirs, spec=replace(theirs.spec, step=None))
                self._store.record_episode(kept, agent=self._agent, usage={})
                return self._store.find_episode(key)
        return found

    def known_to_fail(self, key: str) -> bool:
        """Tell whether an episode failed while a later one succeeded."""
        if self._lone_failures is None:
            self._lone_failures = self._store.lone_failures()
        return key in self._lone_failures

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Store a finished episode; return it, if scored, with known secrets redacted.

        So the optimizer gets the same text after a resume, and no endpoint receives the key of
        another one. An episode whose prompt, actions and observations hold no secret is returned
        unchanged.
        """
        self._store.record_episode(result, agent=self._agent, usage=consumed(result))
        self._settle()
        self._remember(result)
        trajectory = result.trajectory
        said = (part for turn in trajectory.turns for part in (turn.act.written, turn.observation))
        if result.reward is None:
            return result
        if self._store.hides(trajectory.opening, *said):
            return self._store.find_episode(result.key) or result
        return result

    def abandon(self, result: EpisodeResult) -> None:
        """Record the usage of a stopped episode."""
        self._store.record_usage(consumed(result))

    def _remember(self, result: EpisodeResult) -> None:
        if self._lone_failures is None:
            return
        if result.reward is None:
            self._latest_failures.add(result.key)
        else:
            self._lone_failures |= self._latest_failures
            self._latest_failures.clear()


class StoredCalls:
    """A chat model whose answers are stored; an equal request is answered from the store.

    The optimizer seeds each request by its step and place, so a stored answer is never taken for a
    second, independent one.

    Attributes:
        step: The current training step, stored with each call.
        refusal: The error with which the endpoint refused every request, or ``None``.
    """

    def __init__(
        self,
        model: ChatModel,
        store: RunStore,
        callback: Callback,
        clock: Callable[[], float] = time.monotonic,
        permit: Permit = nullcontext,
    ) -> None:
        self.step: int | None = None
        self.refusal: ModelRefused | None = None
        self._keys: dict[str, list[str]] = {}
        self._model = model
        self._store = store
        self._callback = callback
        self._clock = clock
        self._permit = permit

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
        """Answer from the store, or ask the model and store what it says."""
        asked = question(self.identity, messages, tools, sampling)
        key = digest({**asked, "purpose": purpose.value})
        # A request for repair begins with the messages of the first request.
        self._keys.setdefault(digest(list(messages[:_ASKED])), []).append(key)
        known = self._store.find_call(key)
        if known is not None:
            return known
        async with self._permit():
            return await self._ask(key, messages, tools, sampling, purpose)

    def last_reply(self, prompt_digest: str) -> str:
        """Return the last reply to a prompt, repeated requests included; "" without one."""
        keys = reversed(self._keys.get(prompt_digest, ()))
        found = (self._store.find_call(key) for key in keys)
        return next((one.text for one in found if one is not None), "")

    def forget(self, prompt_digests: Iterable[str]) -> None:
        """Drop the stored answers to prompts, so that repeated requests are sent again."""
        self._store.forget_calls(key for one in prompt_digests for key in self._keys.get(one, ()))

    async def _ask(
        self,
        key: str,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]],
        sampling: Sampling,
        purpose: Purpose,
    ) -> Completion:
        asked_at = self._clock()
        try:
            answer = await self._model.complete(
                messages, tools=tools, sampling=sampling, purpose=purpose
            )
        except ModelError as error:
            said = str(error) or type(error).__name__
            spent = replace(error.usage, failed_calls=error.failed_calls)
            waited_s = self._clock() - asked_at
            asked = (key, purpose, self.identity, messages)
            self._keep(CallRecord(*asked, None, said, spent, self.step, waited_s))
            if isinstance(error, ModelRefused) and not isinstance(error, RequestRefused):
                self.refusal = error
            raise
        waited_s = self._clock() - asked_at
        self._keep(
            CallRecord(
                key, purpose, self.identity, messages, answer, step=self.step, wall_s=waited_s
            )
        )
        # The stored form, without known secrets, which a resumed run gets, too.
        return self._store.find_call(key) or answer

    def _keep(self, call: CallRecord) -> None:
        self._store.record_call(call)
        usage = call.usage if call.completion is None else call.completion.usage
        self._callback.on_event(CallFinished(call.purpose.value, usage))


class EngineEvents:
    """Passes an engine's events on to the callback of a job.

    Attributes:
        refuses_unfit: Stop the run if a first prompt does not fit the model's window.
    """

    refuses_unfit = False

    def __init__(
        self,
        callback: Callback,
        on_usage: Callable[[Usage], None] = lambda usage: None,
        in_flight: Callable[[], int] = lambda: 0,
    ) -> None:
        self.callback = callback
        self._on_usage = on_usage
        self._in_flight = in_flight

    def on_turn(self, event: TurnFinished) -> None:
        """Report the usage of a turn; the callback gets no event, because there are too many."""
        self._on_usage(event.turn.act.usage)

    def on_episode(self, event: Played) -> None:
        """Report a finished episode."""
        result = event.result
        self.callback.on_event(EpisodeFinished(result, event.reused, self._in_flight()))
        if self.refuses_unfit and result.failure and result.stop_reason is StopReason.CONTEXT:
            raise NotMeasured(
                f"the first prompt of task {result.task_id!r} does not fit the model's window: "
                f"{result.failure.message.rstrip('.')}. Without such tasks others would be "
                "measured than were asked for: shorten the skill, choose a model with a larger "
                "window, or lower max_tokens, and start a new evaluation"
            )
