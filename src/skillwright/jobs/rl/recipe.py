"""The recipe: from base trajectories to a policy that was taught, rewarded, and tested.

    base trajectories -> distilled bank
    expert, told the bank's skills -> verified wins -> cold start: the reference
    [ groups of rollouts under the same skills -> advantages -> update
      every N epochs: failures of the evolution split -> teacher -> gate -> next bank
      every k iterations: val ] x iterations
    release test: the selected policy and its bank against the cold start and the first bank
    test, opened once: cold start, selected policy, and the controls

What was decided stands in the run's store, weights in its checkpoints, and the bank in a file of
its own. A run that was killed goes back to the latest checkpoint; what it plays again on the way
ends as before, because nothing depends on time.

Source: SkillRL (arXiv 2602.08234).
"""

from skillwright.bank import count_skills, to_markdown
from skillwright.core.jsonio import write_text
from skillwright.jobs.parts.event_log import write_down
from skillwright.jobs.parts.progress import RunStarted
from skillwright.jobs.parts.same_tasks import refuse_other_tasks
from skillwright.jobs.rl.checkpoints import Checkpoints
from skillwright.jobs.rl.cold_start import start_cold
from skillwright.jobs.rl.evolution import evolve_bank
from skillwright.jobs.rl.first_bank import make_first_bank
from skillwright.jobs.rl.iteration import practise
from skillwright.jobs.rl.measure import open_sealed, validate
from skillwright.jobs.rl.progress import IterationEnded
from skillwright.jobs.rl.release import release
from skillwright.jobs.rl.report import RlReport, selected
from skillwright.jobs.rl.state import TIMING, RlKind, RlState, restore
from skillwright.jobs.rl.wiring import Workshop
from skillwright.policy import PolicyBackend
from skillwright.runs import RunFolder


async def rl(run: Workshop, folder: RunFolder) -> RlReport:
    """Run the recipe, or go on with it."""
    refuse_other_tasks(run.store, run.tasks.facts)
    state = restore(run.config, run.store)
    checkpoints = Checkpoints(run.checkpoints, run.bank_store)
    _introduce(run, state, folder, checkpoints)
    run, state = await make_first_bank(run, state)
    policy, state = await start_cold(run, state, checkpoints)
    state = await _train(run, state, policy, checkpoints)
    state = await release(run, state, policy, checkpoints)
    state = await open_sealed(run, state, policy, checkpoints)
    _publish(run, state)
    state = write_down(run.store, state, RlKind.FINISHED, {})
    return RlReport(state, selected(run.config, state))


async def _train(
    run: Workshop, state: RlState, policy: PolicyBackend, checkpoints: Checkpoints
) -> RlState:
    """Take the iterations that are left to take, from the latest checkpoint on."""
    section, last = run.config.grpo, run.config.grpo.iterations
    done = checkpoints.latest(policy, last)
    if not done:
        state = await validate(run, state, policy, 0)
    for iteration in range(done + 1, last + 1):
        version = state.version_after(iteration - 1)
        ended = await practise(run, state, policy, iteration, version)
        state = _note(run, state, ended)
        evolves = _evolves(run, iteration)
        if evolves and iteration not in state.evolutions:
            state = await evolve_bank(run, state, policy, iteration)
        validates = iteration % run.config.evaluation.val_every == 0 or iteration == last
        if validates:
            state = await validate(run, state, policy, iteration)
        if evolves or validates or iteration % section.checkpoint_every == 0:
            checkpoints.save(policy, iteration, state.version_after(iteration))
            checkpoints.prune(state, iteration)
    return state


def _evolves(run: Workshop, iteration: int) -> bool:
    evolve = run.config.evolve
    return evolve is not None and iteration % evolve.every == 0


def _note(run: Workshop, state: RlState, ended: IterationEnded) -> RlState:
    """Write an iteration down; one that was played again after a kill stands there already."""
    record = ended.record
    run.watcher.see(ended)
    if state.iterations.get(record.iteration) == record:
        return state
    timing = {"rollout_s": ended.rollout_s, "learning_s": ended.learning_s}
    return write_down(run.store, state, RlKind.ITERATION, {**record.to_dict(), TIMING: timing})


def _publish(run: Workshop, state: RlState) -> None:
    """Write the bank of the released policy for people to read."""
    report = RlReport(state, selected(run.config, state))
    bank = run.bank_store.load(state.version_after(report.released))
    write_text(run.bank_store.path.with_name("skills.md"), to_markdown(bank))


def _introduce(run: Workshop, state: RlState, folder: RunFolder, checkpoints: Checkpoints) -> None:
    config, tasks, last = run.config, run.tasks, state.last_iteration
    saved = max((one for one in checkpoints.iterations if one <= last), default=0)
    goes_on = state.cold_start is not None and last < config.grpo.iterations
    lost = f"iterations {saved + 1} to {last} are played again: weights were saved after {saved}"
    evolution = len(tasks.evolution.tasks) if tasks.evolution else 0
    bank = count_skills(run.bank_store.load())
    names = {role: mind.identity for role, mind in run.minds.items()}
    iterations = config.grpo.iterations
    run.watcher.see(
        RunStarted(
            name=folder.name,
            folder=str(folder.path),
            minds={"policy": config.policy.label, **names},
            facts=(
                f"{config.env.name}: {len(tasks.practice)} tasks to practise, {len(tasks.base)} "
                f"for base trajectories, {evolution} of the evolution split, {len(tasks.val)} val, "
                f"{len(tasks.splits.test)} sealed test tasks",
                f"{iterations} iterations of {config.grpo.tasks_per_iteration} x "
                f"{config.grpo.group_size} episodes; {config.evaluation.gate.kind} gate for the "
                "bank",
                *([f"bank: {bank.headline}"] if bank.total else []),
                *([lost] if goes_on and saved < last else []),
            ),
            steps=iterations,
            resumed_at=saved + 1 if goes_on else None,
        )
    )
