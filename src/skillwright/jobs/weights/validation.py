"""The policy's checkpoints, its scores on val and test, and its release test."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillwright.bank import BankStore, scope_of
from skillwright.core import (
    EpisodeResult,
    EpisodeSpec,
    Pair,
    PlainSkill,
    RunError,
    SkillSource,
    Task,
)
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import (
    RELEASE_PHASE,
    DrawCount,
    Draws,
    ScoreTable,
    SplitReport,
    blocks,
    choices,
    release_draws,
)
from skillwright.jobs.kinds import RlKind
from skillwright.jobs.run.bench import terms_of
from skillwright.jobs.run.progress import ReleaseTested, Scored, StageStarted
from skillwright.jobs.run.resume import opened_before, write_down
from skillwright.jobs.weights.bank import bank_without
from skillwright.jobs.weights.injected import other_scopes
from skillwright.jobs.weights.state import (
    INTERNALIZED,
    START,
    TEST_EPISODES,
    RlState,
    Validated,
    Validation,
    checkpoint_name,
    selected,
)
from skillwright.jobs.weights.wiring import RlParts
from skillwright.policy import (
    BankVersionGone,
    Checkpoint,
    CheckpointDamaged,
    PolicyBackend,
    load_checkpoint,
    save_checkpoint,
)
from skillwright.rollout import refuse_no_score
from skillwright.runs import VerdictRecord


async def validate(run: RlParts, state: RlState, policy: PolicyBackend, iteration: int) -> RlState:
    """Score the current weights and bank on val, each task once."""
    known = state.validations.get(iteration)
    if known is not None and known.policy == policy.identity:
        return state
    version = state.version_after(iteration)
    tasks = run.tasks.val
    run.callback.on_event(StageStarted("val", step=iteration, episodes=len(tasks)))
    results = await _play(run, policy, tasks, run.source(version), "val")
    refuse_no_score(results)
    table = ScoreTable.of(results, run.config.env.success_threshold)
    score = Validation(iteration, version, table, policy.identity)
    state = write_down(run.store, state, RlKind.VALIDATION, score.to_dict())
    is_best = state.best is not None and state.best.iteration == iteration
    task_types = table.task_types
    run.callback.on_event(Validated(iteration, table.overall, task_types, is_best))
    return state


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path, bank_store: BankStore) -> None:
        self._folder = folder
        self._bank_store = bank_store

    @property
    def iterations(self) -> list[int]:
        """The iterations with a checkpoint, ascending."""
        if not self._folder.is_dir():
            return []
        found = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def path(self, iteration: int) -> Path:
        """Return the file of an iteration's checkpoint."""
        return self._folder / checkpoint_name(iteration)

    def save(self, backend: PolicyBackend, iteration: int, bank_version: int) -> None:
        """Save everything that the next iteration depends on."""
        bank = self._bank_store.load(bank_version)
        done = max(iteration, 0)  # `START` has done as many as the cold start
        kept = Checkpoint(backend.state(), done, bank_version, bank.digest)
        try:
            save_checkpoint(self.path(iteration), kept)
        except OSError as error:
            raise RunError(
                f"checkpoint {str(self.path(iteration))!r} cannot be written: {error.strerror}. "
                "Make room, then resume; the one before it is untouched"
            ) from error

    def load(self, backend: PolicyBackend, iteration: int) -> Checkpoint:
        """Load a checkpoint into a policy."""
        versions = {0, *self._bank_store.versions()}
        kept = load_checkpoint(self.path(iteration), versions)
        version = kept.bank_version or 0
        if self._bank_store.load(version).digest != kept.bank_digest:
            raise BankVersionGone(
                f"checkpoint {str(self.path(iteration))!r} was trained with another version "
                f"{version} of the skill bank than {str(self._bank_store.path)!r} holds: bring "
                "back the bank's file that belongs to this run"
            )
        try:
            backend.load(kept.policy)
        except CheckpointDamaged as error:
            raise CheckpointDamaged(f"checkpoint {str(self.path(iteration))!r}: {error}") from error
        return kept

    def latest(self, backend: PolicyBackend, before: int) -> int:
        """Load the latest checkpoint that is not damaged, and return its iteration.

        The iterations after it are played again, with the same results.
        """
        damage: CheckpointDamaged | None = None
        for iteration in reversed([number for number in self.iterations if number <= before]):
            try:
                self.load(backend, iteration)
            except CheckpointDamaged as error:
                damage = damage or error
            else:
                return iteration
        raise damage or CheckpointDamaged(
            f"there is no checkpoint in {str(self._folder)!r}, and the run is past its cold start; "
            "restore the folder from a copy, or start a new run"
        )

    def prune(self, state: RlState, latest: int) -> None:
        """Delete all but the reference, the best, the latest, and those that steps must beat.

        A run whose latest checkpoint is damaged continues at the best.
        """
        kept = {state.best.iteration if state.best else 0, latest}
        kept |= {0, *map(state.policy_step_at, kept)}
        for iteration in self.iterations:
            if iteration not in kept:
                self.path(iteration).unlink(missing_ok=True)
        for unfinished in self._folder.glob(".*.ckpt*"):  # left by a killed process
            unfinished.unlink(missing_ok=True)


