"""Evolve a bank: rounds of play, proposal and gate; a command that was killed is given again."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillwright.bank import (
    BankStore,
    ChangeReport,
    EvolutionResults,
    LogEntry,
    category_of,
    count_skills,
    evolve,
    scope_of,
)
from skillwright.bank.measure import active_by_category
from skillwright.bank.teaching.teacher import refuse_dead_teacher
from skillwright.config.bank_settings import StudySettings, teacher_of
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, DataError, EpisodeResult
from skillwright.core.jsonio import JsonRecord, digest
from skillwright.datasets import EvolutionTasks, StudyTasks
from skillwright.evaluation import ErrorBudget, Verdict, choices, release_draws, why_hopeless
from skillwright.jobs.bank.session import BankSession, bank_session, study
from skillwright.jobs.run import Callback, StageStarted, known_secrets
from skillwright.jobs.run.bank_source import STUDIED_SPLITS, bank_work, count_use
from skillwright.jobs.run.evolution_round import WITHOUT_GATE, PlayedRound, why_unjudged
from skillwright.jobs.run.resources import MakeModel, asked_anew
from skillwright.models import make_model
from skillwright.rollout import read_rollouts, refuse_no_score
from skillwright.runs import RunStore


@dataclass(frozen=True, slots=True)
class EvolutionRound(JsonRecord):
    """A round and its outcome.

    Attributes:
        number: From 1, over the life of the bank.
        before: The bank's version before it.
        version: The bank's version after it.
        action: ``accept``, ``reject``, ``undecided``, or why there was nothing to judge:
            ``none_weak``, ``no_proposal``, ``nothing_new``; ``without_gate`` if no gate was asked.
        success: (solved, episodes) of the evolution split, by category.
        weakest: The category with the lowest success.
        changes: Every change and its outcome, a line each.
        growth: Active skills by category after it; ``""`` for general ones.
        blocked: Changes that lint blocked.
        notes: Repairs of the teacher's reply.
    """

    number: int
    before: int
    version: int
    action: str
    success: Mapping[str, tuple[int, int]]
    weakest: str | None
    changes: tuple[str, ...] = ()
    growth: Mapping[str, int] = field(default_factory=dict)
    blocked: int = 0
    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvolveReport:
    """The outcome of a command's rounds.

    Attributes:
        skills: Counts of the bank's skills, as SkillRL counts.
        release: The test of all accepted rounds together; ``None`` if nothing was accepted, or each
            round was released at once.
    """

    bank: str
    rounds: tuple[EvolutionRound, ...]
    skills: str
    is_scripted: bool
    release: Verdict | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {
            "bank": self.bank,
            "rounds": [one.to_dict() for one in self.rounds],
            "skills": self.skills,
            "scripted": self.is_scripted,
            "release": self.release.to_dict() if self.release else None,
        }


async def evolve_bank(
    config: RunConfig, bank: Path, rounds: int, callback: Callback, make: MakeModel = make_model
) -> EvolveReport:
    """Play the evolution split, have the teacher change the bank, and ask the gate; in rounds.

    A stopped command that is repeated with the same rounds and configuration plays the missing
    rounds. After any other change of the bank it is a new command.

    Args:
        config: The models, the tasks and the gate.
        bank: The bank's file, which must hold skills or have been begun.
        rounds: Number of rounds, at least 1; together they share ``evaluation.alpha``.
        callback: Receives the events.
        make: Makes the models.

    Raises:
        EngineDown: No episode of the evolution split has a reward.
        TeacherDown: No reply of the teacher is usable.
        UsageError: Something that the configuration names is missing or wrong.
    """
    async with AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, known_secrets(config)))
        bank_store = held.enter_context(BankStore.open(bank))
        session = await held.enter_async_context(bank_session(config, store, callback, make))
        run = _Rounds(session, bank_store, rounds)
        callback.on_event(session.started(bank, _expected_episodes(session, run.missing)))
        for _ in range(run.missing):
            await run.take()
        await run.end()
        skills = count_skills(bank_store.load()).headline
    models = (config.models.target, teacher_of(config))
    is_scripted = any(llm.is_scripted for llm in models)
    return EvolveReport(str(bank), tuple(run.done), skills, is_scripted, run.release)


async def evolve_on_rollouts(
    files: Sequence[Path],
    bank: Path,
    settings: StudySettings,
    reason: str,
    callback: Callback,
    make: MakeModel = make_model,
) -> EvolveReport:
    """Have a teacher change a bank by exported rollouts: within lint and limits, without a gate.

    Args:
        files: Files of rollouts (`skillwright.rollout.write_rollouts`), of train tasks only.
        bank: The bank's file, which must hold skills or have been begun.
        settings: The teacher and its limits.
        reason: The reason to ask no gate, for the bank's log.
        callback: Receives the events.
        make: Makes the teacher.

    Raises:
        DataError: A file has no rollouts, or an episode that may not be studied.
        EngineDown: No episode has a reward.
        TeacherDown: No reply of the teacher is usable.
        BankError: The file cannot be written, or another process works on it.
    """
    results = _studied(files)
    refuse_no_score(results)
    with BankStore.open(bank) as bank_store:
        async with study(bank, settings, callback, make) as held:
            with held.store.transaction():
                for one in results:
                    held.store.record_episode(one, usage={})
            before = bank_store.load()
            asked = settings.evolve.settings(success_threshold=1.0, step=before.version)
            tasks = {one.task_id: one.spec.task for one in results}
            split = EvolutionTasks(StudyTasks(tuple(tasks.values())), tuple(tasks))
            callback.on_event(StageStarted("evolve"))
            found = await evolve(
                EvolutionResults(split, tuple(results)),
                before,
                held.teacher(f"evolve {before.version}"),
                asked,
                category_of,
                scope_of,
            )
            with asked_anew(held.calls, found.faults):
                refuse_dead_teacher(found.faults, len(found.calls))
            candidate, report = found.candidate(before, asked.caps, held.is_near)
            count_use(held.store, bank_store, success_threshold=1.0)
        if candidate is not before:
            said = f"evolved on {len(results)} rollouts, without a gate: {reason}"
            bank_store.adopt(candidate, report, reason=said)
        action = why_unjudged(found, before, candidate) or WITHOUT_GATE
        played = PlayedRound(1, found, before, candidate, report, action, None)
        now = bank_store.load()
        skills = count_skills(now).headline
    record = EvolutionRound(
        number=1,
        before=before.version,
        version=now.version,
        action=action,
        success=played.success,
        weakest=found.weakest,
        changes=played.lines(),
        growth=active_by_category(now),
        blocked=len(found.blocked),
        notes=found.notes,
    )
    return EvolveReport(str(bank), (record,), skills, held.llm.is_scripted)


EVOLVED = "evolved"
"""The event of a round that is over."""
BEGUN = "evolve_begun"
SETTINGS = "evolve_settings"
"""The event of a command: its first round, how many, and what was configured."""


def _expected_episodes(session: BankSession, rounds: int) -> int:
    gate, val = session.config.evaluation.gate, len(session.bench.splits.val.tasks)
    played = len(session.evolution.tasks) * session.config.evolve.episodes
    at_the_end = gate.release.expected_rollouts(val) if gate.release else 0
    return rounds * (played + gate.expected_rollouts(val)) + at_the_end


def error_budget(config: RunConfig, log: Sequence[LogEntry], before: int = 0) -> ErrorBudget:
    """Rebuild from a bank's log what its release tests have spent.

    Args:
        config: Has ``evaluation.alpha``.
        log: The bank's log.
        before: Only count the tests before this step of the log; 0 counts all.
    """
    earlier = (one for one in log if not before or (one.step or 0) < before)
    return ErrorBudget.after(config.evaluation.alpha, (one.verdict for one in earlier))


def refuse_hopeless(config: RunConfig, val_tasks: int, decisions: int, budget: ErrorBudget) -> None:
    """Refuse a gate that cannot accept any change on so few tasks."""
    gate = config.evaluation.gate
    problem = why_hopeless(gate, gate.ledger(budget.level, decisions), val_tasks)
    if problem:
        raise ConfigError(
            f"no change of the bank could pass: {problem}. It would be {budget}. Add val tasks, "
            "ask for fewer rounds, or use evaluation.gate.kind 'strict'"
        )


class _Rounds:
    """The rounds of a command.

    Where every accept is a release, each round is logged at its end. With a release test, rounds
    continue from one another in memory, and the bank's file changes once, at the end, if all of
    them together are proven.
    """

    def __init__(self, session: BankSession, bank_store: BankStore, rounds: int) -> None:
        evaluation = session.config.evaluation
        self._session = session
        self._loop = session.loop(bank_store)
        self._bank_store = bank_store
        self._start = self._bank = bank_store.load()
        self._first, self.done = _begin(session, bank_store, rounds)
        self._test = evaluation.gate.release
        self._budget = error_budget(session.config, bank_store.log(), self._first)
        self._ledger = evaluation.gate.ledger(self._budget.level, rounds)
        for one in self.done:
            self._ledger = self._ledger.spend(one.verdict) if one.verdict else self._ledger
        self._explored: list[PlayedRound] = []
        self.missing = rounds - len(self.done)
        self.release: Verdict | None = None

    async def take(self) -> None:
        """Play a round; record an accepted change at once if no release test follows."""
        number = self._first + len(self.done) + len(self._explored)
        taken = [one.action for one in self.done] + [one.action for one in self._explored]
        accepts = taken.count("accept")
        first_draw = (self._first + accepts) * self._loop.gate.draws
        earlier = self._earlier(number)
        played = await self._loop.take(number, self._bank, self._ledger, earlier, first_draw)
        faults, calls = played.found.faults, len(played.found.calls)
        with asked_anew(self._session.calls, faults):
            refuse_dead_teacher(faults, calls)
        self._bank = played.after
        if self._test is not None:
            self._explored.append(played)
            return
        if played.verdict is not None:
            self._ledger = self._ledger.spend(played.verdict)
        with self._bank_store.together():
            self._write(played)
        self._bank = self._bank_store.load()

    async def end(self) -> None:
        """Test what was explored, and write all of it down."""
        if self._test is None:
            return
        explored = self._explored
        if self._bank is not self._start:
            draws = release_draws(self._loop.terms.seed, self._first, explored[-1].number)
            sides = (self._start, self._bank)
            judged = choices(one.verdict for one in explored if one.verdict is not None)
            found = await self._loop.judge(sides, self._test, draws, self._ledger, judged)
            self.release = self._budget.explained(found)
        with self._bank_store.together():
            if self.release is not None and self.release.accepted:
                self._adopt(self.release)
            for played in explored:
                self._write(played)

    def _earlier(self, number: int) -> list[str]:
        """Return what rounds before this one proposed, and what became of it."""
        # A command that was killed while it wrote a round down repeats it as it was.
        end = self._first if self._test is not None else number
        before = [one for one in _evolved(self._session.store) if one.number < end]
        written = [line for one in before for line in one.changes]
        return [*written, *(line for played in self._explored for line in played.lines())]

    @property
    def _accepted(self) -> list[PlayedRound]:
        return [one for one in self._explored if one.action == "accept"]

    def _adopt(self, verdict: Verdict) -> None:
        taken = self._accepted
        outcomes = tuple(outcome for one in taken for outcome in one.report.outcomes)
        numbers = ", ".join(str(one.number) for one in taken)
        self._bank_store.adopt(
            replace(self._bank, version=self._start.version + 1),
            ChangeReport(outcomes),
            reason=f"evolved in {'rounds' if len(taken) > 1 else 'round'} {numbers}",
            verdict=verdict.to_dict(),
            step=taken[-1].number,
        )

    def _write(self, played: PlayedRound) -> None:
        """Log a round in the bank and in the store.

        The caller holds a transaction of the bank, which ends after the store's: a round that only
        the store has is repeated; one that only the bank had would be lost.
        """
        store, bank_store, number = self._session.store, self._bank_store, played.number
        count_use(store, bank_store, self._loop.terms.success_threshold)
        verdict = self.release if played.action == "accept" and self.release else played.verdict
        if verdict is None:
            # A round without a proposal is a round too: the next one draws other episodes.
            notes = "; ".join(played.found.notes) or played.action.replace("_", " ")
            bank_store.commit([], reason=f"round {number}: {notes}", step=number)
        elif not verdict.accepted:
            # A release test of several rounds is one test, and the log has its verdict once.
            is_last = all(one.number <= number for one in self._accepted)
            is_own = verdict is not self.release or is_last
            said = verdict.to_dict() if is_own else None
            bank_store.reject(
                played.found.changes, reason=verdict.reason, verdict=said, step=number
            )
        elif self.release is None:
            reason = f"evolved in round {number}"
            bank_store.adopt(
                played.candidate,
                played.report,
                reason=reason,
                verdict=verdict.to_dict(),
                step=number,
            )
        one = self._record(played)
        if number not in [known.number for known in _evolved(store)]:
            with store.transaction(durable=True):
                store.append_event(EVOLVED, one.to_dict())
        self.done.append(one)

    def _record(self, played: PlayedRound) -> EvolutionRound:
        now = self._bank_store.load()
        return EvolutionRound(
            number=played.number,
            # What was explored enters as one version, or not at all: the bank has none in between.
            before=min(played.before.version, now.version),
            version=now.version,
            action=played.action,
            success=played.success,
            weakest=played.found.weakest,
            changes=played.lines(is_kept=self.release is None or self.release.accepted),
            growth=active_by_category(now),
            blocked=len(played.found.blocked),
            verdict=played.verdict,
            notes=played.found.notes,
        )


def _begin(
    session: BankSession, bank_store: BankStore, rounds: int
) -> tuple[int, list[EvolutionRound]]:
    """Return a command's first round, and those that it has played before it was stopped."""
    config, store = session.config, session.store
    settings = config.model_dump(mode="json", exclude={"budget"})
    asked = {"rounds": rounds, "config": digest(settings)}
    log = bank_store.log()
    last = max((entry.step or 0 for entry in log), default=0)
    begun = [event.payload for event in store.events(BEGUN)]
    first = begun[-1]["first"] if begun else 0
    if begun and begun[-1] == {**asked, "first": first}:
        done = [one for one in _evolved(store) if first <= one.number <= last]
        if last == first - 1:
            return first, []
        is_newest = log[-1].step == last == done[-1].number if done else False
        if is_newest and len(done) == last - first + 1 < rounds:
            return first, done
    refuse_hopeless(config, len(session.bench.splits.val.tasks), rounds, error_budget(config, log))
    store.append_event(BEGUN, {**asked, "first": last + 1})
    store.append_event(SETTINGS, settings)  # who exports the bank finds what it was proven with
    return last + 1, []


def _evolved(store: RunStore) -> list[EvolutionRound]:
    return [EvolutionRound.from_dict(event.payload) for event in store.events(EVOLVED)]


def _studied(files: Sequence[Path]) -> list[EpisodeResult]:
    """Read rollouts, and refuse those of val and test tasks; the last of repeated ones counts."""
    results: dict[str, EpisodeResult] = {}
    for file in files:
        for one in read_rollouts(file):
            asked = one.spec
            if asked.task.split not in STUDIED_SPLITS or asked.phase != "train":
                split, phase = asked.task.split or "unknown", asked.phase or "unknown"
                raise DataError(
                    f"{str(file)!r} holds an episode of task {asked.task.id!r}, split {split!r}, "
                    f"phase {phase!r}. A bank that learns from tasks that decide or are reported "
                    "proves nothing: give rollouts of train tasks"
                )
            results[one.key] = one
    return list(results.values())
