"""The engine of one machine: asyncio, bounded, in order, and the same at any concurrency."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from typing import Any

from skillwright.core import (
    Agent,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    SkillContext,
    SkillSource,
    Task,
)
from skillwright.core.concurrency import together
from skillwright.core.slots import Slots
from skillwright.rollout.engine import (
    EngineDown,
    EpisodeFinished,
    EpisodeRecorder,
    Limits,
    Observer,
    Permit,
    PromptStyle,
    TurnFinished,
    episode_key,
)
from skillwright.rollout.episode import Assignment, MakeEnv
from skillwright.rollout.player import Mode, Player, Plays

# Stops a run in which nothing works: by failures in a row, and by their share of the latest.
#
# Both look at episodes in the order in which they were begun: which end first depends on how slow
# each is, and those that run into a deadline end last, all together.


WINDOW = 40
"""Number of latest episodes whose share of failures is checked."""
LEAST_EPISODES = 20
"""No share is taken of fewer: a few early failures say little."""


class Circuit:
    """Counts failed episodes; one that has a reward starts the count in a row again.

    What is begun at once is counted at once: a lockstep wave with one reward in it is no row.
    """

    def __init__(self, give_up_after: int | None, max_failure_share: float | None = None) -> None:
        self._give_up_after = give_up_after
        self._max_share = max_failure_share
        self._row: deque[Failure] = deque(maxlen=give_up_after)
        self._latest: deque[Failure | None] = deque(maxlen=WINDOW)
        self._tickets = count()
        self._next = 0
        self._waiting: dict[int, tuple[Failure | None, ...]] = {}

    def begin(self) -> int:
        """Return the number of something that begins: an episode, or a wave of them."""
        return next(self._tickets)

    def withdraw(self, ticket: int) -> None:
        """Wait no more for something that was begun: its outcome will never be reported."""
        self._waiting[ticket] = ()

    def note(self, ticket: int, results: Sequence[EpisodeResult]) -> None:
        """Count what has ended, and whatever was waiting for it."""
        self._waiting[ticket] = tuple(result.failure for result in results)
        while self._next in self._waiting:
            outcomes = self._waiting.pop(self._next)
            self._next += 1
            if outcomes:
                self._count(outcomes)

    def _count(self, outcomes: Sequence[Failure | None]) -> None:
        self._latest.extend(outcomes)
        if None in outcomes:
            self._row.clear()
        elif self._give_up_after is not None:
            self._row.extend(failure for failure in outcomes if failure is not None)
        if self._row and len(self._row) == self._give_up_after:
            raise _down(f"the last {len(self._row)} episodes all failed", self._row)
        failures = [failure for failure in self._latest if failure is not None]
        seen = len(self._latest)
        if self._max_share is None or seen < LEAST_EPISODES:
            return
        if len(failures) > self._max_share * seen:
            raise _down(
                f"{len(failures)} of the last {seen} episodes failed, and at most "
                f"{self._max_share:.0%} may (rollout.max_failure_share)",
                failures,
            )


def _down(said: str, failures: Sequence[Failure]) -> EngineDown:
    causes = Counter(failure.cause for failure in failures)
    cause, times = causes.most_common(1)[0]
    latest = next(one.message for one in reversed(failures) if one.cause is cause)
    return EngineDown(
        f"{said}, {times} of them with cause {cause.value!r}; the latest of these: "
        f"{latest.rstrip('.')}. Nothing was scored as zero. Mend it and resume: what was finished "
        "is not played again."
    )


Claim = asyncio.Future[EpisodeResult | None]

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LocalEngine:
    """Plays episodes in this process.

    Expected faults are data: an episode that fails is tried again in a fresh environment, then
    reported with its `Failure`. Three things stop a run instead, closing every environment: a
    `ModelRefused` of every request alike, because a wrong key does not mend itself; a row of
    ``limits.give_up_after`` failures, or too many among the latest episodes; and a bug. A request
    that is refused alone is an answer, and an episode that is known to fail says nothing new when
    it does so again: neither counts there. An endpoint that finds a conversation too long
    cuts the episode as ``limits.max_prompt_chars`` does.

    All calls of `run` share one bound and are served first come, first served. Episodes with equal
    keys are played once, whether they meet in one call or in concurrent ones. An engine belongs to
    the event loop that it is first used in.

    Attributes:
        agent: Who acts.
        make_env: Builds the environment of a task.
        limits: The bounds.
        prompt: How the conversation is shown.
        recorder: Remembers results; those with a reward are used again.
        mode: ``free`` lets every episode run at its own pace, for agents that wait for an
            endpoint. ``lockstep`` asks for the actions of up to ``max_concurrent`` episodes in one
            batch per turn, in the order of the specs, for policies; one such wave has the engine
            to itself. There the deadline bounds each batch and each environment call on its own,
            because waiting for the others is not slowness; and a batch that an endpoint refuses
            is asked for one by one, because it does not say whose request it refuses.
        env_identity: Configuration and version of the environment, for the episode keys.
        observer: Watches.
        permit: Asked before an episode, or a wave of them, is begun.
    """

    agent: Agent
    make_env: MakeEnv
    _: KW_ONLY
    limits: Limits = field(default_factory=Limits)
    prompt: PromptStyle = field(default_factory=PromptStyle)
    recorder: EpisodeRecorder | None = None
    mode: Mode = "free"
    env_identity: Mapping[str, Any] = field(default_factory=dict)
    observer: Observer | None = None
    permit: Permit = nullcontext

    def __post_init__(self) -> None:
        self._slots = Slots(self.limits.max_concurrent)
        self._one_wave = asyncio.Lock()
        self._one_asks = asyncio.Lock()
        self._in_flight: dict[str, Claim] = {}
        self._circuit = Circuit(self.limits.give_up_after, self.limits.max_failure_share)

    def _player(self) -> Plays:
        """Return what plays what was begun; an engine of other machines has another one."""
        return Player(self.agent, self.make_env, self.limits, self.prompt, self.mode)

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play every episode and return the results in the order of ``specs``.

        Raises:
            ModelRefused: An endpoint refuses the key or the model.
            EngineDown: The last ``limits.give_up_after`` episodes all failed, or too many of the
                latest ones (``limits.max_failure_share``).
            UsageError: An environment cannot be built as asked.
            ModelError: ``skills`` asks an endpoint, and that failed.
        """
        contexts = await self._contexts([spec.task for spec in specs], skills)
        assignments = list(map(self._assign, specs, contexts))
        todo: dict[str, Assignment] = {}
        for assignment in assignments:
            todo.setdefault(assignment.key, assignment)
        results: dict[str, EpisodeResult] = {}
        while todo:
            results |= self._recall(todo.values())
            wanted = [one for key, one in todo.items() if key not in results]
            theirs = {
                one.key: self._in_flight[one.key] for one in wanted if one.key in self._in_flight
            }
            mine = {one.key: self._claim(one) for one in wanted if one.key not in theirs}
            try:
                await self._play([todo[key] for key in mine])
            finally:
                self._release(mine)
            for key, claim in {**mine, **theirs}.items():
                # Shielded: when this call is cancelled, the one that plays it continues.
                result = await asyncio.shield(claim)
                if result is not None:
                    results[key] = result
            # What is left was given up by the call that had claimed it.
            todo = {key: one for key, one in todo.items() if key not in results}
        return [one.adopt(results[one.key]) for one in assignments]

    async def _contexts(self, tasks: Sequence[Task], skills: SkillSource) -> list[SkillContext]:
        if not skills.waits:
            return skills.contexts(tasks)
        # One call after the other, so that who came first starts first, however long it takes.
        async with self._one_asks:
            return await asyncio.to_thread(skills.contexts, tasks)

    def _assign(self, spec: EpisodeSpec, skill: SkillContext) -> Assignment:
        key = episode_key(
            spec,
            skill.text,
            agent_identity=self.agent.identity,
            env_identity=self.env_identity,
            limits=self.limits,
            prompt=self.prompt,
        )
        return Assignment(spec, skill, key)

    def _recall(self, wanted: Iterable[Assignment]) -> dict[str, EpisodeResult]:
        known: dict[str, EpisodeResult] = {}
        if self.recorder is None:
            return known
        for one in wanted:
            found = self.recorder.find(one.key)
            if found is None or found.reward is None:
                continue
            known[one.key] = found
            if self.observer is not None:
                self.observer.on_episode(EpisodeFinished(one.adopt(found), reused=True))
        return known

    def _claim(self, assignment: Assignment) -> Claim:
        claim: Claim = asyncio.get_running_loop().create_future()
        self._in_flight[assignment.key] = claim
        return claim

    def _release(self, claims: Mapping[str, Claim]) -> None:
        for key, claim in claims.items():
            if not claim.done():
                claim.set_result(None)
            self._in_flight.pop(key, None)

    async def _play(self, assignments: Sequence[Assignment]) -> None:
        if self.mode == "lockstep":
            size = self.limits.max_concurrent
            for first in range(0, len(assignments), size):
                async with self._one_wave, self.permit():
                    await self._play_wave(assignments[first : first + size])
            return
        await together(self._play_alone(assignment) for assignment in assignments)

    async def _play_alone(self, assignment: Assignment) -> None:
        async with self._slots.slot(), self.permit():
            await self._play_wave([assignment])

    async def _play_wave(self, wave: Sequence[Assignment]) -> None:
        """Play started episodes, and note what they say about the engine."""
        ticket, telling = self._circuit.begin(), list[EpisodeResult]()
        try:
            await self._play_and_settle(wave, telling)
        except BaseException:
            self._circuit.withdraw(ticket)
            raise
        # Asked when all of a wave is settled, so that nothing that was played is lost.
        self._circuit.note(ticket, telling)

    async def _play_and_settle(
        self, wave: Sequence[Assignment], telling: list[EpisodeResult]
    ) -> None:
        def settle(result: EpisodeResult) -> None:
            if self._tells(result):
                telling.append(result)
            self._settle(result)

        await self._player().play(wave, self._tell_of_turn, settle, self._abandon)

    def _tell_of_turn(self, event: TurnFinished) -> None:
        if self.observer is not None:
            self.observer.on_turn(event)

    def _settle(self, result: EpisodeResult) -> None:
        if self.recorder is not None:
            result = self.recorder.record(result)
        self._in_flight[result.key].set_result(result)
        if self.observer is not None:
            self.observer.on_episode(EpisodeFinished(result))

    def _abandon(self, result: EpisodeResult) -> None:
        """Keep what was paid for; what stopped the episode is what the run reports."""
        if self.recorder is not None:
            try:
                self.recorder.abandon(result)
            except Exception:  # a full disk must not hide why the run ends
                logger.warning("what an unfinished episode used is not stored", exc_info=True)

    def _tells(self, result: EpisodeResult) -> bool:
        """Whether a result, not recorded yet, says something about the engine."""
        if result.failure is None:
            return True
        if result.failure.cause is FailureCause.MODEL_REFUSED:
            return False
        return self.recorder is None or not self.recorder.known_to_fail(result.key)
