"""What a run remembers of its rollouts and calls, so that nothing is paid for twice."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
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
    StopReason,
    Usage,
)
from skillwright.core.chat import question
from skillwright.core.jsonio import digest
from skillwright.core.paths import AHEAD
from skillwright.evaluation import RELEASE_PHASE
from skillwright.jobs.run.progress import Callback, CallFinished, EpisodeFinished
from skillwright.jobs.run.turn_ends import NotMeasured
from skillwright.rollout import EpisodeFinished as Played
from skillwright.rollout import TurnFinished
from skillwright.rollout.engine import Permit
from skillwright.runs import CallRecord, RunStore

# What an episode consumed, by purpose: the agent's part, and its simulated user's.


def consumed(result: EpisodeResult) -> dict[str, Usage]:
    """Return what an episode consumed in all its attempts, by purpose.

    What others than the agent consumed is in ``side_usage``, where the engine puts what
    `TextEnv.get_usage` reported at the end of each attempt, failed ones included.
    """
    agent = result.trajectory.usage + result.lost_usage
    return {Purpose.ROLLOUT.value: agent, **result.side_usage}


RECENT_TURNS = 512
"""Turns of episodes that are kept in memory: what is played ahead is asked for soon after."""


class StoredEpisodes:
    """The engine's recorder over a run's store."""

    def __init__(
        self,
        store: RunStore,
        agent_identity: str,
        also: Callable[[], None] = lambda: None,
        earlier: Sequence[RunStore] = (),
    ) -> None:
        self._store = store
        self._also = also
        self._earlier = earlier
        self._agent = agent_identity
        self._lone_failures: set[str] | None = None  # looked for when the first episode fails
        self._latest_failures: set[str] = set()  # nothing was scored since
        # As the store holds them, by key; `None` for one that it was asked for in vain.
        self._recent: OrderedDict[str, EpisodeResult | None] = OrderedDict()
        self._recent_turns = 0

    def find(self, key: str) -> EpisodeResult | None:
        """Return the episode stored under a key, or ``None``.

        What comes from another run is kept in this one.
        """
        if (recent := self._recent.get(key)) is not None:
            return recent
        found = self._store.find_episode(key)
        for store in self._earlier if found is None else ():
            theirs = store.find_episode(key)
            if theirs is not None and theirs.spec.phase != RELEASE_PHASE:
                # Its step was another run's; what it was for is the same.
                kept = replace(theirs, spec=replace(theirs.spec, step=None))
                self._store.record_episode(kept, agent=self._agent, usage={})
                return self._store.find_episode(key)
        if found is None:
            self._keep(key, None)
        return found

    def known_to_fail(self, key: str) -> bool:
        """Tell whether an episode failed, and one that was stored later did not."""
        if self._lone_failures is None:
            self._lone_failures = self._store.lone_failures()
        return key in self._lone_failures

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Store a finished episode in one transaction, and return it without known secrets.

        A resumed run shows the optimizer what was stored; one that was never stopped must show it
        the same, and no key of the target's endpoint may reach another one.
        """
        self._store.record_episode(result, agent=self._agent, usage=consumed(result))
        self._also()
        self._remember(result)
        trajectory = result.trajectory
        said = (part for turn in trajectory.turns for part in (turn.act.written, turn.observation))
        if result.reward is None:
            return result
        if self._store.hides(trajectory.opening, *said):
            return self._store.find_episode(result.key) or result
        if result.key in self._recent:  # asked for in vain, so this is what was stored
            self._keep(result.key, replace(result, lost_usage=Usage(), side_usage={}))
        return result

    def adopt(self, result: EpisodeResult) -> None:
        """Write down what an episode that was played ahead is for now."""
        self._store.adopt_episode(result)
        recent = self._recent.get(result.key)
        if recent is not None and recent.spec.phase == AHEAD:
            wanted = result.spec
            spec = replace(recent.spec, phase=wanted.phase, step=wanted.step)
            self._recent[result.key] = replace(recent, spec=spec)

    def abandon(self, result: EpisodeResult) -> None:
        """Write down what an episode consumed that was stopped on its way."""
        used = consumed(result)
        if result.spec.phase == AHEAD:
            used = {AHEAD: sum(used.values(), Usage())}
        self._store.record_usage(used)

    def _keep(self, key: str, result: EpisodeResult | None) -> None:
        self._recent_turns += _turns(result) - _turns(self._recent.pop(key, None))
        self._recent[key] = result
        while self._recent_turns > RECENT_TURNS or len(self._recent) > 2 * RECENT_TURNS:
            self._recent_turns -= _turns(self._recent.popitem(last=False)[1])

    def _remember(self, result: EpisodeResult) -> None:
        if self._lone_failures is None:
            return
        if result.reward is None:
            self._latest_failures.add(result.key)
        else:
            self._lone_failures |= self._latest_failures
            self._latest_failures.clear()


def _turns(result: EpisodeResult | None) -> int:
    return 0 if result is None else 1 + len(result.trajectory.turns)


class StoredCalls:
    """A chat model whose answers are stored; an equal question is answered from the store.

    Every question of a run is its own: the optimizer seeds each by its step and place, so that a
    stored answer is never taken for a second, independent one.

    Attributes:
        step: The training step that calls are stored with; the job moves it on.
        refusal: The error with which the endpoint refused every question alike, or ``None``.
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
        known = self._store.find_call(key)
        if known is not None:
            return known
        async with self._permit():
            return await self._ask(key, messages, tools, sampling, purpose)

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
        # As it was stored, without known secrets: a resumed run is given exactly the same.
        return self._store.find_call(key) or answer

    def _keep(self, call: CallRecord) -> None:
        self._store.record_call(call)
        usage = call.usage if call.completion is None else call.completion.usage
        self._callback.on_event(CallFinished(call.purpose.value, usage))


class EngineEvents:
    """Passes on what an engine tells to the callback of a job.

    Attributes:
        refuses_unfit: A first prompt that does not fit the model's window stops the run.
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
        """Tell what it consumed, and the callback nothing: turns come by the ten thousand."""
        self._on_usage(event.turn.act.usage)

    def on_episode(self, event: Played) -> None:
        """Tell of a finished episode."""
        result = event.result
        self.callback.on_event(EpisodeFinished(result, event.reused, self._in_flight()))
        if self.refuses_unfit and result.failure and result.stop_reason is StopReason.CONTEXT:
            raise NotMeasured(
                f"the first prompt of task {result.task_id!r} does not fit the model's window: "
                f"{result.failure.message.rstrip('.')}. Without such tasks others would be "
                "measured than were asked for: shorten the skill, choose a model with a larger "
                "window, or lower max_tokens, and start a new evaluation"
            )
