"""How good the policy is: on val every few iterations, and on the sealed test once, at the end."""

from collections.abc import Iterator
from dataclasses import dataclass

from skillwright.bank import scope_of
from skillwright.core import EpisodeResult, EpisodeSpec, PlainSkill, SkillSource, Task
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import ScoreTable, SplitReport
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import Scored, StageStarted
from skillwright.jobs.rl.checkpoints import Checkpoints
from skillwright.jobs.rl.progress import Validated
from skillwright.jobs.rl.report import selected
from skillwright.jobs.rl.state import TEST_EPISODES, RlKind, RlState, Validation
from skillwright.jobs.rl.told import other_scopes
from skillwright.jobs.rl.wiring import Workshop
from skillwright.policy import PolicyBackend
from skillwright.rollout import refuse_no_score


async def validate(run: Workshop, state: RlState, policy: PolicyBackend, iteration: int) -> RlState:
    """Score the present weights with the present bank on val, each task exactly once."""
    known = state.validations.get(iteration)
    if known is not None and known.policy == policy.identity:
        return state
    version = state.version_after(iteration)
    tasks = run.tasks.val
    run.watcher.see(StageStarted("val", step=iteration, episodes=len(tasks)))
    results = await _play(run, policy, tasks, run.source(version), "val")
    refuse_no_score(results)
    table = ScoreTable.of(results, run.config.env.success_threshold)
    score = Validation(iteration, version, table, policy.identity)
    state = write_down(run.store, state, RlKind.VALIDATION, score.to_dict())
    is_best = state.best is not None and state.best.iteration == iteration
    run.watcher.see(Validated(iteration, table.overall, table.families, is_best))
    return state


@dataclass(frozen=True, slots=True)
class Artefact:
    """Something that is scored on the sealed tasks."""

    name: str
    iteration: int
    skills: SkillSource


async def open_sealed(
    run: Workshop, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Score every artefact in the one act that may see the sealed tasks.

    They are the policy of the cold start, told its own bank, and where that has changed the last
    one too; the selected policy; and the controls, with the weights of the selected policy.
    """
    if not run.config.evaluation.test or state.test is not None:
        return state
    tasks = run.tasks.splits.test.open()
    artefacts = list(_artefacts(run, state, tasks))
    if state.sealed:
        named = {one.name: one.iteration for one in artefacts}
        state = write_down(run.store, state, RlKind.TEST_OPENED, {"artefacts": named})
    run.watcher.see(StageStarted("test", episodes=len(artefacts) * len(tasks)))
    results: dict[str, list[EpisodeResult]] = {}
    there: int | None = None
    for one in artefacts:
        if one.iteration != there:
            checkpoints.load(policy, one.iteration)
            there = one.iteration
        results[one.name] = await _play(run, policy, tasks, one.skills, "test")
    refuse_no_score([result for played in results.values() for result in played])
    report = SplitReport.of("test", results, run.config.env.success_threshold)
    for name, table in report.tables.items():
        run.watcher.see(Scored(name, report.split, table.overall))
    # Weights and bank together tell whose an episode is; here they are known by name.
    keys = {name: [one.key for one in played] for name, played in results.items()}
    return write_down(run.store, state, RlKind.TEST, {**report.to_dict(), TEST_EPISODES: keys})


def _artefacts(run: Workshop, state: RlState, tasks: tuple[Task, ...]) -> Iterator[Artefact]:
    chosen = selected(run.config, state)
    first, last = state.first_version, state.version_after(chosen)
    yield Artefact("cold_start", 0, run.source(first))
    if last != first:
        yield Artefact("cold_start_last_bank", 0, run.source(last))
    yield Artefact("final", chosen, run.source(last))
    if run.config.bank.told == "nothing":
        return
    controls = run.config.evaluation.controls
    if "no_skills" in controls:
        yield Artefact("no_skills", chosen, PlainSkill(""))
    scopes = other_scopes(scope_of(task) for task in tasks)
    if "other_scope" in controls and scopes and run.config.bank.told == "skills":
        bank = run.bank_store.load(last)
        yield Artefact("other_scope", chosen, run.teller.elsewhere(bank, scopes))


async def _play(
    run: Workshop,
    policy: PolicyBackend,
    tasks: tuple[Task, ...],
    skills: SkillSource,
    phase: str,
) -> list[EpisodeResult]:
    engine = run.measuring_engine(policy, run.config.evaluation.temperature)
    seed = run.config.run.seed
    # Every measurement of a task meets the same luck.
    specs = [EpisodeSpec(task, evaluation_seed(seed, task.id, 0), 0, phase) for task in tasks]
    return await engine.run(specs, skills)
