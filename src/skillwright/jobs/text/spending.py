"""What a training knows about its current skill, and what its budget leaves for it."""

from typing import TYPE_CHECKING, Literal

from skillwright.jobs.text.state import TrainState
from skillwright.jobs.text.wiring import TrainParts, skills_confirmed, skills_tested

if TYPE_CHECKING:  # they import numpy, which only a judging run needs
    from skillwright.evaluation.gates.current import CurrentSkill

LEAST_DRAWS = 5
"""Draws of a candidate without which a step is not begun."""


def current_skill(run: TrainParts, state: TrainState) -> "CurrentSkill | None":
    """Return what is known about the current skill; ``None`` for a gate without a belief."""
    if not run.gate.believes or not state.seen:
        return None
    from skillwright.evaluation.gates.current import CurrentSkill

    return CurrentSkill.of(list(state.seen[0].candidate), state.seen)


def step_cost(run: TrainParts) -> float:
    """Return what it costs to propose a candidate, in rollouts.

    The optimizer's calls count as much as the rollouts that they read.
    """
    return 2.0 * _batch(run)


def rollouts_left(run: TrainParts) -> int | None:
    """Return the rollouts that a budget leaves before the sealed test; ``None`` without one."""
    left = run.budget.rollouts_left()
    if left is None:
        return None
    evaluation, sizes = run.config.evaluation, run.bench.sizes
    blank = not run.store.skill(0).strip()
    sealed = (sizes.test or 0) * skills_tested(run.config, starts_blank=blank)
    kept = skills_confirmed(run.config, starts_blank=blank) * evaluation.confirm_tasks
    return max(int(left) - (sealed if evaluation.test else 0) - kept, 0)


def rollouts_for_steps(run: TrainParts) -> int | None:
    """Return the rollouts that a budget leaves for steps; the least release test is held back."""
    from skillwright.evaluation.gates.plan import held_back

    left = rollouts_left(run)
    return None if left is None else max(left - held_back(run.bench.sizes.val or 0), 0)


def next_move(run: TrainParts, state: TrainState) -> Literal["step", "test", "end"]:
    """Return what a run with a budget should do next: a step, a release test, or its end."""
    from skillwright.evaluation.gates.plan import Spending, is_time_to_test

    left, known = rollouts_left(run), current_skill(run, state)
    if left is None or known is None:
        return "step"
    if state.failed_to_prove:
        return "end"
    is_last = (rollouts_for_steps(run) or 0) < _batch(run) + LEAST_DRAWS
    decided = max(len(state.seen) - 1, 1)
    mean = _batch(run) + sum(one.rollouts for one in state.verdicts) / decided
    is_new = state.skill_version not in (0, *state.tested)
    if is_new and is_time_to_test(known, Spending(left, mean, step_cost(run)), is_last=is_last):
        return "test"
    return "end" if is_last else "step"


def _batch(run: TrainParts) -> int:
    wanted = run.config.train.batch_size * run.config.train.accumulation
    return min(wanted, run.bench.sizes.train)