async def release(
    run: RlParts, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Test the selected weights with their bank against the baseline with the first bank.

    Weights and bank change together, so they are tested together, on draws that decided nothing
    before. Where the test proves nothing, the baseline stays released.
    """
    test, chosen = run.config.evaluation.gate.release, selected(run.config, state)
    if test is None or chosen == state.baseline or state.release is not None:
        return state
    val = len(run.tasks.val)
    run.callback.on_event(StageStarted("release test", episodes=test.expected_rollouts(val)))
    sides = (
        Version(state.baseline, run.source(state.first_version)),
        Version(chosen, run.source(state.version_after(chosen))),
    )
    draws = release_draws(run.config.run.seed, 0, None)
    duel = WeightsDuel(run, policy, checkpoints, sides, draws)
    # The weights were selected, and the bank's changes judged, on the same tasks.
    weights = len(state.validations) if run.config.evaluation.select == "best" else 1
    terms = replace(
        terms_of(run.config, run.tasks.clusters), judged=choices(state.verdicts), weights=weights
    )
    verdict = await test.judge(duel, state.ledger, terms)
    with run.store.transaction(durable=True):
        run.store.record_verdict(VerdictRecord(chosen, verdict.to_dict(), "", RELEASE_PHASE))
        state = write_down(run.store, state, RlKind.RELEASE, verdict.to_dict())
    run.callback.on_event(ReleaseTested(verdict, state.ledger.left))
    return state


async def open_sealed(
    run: RlParts, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Score every artifact on the sealed tasks; only this function opens them.

    The artifacts are the baseline, the cold start with the first and with the last bank, the
    selected policy, and controls with its weights.
    """
    if not run.config.evaluation.test or state.test is not None:
        return state
    tasks = run.tasks.splits.test.open()
    artifacts = list(_artifacts(run, state, tasks))
    if state.sealed:
        named = {one.name: one.iteration for one in artifacts}
        key = "artifacts"
        state = write_down(run.store, state, RlKind.TEST_OPENED, {key: named})
    run.callback.on_event(StageStarted("test", episodes=len(artifacts) * len(tasks)))
    results: dict[str, list[EpisodeResult]] = {}
    there: int | None = None
    for one in artifacts:
        if one.iteration != there:
            checkpoints.load(policy, one.iteration)
            there = one.iteration
        results[one.name] = await _play(run, policy, tasks, one.skills, "test")
    refuse_no_score([result for played in results.values() for result in played])
    metric = run.config.evaluation.gate.scores(terms_of(run.config))
    report = SplitReport.of("test", results, run.config.env.success_threshold, metric)
    report = replace(report, opened_before=opened_before(run.store))
    for name, table in report.tables.items():
        run.callback.on_event(Scored(name, report.split, table.overall))
    keys = {name: [one.key for one in played] for name, played in results.items()}
    return write_down(run.store, state, RlKind.TEST, {**report.to_dict(), TEST_EPISODES: keys})


WITHOUT_BEFORE, WITHOUT_AFTER = "before_internalization", "internalized"
"""Artifacts of the sealed test without the distilled skills: the weights before and after."""
_BLOCKS = 4  # of a duel's tasks; each costs two loads, and a smaller batch is slower per episode
_NAME = re.compile(r"iteration_(\d{5,})\.ckpt")


@dataclass(frozen=True, slots=True)
class Artifact:
    """Weights and skills that are scored on the sealed tasks."""

    name: str
    iteration: int
    skills: SkillSource


def _artifacts(run: RlParts, state: RlState, tasks: tuple[Task, ...]) -> Iterator[Artifact]:
    chosen = selected(run.config, state)
    first, last = state.first_version, state.version_after(chosen)
    if state.baseline == START:
        yield Artifact("start", START, run.source(first))
    if state.baseline != START or chosen != 0:
        yield Artifact("cold_start", 0, run.source(first))
    if last != first:
        yield Artifact("cold_start_last_bank", 0, run.source(last))
    yield Artifact("final", chosen, run.source(last))
    made = state.internalized
    if made is not None and made.verdict is not None:
        bank, _ = bank_without(run.bank_store.load(made.before), made.skills)
        without = run.injector.source(bank)
        yield Artifact(WITHOUT_BEFORE, made.base, without)
        yield Artifact(WITHOUT_AFTER, INTERNALIZED, without)
    if run.config.bank.inject == "none":
        return
    yield Artifact("no_skills", chosen, PlainSkill(""))
    scopes = other_scopes(scope_of(task) for task in tasks)
    if scopes and run.config.bank.inject in ("skills", "facts"):
        bank = run.bank_store.load(last)
        yield Artifact("other_scope", chosen, run.injector.elsewhere(bank, scopes))


async def _play(
    run: RlParts, policy: PolicyBackend, tasks: tuple[Task, ...], skills: SkillSource, phase: str
) -> list[EpisodeResult]:
    engine = run.measuring_engine(policy, run.config.evaluation.temperature)
    seed = run.config.run.seed
    # Every measurement of a task has the same seed.
    specs = [EpisodeSpec(task, evaluation_seed(seed, task.id, 0), 0, phase) for task in tasks]
    return await engine.run(specs, skills)


@dataclass(frozen=True, slots=True)
class Version:
    """Weights, and the source of the skills that are injected."""

    iteration: int
    skills: SkillSource


@dataclass(slots=True)
class WeightsDuel:
    """Draws paired results of two versions; the weights of one at a time are loaded.

    So both versions play blocks of tasks in turn, in random order.
    """

    run: RlParts
    policy: PolicyBackend
    checkpoints: Checkpoints
    sides: tuple[Version, Version]
    draws: Draws
    _tasks: dict[str, Task] = field(init=False)
    _count: DrawCount = field(init=False)
    _loaded: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._tasks = {task.id: task for task in self.run.tasks.val}
        self._count = DrawCount(dict.fromkeys(self._tasks, self.draws.first))

    @property
    def task_ids(self) -> Sequence[str]:
        """The val tasks, in order."""
        return tuple(self._tasks)

    async def draw(self, task_ids: Sequence[str], n: int) -> list[Pair]:
        """Draw the next ``n`` pairs of each task, in order of ``task_ids``."""
        played: tuple[list[EpisodeResult], list[EpisodeResult]] = ([], [])
        for part in blocks(task_ids, _BLOCKS):
            specs = self._specs(part, n)
            for side in self.draws.order("block", specs[0].task.id, specs[0].draw):
                played[side].extend(await self._play(specs, self.sides[side]))
        self._load(self.sides[1])  # callers continue with the candidate's weights
        return [Pair(*pair) for pair in zip(*played, strict=True)]

    async def draw_candidate(self, task_ids: Sequence[str], n: int) -> list[EpisodeResult]:
        """Draw the next ``n`` episodes of each task under the candidate alone."""
        return await self._play(self._specs(task_ids, n), self.sides[1])

    def _specs(self, task_ids: Sequence[str], n: int) -> list[EpisodeSpec]:
        return [
            self.draws.spec(self._tasks[task_id], number)
            for task_id, number in self._count.take_each(task_ids, n)
        ]

    def _load(self, version: Version) -> None:
        if self._loaded != version.iteration:
            self.checkpoints.load(self.policy, version.iteration)
            self._loaded = version.iteration

    async def _play(self, specs: Sequence[EpisodeSpec], version: Version) -> list[EpisodeResult]:
        self._load(version)
        engine = self.run.measuring_engine(self.policy, self.run.config.evaluation.temperature)
        return await engine.run(specs, version.skills)
