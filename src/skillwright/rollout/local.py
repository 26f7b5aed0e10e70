"""The engine of this process: asyncio, bounded concurrency, results independent of concurrency."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from skillwright.core import (
    Agent,
    EpisodeResult,
    EpisodeSpec,
    FailureCause,
    SkillContext,
    SkillSource,
    Task,
)
from skillwright.core.concurrency import together
from skillwright.core.slots import Slots
from skillwright.rollout.circuit import Circuit
from skillwright.rollout.engine import EpisodeFinished, Observer, Permit, TurnFinished
from skillwright.rollout.episode import Assignment, MakeEnv
from skillwright.rollout.limits import Limits
from skillwright.rollout.player import Mode, Player, Plays
from skillwright.rollout.prompt import PromptStyle
from skillwright.rollout.recorder import EpisodeRecorder, episode_key

Claim = asyncio.Future[EpisodeResult | None]

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LocalEngine:
    """Plays episodes in this process.

    A failed episode is retried in a fresh environment, then reported with its `Failure`. Three
    things stop the run and close every environment: a `ModelRefused` of every request; too many
    failures (``limits.give_up_after``, ``limits.max_failure_share``); and a bug. A single refused
    request and an episode that is known to fail do not count toward these limits. Where an
    endpoint says that a prompt is too long, the episode is truncated, as by
    ``limits.max_prompt_chars``.

    All calls of `run` share one limit, first come, first served. Episodes with equal keys are
    played once, in one call or in concurrent calls. An engine belongs to the event loop that first
    uses it.

    Attributes:
        recorder: Stores results; those with a reward are reused.
        mode: ``free`` plays every episode at its own pace, for agents behind an endpoint.
            ``lockstep`` asks for the actions of up to ``max_concurrent`` episodes in one batch per
            turn, in the order of the specs, for policies; one wave at a time. There the deadline
            applies to each batch and each environment call, and a batch that an endpoint refuses
            is sent again one request at a time.
        env_identity: Configuration and version of the environment, for the episode keys.
        permit: Entered before an episode, or a wave, starts.
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
        """Return the player; an engine on other machines has another one."""
        return Player(self.agent, self.make_env, self.limits, self.prompt, self.mode)

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play every episode and return the results in the order of ``specs``.

        Raises:
            ModelRefused: An endpoint refuses the key or the model.
            EngineDown: Too many episodes failed (``limits``).
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
                # Shielded: cancelling this call must not cancel the call that plays the episode.
                result = await asyncio.shield(claim)
                if result is not None:
                    results[key] = result
            # What is left was abandoned by the call that had claimed it.
            todo = {key: one for key, one in todo.items() if key not in results}
        return [one.adopt(results[one.key]) for one in assignments]

    async def _contexts(self, tasks: Sequence[Task], skills: SkillSource) -> list[SkillContext]:
        if not skills.waits:
            return skills.contexts(tasks)
        # One call at a time, so that calls start in the order in which they came.
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
        """Play started episodes and count their failures."""
        ticket, telling = self._circuit.begin(), list[EpisodeResult]()
        try:
            await self._play_and_settle(wave, telling)
        except BaseException:
            self._circuit.withdraw(ticket)
            raise
        # Only after the whole wave is settled, so that no played episode is lost.
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
        """Store an unfinished episode's usage; an error here must not hide why the run ends."""
        if self.recorder is not None:
            try:
                self.recorder.abandon(result)
            except Exception:  # such as a full disk
                logger.warning(
                    "the usage of an unfinished episode could not be stored", exc_info=True
                )

    def _tells(self, result: EpisodeResult) -> bool:
        """Tell whether a result, not recorded yet, counts for the circuit."""
        if result.failure is None:
            return True
        if result.failure.cause is FailureCause.MODEL_REFUSED:
            return False
        return self.recorder is None or not self.recorder.known_to_fail(result.key)
