"""What a training knows about its current skill, and what its budget leaves for it."""

from typing import TYPE_CHECKING, Literal

from skillwright.core import skill_hash
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import Draws, release_draws
from skillwright.jobs.run.bench import StepRef
from skillwright.jobs.text.state import TrainState
from skillwright.jobs.text.wiring import TrainParts, skills_confirmed, skills_tested

if TYPE_CHECKING:  # they import numpy, which only a judging run needs
    from skillwright.evaluation.gates.current import CurrentSkill

_LINES_FROM = 900_000  # between the draws of step decisions and those of release tests

LEAST_DRAWS = 5
"""Draws of a candidate without which a step is not begun."""


def current_skill(run: TrainParts, state: TrainState) -> "CurrentSkill | None":
    """Return what is known about the current skill; ``None`` for a gate without a belief."""
    if not run.gate.believes or not state.seen:
        return None
    from skillwright.evaluation.gates.current import CurrentSkill

    return CurrentSkill.of(list(state.seen[0].candidate), state.seen)


def step_read(run: TrainParts, state: TrainState, step: int) -> StepRef:
    """Return the step whose rollouts a step reads: itself, or, with a budget, an earlier one.

    When the current skill has played all train tasks, a step reads its rollouts of them again,
    unless the last step led to no candidate. The optimizer sees which edits failed since, and
    what the rollouts would cost pays for judging more candidates.
    """
    is_judged = bool(state.steps) and state.steps[-1].verdict is not None
    if run.gate.believes and run.config.budget.is_set and is_judged:
        version = next(one for one in run.store.skills() if one.version == state.skill_version)
        changed = (one.step for one in state.lines if one.version is not None)
        since, each = max(version.step or 0, *changed, 0) + 1, run.steps_per_epoch
        if step - since >= each:
            step = since + (step - since) % each
    return StepRef(step, (step - 1) // run.steps_per_epoch + 1)


def step_cost(run: TrainParts, batch: float, last: int) -> float:
    """Return what it costs to propose a candidate, in rollouts.

    It is ``batch``, the rollouts that are played for it, and the optimizer's calls as measured
    until step ``last``: their dollars, or their tokens if a price is unknown, divided by those of a
    rollout. Where nothing is measured, they count as much as the rollouts that they read, and
    little if the budget is in rollouts alone.
    """
    asked, played, episodes = run.store.usage_of_steps(last)
    for calls, rollouts in (
        (asked.cost_usd, played.cost_usd),
        (asked.input_tokens + asked.output_tokens, played.input_tokens + played.output_tokens),
    ):
        if calls and rollouts:
            return batch + calls / last / (rollouts / episodes)
    budget = run.config.budget
    is_counted = not budget.rollouts or budget.usd or budget.tokens or budget.minutes
    return batch + (_size(run) if is_counted else LEAST_DRAWS)


def replayed(run: TrainParts, draws: Draws) -> int:
    """Return how many episodes of an interrupted decision are stored; a resumed run replays them.

    They are added to what the budget leaves, so that it decides as if it had not been interrupted.
    """
    stored = run.store.episodes(phase=draws.phase, step=draws.step)
    return sum(one.draw >= draws.first and one.reward is not None for one in stored)


def _replayed_next(run: TrainParts, state: TrainState) -> int:
    """Return how many episodes of the next step and the next release test are stored."""
    step, seed = state.last_step + 1, run.config.run.seed
    parts = [
        Draws(seed, phase="train", step=step),
        Draws(seed, phase="gate", step=step),
        release_draws(seed, state.next_test, state.last_step),
    ]
    if not any(one.step == state.last_step for one in state.lines):
        parts.append(line_draws(run, state))
    return sum(replayed(run, draws) for draws in parts)


def line_draws(run: TrainParts, state: TrainState) -> Draws:
    """Return the draws with which lines are judged after the last step."""
    return Draws(run.config.run.seed, _LINES_FROM, "lines", state.last_step)


def rollouts_left(run: TrainParts, state: TrainState, replayed: int = 0) -> int | None:
    """Return the rollouts that a budget leaves before the sealed test; ``None`` without one.

    Args:
        run: The run.
        state: Whether the sealed test is still to be played.
        replayed: Rollouts so far that do not count.
    """
    left = run.budget.rollouts_left()
    if left is None:
        return None
    left += replayed
    evaluation, sizes = run.config.evaluation, run.bench.sizes
    blank = not run.store.skill(0).strip()
    # Adapters may not say how many test tasks they build; then as many as val are held back.
    tested = (sizes.val if sizes.test is None else sizes.test) or 0
    sealed = tested * skills_tested(run.config, starts_blank=blank)
    kept = skills_confirmed(run.config, starts_blank=blank) * evaluation.confirm_tasks
    if not evaluation.test or state.report is not None:
        sealed = 0
    if sealed:  # a run that continues with a larger budget has played some of it
        initial = skill_hash(run.store.skill(0))
        known = run.store.episodes(phase="test")
        # With a bank, the version of an episode names both.
        hashes = (one.skill_version.split("+")[0] for one in known if one.reward is not None)
        sealed -= sum(one == initial for one in hashes)
    return max(int(left) - sealed - (0 if state.finished else kept), 0)


def rollouts_for_steps(run: TrainParts, left: int | None) -> int | None:
    """Return which of the rollouts left may go to steps; the least release test is held back."""
    from skillwright.evaluation.gates.plan import held_back

    val = run.bench.sizes.val or 0
    kept = 2 * val if run.bench.plays_whole else held_back(val, run.config.budget.rollouts)
    return None if left is None else max(left - kept, 0)


def can_judge(run: TrainParts, state: TrainState, step: int) -> bool:
    """Tell whether the budget leaves a rollout for judging a step's candidate.

    The estimate of a budget in money, tokens or minutes can fall while the step is played.
    """
    draws = Draws(run.config.run.seed, phase="gate", step=step)
    left = rollouts_for_steps(run, rollouts_left(run, state, replayed(run, draws)))
    least = _least(run) if run.bench.plays_whole else 1
    return not run.gate.believes or left is None or left >= least


def can_update(run: TrainParts, state: TrainState, epoch: int) -> bool:
    """Tell whether the budget leaves the rollouts of an epoch's update and its candidate."""
    if not run.gate.believes or not run.config.budget.is_set:
        return True
    seed, stored = run.config.run.seed, run.store.episodes(phase="slow_update")
    begun = sum(one.seed == derive_seed("slow_update", seed, epoch, one.task_id) for one in stored)
    left = rollouts_for_steps(run, rollouts_left(run, state, begun))
    if left is None:
        return True
    played = 2 * run.config.optimizer.slow_update_samples if state.last_epoch else 0
    return left >= played + _least(run)


def next_move(run: TrainParts, state: TrainState) -> Literal["step", "test", "end"]:
    """Return what a run with a budget should do next: a step, a release test, or its end."""
    from skillwright.evaluation.gates.plan import Spending, is_time_to_test

    if not run.config.budget.is_set or not state.steps:
        return "step"
    left = rollouts_left(run, state, _replayed_next(run, state))
    known = current_skill(run, state)
    if left is None or known is None:
        return "step"
    if state.failed_to_prove:
        return "end"
    step = state.last_step + 1
    batch = train_batch(run, state, step)
    is_last = (rollouts_for_steps(run, left) or 0) < batch + _least(run)
    decided, trained = max(len(state.seen) - 1, 1), run.store.episodes(phase="train")
    mean = sum((one.step or 0) < step for one in trained) / state.last_step
    mean += sum(one.rollouts for one in state.verdicts) / decided
    is_new = state.skill_version != 0 and not state.is_tested
    if is_new and is_time_to_test(
        known, Spending(left, mean, step_cost(run, batch, step - 1)), is_last=is_last
    ):
        return "test"
    return "end" if is_last else "step"


def train_batch(run: TrainParts, state: TrainState, step: int) -> int:
    """Return the rollouts that a step plays for training."""
    return _size(run) if step_read(run, state, step).step == step else 0


def _size(run: TrainParts) -> int:
    wanted = run.config.train.batch_size * run.config.train.accumulation
    return min(wanted, run.bench.sizes.train)


def _least(run: TrainParts) -> int:
    """Return the draws of a candidate without which a step is not begun."""
    return run.bench.sizes.val or 0 if run.bench.plays_whole else LEAST_DRAWS
