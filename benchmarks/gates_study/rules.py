"""The compared rules: each takes as many steps as its budget allows.

``explore`` and ``paired`` are the project's own classes; the other rules are written here.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gates_study.duel import SimulatedDuel, Stored, result_of, task_ids
from gates_study.worlds import BATCH, STRENGTH, Cell, Rates, Run, mean_rate
from skillwright.evaluation import (
    ExploreGate,
    PairedGate,
    Terms,
    Verdict,
    choices,
    detectable_gain,
)
from skillwright.evaluation.gates import explore
from skillwright.evaluation.gates.current import CurrentSkill
from skillwright.evaluation.gates.plan import Spending, held_back, is_time_to_test
from skillwright.evaluation.gates.release import RELEASE_SHARES, SignTest
from skillwright.evaluation.verdict import Seen

ALPHA = 0.05
NAN = math.nan
LEAST_DRAWS = 5  # a step is begun if its candidate can be drawn that often
FIRST_LOOK = 50  # most pairs before the first look of a release test
STEP_COST = 2.0 * BATCH  # what a training assumes, whatever its optimizer costs


class Outcome(NamedTuple):
    """The end of a run; all gains are true gains over the initial skill."""

    released: float
    """Gain of the released skill; 0 if the initial one stays."""
    current: float
    """Gain of the skill from which training would continue."""
    out: float
    """Whether something was released."""
    cost: float
    """Total cost, in rollouts."""
    tests: float
    """Rollouts of release tests."""
    steps: float
    """Steps taken."""
    waves: float = NAN
    """Mean number of times that a decision waited for draws."""
    printed: float = NAN
    """Gain that the last proof says to expect; NaN without one. The next fields are its too."""
    low: float = NAN
    """Lower end of the 95% interval of that."""
    high: float = NAN
    """Upper end."""
    measured: float = NAN
    """Gain in the draws of its release test."""
    measured_low: float = NAN
    """Lower end of the 95% interval of that, without a correction."""
    measured_high: float = NAN
    """Upper end."""


Rule = Callable[[Run], Outcome]


def _unproven(run: Run, current: Rates, steps: int, waves: float = NAN) -> Outcome:
    gain = run.gain(current)
    return Outcome(gain, gain, float(current is not run.initial), run.cost, 0, steps, waves)


# The project's gates.


def by_worth(run: Run) -> Outcome:
    """Play with the default gate: steps by what a draw is worth, and a release test."""
    gate, ids, initial = ExploreGate(), task_ids(run.tasks), run.initial
    ledger = gate.ledger(ALPHA, 1)  # all of it, as a training with a budget does
    first = {one: (float(got), 1) for one, got in zip(ids, run.draw_all(initial), strict=True)}
    seen, verdicts = (Seen(first),), list[Verdict]()
    current = released = initial
    tests, waves, begun, proof = 0, 0, run.cost, Outcome(0, 0, 0, 0, 0, 0)
    while True:
        room = run.left - held_back(run.tasks, run.cell.budget)
        is_last = room < run.cell.step + LEAST_DRAWS
        if current is not initial and current is not released:
            known = CurrentSkill.of(ids, seen)
            mean = (run.cost - begun - tests) / max(len(verdicts), 1)
            spending = Spending(run.left, mean, STEP_COST)
            if is_time_to_test(known, spending, is_last=is_last):
                duel, before = SimulatedDuel(run, initial, current), run.cost
                terms = Terms(
                    seed=run.number,
                    judged=choices(verdicts),
                    seen=seen,
                    repeats=known.repeats,
                    rollouts=run.left,
                )
                verdict = result_of(gate.release.judge(duel, ledger, terms))
                tests += run.cost - before
                if not verdict.accepted:
                    break
                released, proof = current, _proof(verdict)
                continue
        if is_last:
            break
        train, candidate = run.train(current), run.propose(current)
        duel = SimulatedDuel(run, current, candidate)
        terms = Terms(
            seed=run.number,
            seen=seen,
            step_cost=STEP_COST,
            rollouts=run.left - held_back(run.tasks, run.cell.budget),
            train=train,
        )
        verdict = result_of(gate.judge(duel, ledger, terms))
        waves += duel.waves
        verdicts.append(verdict)
        seen += (verdict.seen or Seen({}),)
        current = candidate if verdict.accepted else current
    steps = len(verdicts)
    return proof._replace(
        released=run.gain(released),
        current=run.gain(current),
        out=float(released is not initial),
        cost=run.cost,
        tests=tests,
        steps=steps,
        waves=waves / max(steps, 1),
    )


def in_small_chunks(run: Run) -> Outcome:
    """Play with the default gate, but never draw more than its least number of tasks at once."""
    usual, explore.GROWTH = explore.GROWTH, 0.0
    try:
        return by_worth(run)
    finally:
        explore.GROWTH = usual


def _proof(verdict: Verdict) -> Outcome:
    expected, measured = verdict.expected, verdict.effect
    if expected is None or measured is None:
        raise RuntimeError("a proof without an expected gain")
    return Outcome(
        *(0, 0, 1, 0, 0, 0, NAN),
        expected.gain,
        expected.low,
        expected.high,
        measured,
        *(verdict.interval or (NAN, NAN)),
    )


def paired(run: Run) -> Outcome:
    """Play with the gate that proves every step; its alpha is shared among the steps it affords."""
    gate, n = PairedGate(), run.tasks
    stored: Stored = {at: [float(one)] for at, one in enumerate(run.draw_all(run.initial))}
    steps, current = 0, run.initial
    ledger = gate.ledger(ALPHA, max(run.left // (run.cell.step + n), 1))
    while run.left >= run.cell.step + n * (1 if stored else 2) and ledger.share:
        candidate = run.propose(current)
        duel = SimulatedDuel(run, current, candidate, stored)
        verdict = result_of(gate.judge(duel, ledger, Terms(seed=run.number)))
        ledger, steps = ledger.spend(verdict), steps + 1
        if verdict.accepted:
            current, stored = candidate, {}  # both sides draw anew
    return _unproven(run, current, steps, 1)


# Rules of other programs.


def stored_scores(accepts: Callable[[Rates, Rates], bool]) -> Rule:
    """Return a rule that compares one draw per task with the scores stored for the incumbent."""

    def play(run: Run) -> Outcome:
        current, scores, steps = run.initial, run.draw_all(run.initial), 0
        while run.left >= run.cell.step + run.tasks:
            candidate = run.propose(current)
            new, steps = run.draw_all(candidate), steps + 1
            if accepts(new, scores):
                current, scores = candidate, new
        return _unproven(run, current, steps, 1)

    return play


def any_gain(new: Rates, old: Rates) -> bool:
    """Decide as SkillOpt: any gain in the mean."""
    return bool(new.sum() > old.sum())


def above_error(new: Rates, old: Rates) -> bool:
    """Decide as a peer: mean paired gain minus one standard error above 0."""
    gains = new - old
    return bool(gains.mean() > gains.std(ddof=1) / math.sqrt(len(gains)))


def racing(run: Run) -> Outcome:
    """Propose several candidates at once, and halve them (successive halving).

    All of them and the current skill play the same tasks, at first a quarter; the better half of
    the candidates plays a further quarter, the last one all tasks. It has to beat the current one.

    Source: K. Jamieson and A. Talwalkar, AISTATS 2016 (arXiv 1502.07943).
    """
    n, current, steps, rounds = run.tasks, run.initial, 0, 0
    stages = [n // 4, n // 4, n - 2 * (n // 4)]

    def cost(entrants: int) -> int:
        sides = (max(entrants >> stage, 1) + 1 for stage in range(3))
        return entrants * run.cell.step + sum(map(int.__mul__, stages, sides))

    while entrants := next((k for k in (4, 2, 1) if run.left >= cost(k)), 0):
        rates = [run.propose(current) for _ in range(entrants)]
        order, done = np.random.default_rng(rounds).permutation(n), 0
        sums, base = np.zeros(entrants), 0.0
        for size in stages:
            places = order[done : done + size]
            base += run.draw(current, places).sum()
            sums += [run.draw(one, places).sum() for one in rates]
            done += size
            if done < n:
                best = np.argsort(-sums, kind="stable")[: max(len(rates) // 2, 1)]
                rates, sums = [rates[at] for at in best], sums[best]
        steps, rounds = steps + entrants, rounds + 1
        current = rates[0] if sums[0] > base else current
    return _unproven(run, current, steps, rounds * len(stages) / max(steps, 1))


def betting(run: Run, fraction: float = 0.5) -> Outcome:
    """Accept by a test by betting per decision, on fresh pairs of each task.

    Of the pairs that differ, half of the wealth is bet on the candidate; it is accepted when the
    wealth reaches 1 / alpha, and rejected after all tasks. Alpha is that of each decision.

    Source: PACE (arXiv 2606.08106).
    """
    current, steps, waves = run.initial, 0, 0
    while run.left >= run.cell.step + 2 * LEAST_DRAWS:
        candidate, wealth = run.propose(current), 1.0
        for at in np.random.default_rng(steps).permutation(run.tasks):
            if run.left < 2 or wealth >= 1 / ALPHA:
                break
            waves += 1
            new, old = (run.draw(rates, np.array([at]))[0] for rates in (candidate, current))
            wealth *= 1 + fraction * (new - old)
        steps += 1
        current = candidate if wealth >= 1 / ALPHA else current
    return _unproven(run, current, steps, waves / max(steps, 1))


# The earlier default of this project, as the baseline.

_LOOKS = (1, 1, 2, 2)  # further draws of each task before a look of a step
_RELEASE = (2, 2, 4, 8)


def old_explore(cell: Cell) -> Rule:
    """Return the default before: looks at both sides on all tasks, then a release test.

    Its release tests take what they need. So that its runs cost the budget on average, what 40
    trial runs' tests took is left out of the budget of its steps.
    """
    trials = [Run(cell, number, "trial") for number in range(40)]
    kept = float(np.mean([_old_explore(run, 4.0 * cell.tasks).tests for run in trials]))
    return lambda run: _old_explore(run, kept)


def _old_explore(run: Run, kept: float) -> Outcome:
    n, current, steps = run.tasks, run.initial, 0
    old = [run.draw_all(current)]
    while run.left - kept >= run.cell.step + n:
        candidate, steps = run.propose(current), steps + 1
        new = list[Rates]()
        asked, accepted = np.ones(n, bool), None
        for look, size in enumerate(_LOOKS):
            left = len(_LOOKS) - 1 - look
            for _ in range(size):
                new.append(_row(run, candidate, asked))
                if len(old) < len(new):
                    old.append(np.full(n, np.nan))
                missing = asked & np.isnan(old[len(new) - 1])
                old[len(new) - 1][missing] = run.draw(current, np.flatnonzero(missing))
            a, b = np.array(new), np.array(old[: len(new)])
            both = np.r_[a, np.where(np.isnan(a), np.nan, b)]
            asked = np.nanmax(both, 0) != np.nanmin(both, 0)
            z = _z(np.nanmean(a - b, 0))
            left = left if asked.any() else 0
            accepted = _decided(z, left)
            if accepted is not None:
                break
        if accepted:
            current, old = candidate, []
    before = run.cost
    out = current is not run.initial and _old_release(run, current)
    gain = run.gain(current)
    return Outcome(gain * out, gain, float(out), run.cost, run.cost - before, steps)


def _decided(z: float, looks_left: int) -> bool | None:
    if not looks_left:
        return z > 0
    return True if z >= 0.2 + 0.4 * looks_left else False if z <= -0.2 - 0.2 * looks_left else None


def _old_release(run: Run, current: Rates) -> bool:
    n, alpha = run.tasks, ALPHA * RELEASE_SHARES[0]
    test, asked = SignTest(n, run.number), np.ones(n, bool)
    new, old = list[Rates](), list[Rates]()
    for look, size in enumerate(_RELEASE):
        for _ in range(size):
            new.append(_row(run, current, asked))
            old.append(_row(run, run.initial, asked))
        both = np.r_[np.array(new), np.array(old)]
        asked = np.nanmax(both, 0) != np.nanmin(both, 0)
        gains = np.nanmean(np.array(new) - np.array(old), 0)
        is_last = look == len(_RELEASE) - 1 or not asked.any()
        limit = alpha if is_last else alpha * (look + 1) / len(_RELEASE)
        if test.look(list(gains), limit) <= limit and gains.mean() > 0:
            return True
        if is_last or _z(gains) < 0.2 * look:
            break
    return False


def _row(run: Run, rates: Rates, asked: NDArray[np.bool_]) -> Rates:
    row = np.full(run.tasks, np.nan)
    row[asked] = run.draw(rates, np.flatnonzero(asked))
    return row


def _z(gains: Rates) -> float:
    return float(gains.mean() / (gains.std(ddof=1) / math.sqrt(len(gains)) + 1e-9))


# What is possible.


def oracle(run: Run) -> Outcome:
    """Accept by the true effect of each edit, without draws, and test as the default does.

    It knows the power of its release test too: it stops if a further step would leave too few
    rollouts for a power of about 90%.
    """
    gate, current, steps = ExploreGate(), run.initial, 0
    ledger = gate.ledger(ALPHA, 1)
    least, step = 2 * min(run.tasks, FIRST_LOOK), run.cell.step
    while run.left >= least + step:
        if 0 <= run.left - max(_tested_with(run, current), least) < step:
            break
        candidate, steps = run.propose(current), steps + 1
        if run.gain(candidate) > run.gain(current):
            current = candidate
    before, out = run.cost, False
    if current is not run.initial:
        duel = SimulatedDuel(run, run.initial, current)
        terms = Terms(seed=run.number, repeats=False, rollouts=run.left)
        out = result_of(gate.release.judge(duel, ledger, terms)).accepted
    gain = run.gain(current)
    return Outcome(gain * out, gain, float(out), run.cost, run.cost - before, steps)


def _tested_with(run: Run, current: Rates) -> float:
    """Return rollouts with which a release test has a power of 90%, by a normal approximation."""
    gains = (current - run.initial)[: run.tasks]
    if gains.mean() <= 0:
        return math.inf
    sides = (current[: run.tasks], run.initial[: run.tasks])
    noise = sum(float((rates * (1 - rates)).mean()) for rates in sides)
    wanted = (gains.mean() / 3.2) ** 2 - gains.var() / run.tasks
    return 2 * noise / wanted if wanted > 0 else math.inf


def printed_power(run: Run) -> Outcome:
    """Test a gain that should be proven in 8 of 10 runs, as `doctor` prints before a run.

    The gain falls on a share of the tasks, as that of the study's useful edits does.
    """
    gate, n = ExploreGate(), run.tasks
    ledger = gate.ledger(ALPHA, 1)
    gain = detectable_gain(n, gate.release_draws, ledger.share) or NAN
    rng = run.cell.generator(run.number, "power")
    share = gain / (1 - mean_rate(run.cell.world)) / float(np.mean(STRENGTH))
    hit = rng.random(run.initial.shape) < share
    rates = run.initial + (1 - run.initial) * hit * rng.uniform(*STRENGTH)
    duel = SimulatedDuel(run, run.initial, rates)
    terms = Terms(seed=run.number, repeats=False)
    out = result_of(gate.release.judge(duel, ledger, terms)).accepted
    return Outcome(gain * out, gain, float(out), run.cost, run.cost, 0)


SKILLOPT, BEFORE, DEFAULT, ORACLE = "strict", "explore before", "explore", "oracle"

SMALL_CHUNKS, POWER = "explore, 5 draws at once", "printed power"

RULES = (
    DEFAULT,
    BEFORE,
    SKILLOPT,
    "gain above 1 SE",
    "racing",
    "PACE",
    "paired",
    ORACLE,
)
PROVING = (DEFAULT, BEFORE, "paired", ORACLE)
"""Rules that release nothing unproven; the others release their current skill."""

_RULES: dict[str, Rule] = {
    DEFAULT: by_worth,
    SKILLOPT: stored_scores(any_gain),
    "gain above 1 SE": stored_scores(above_error),
    "racing": racing,
    "PACE": betting,
    "paired": paired,
    ORACLE: oracle,
    SMALL_CHUNKS: in_small_chunks,
    POWER: printed_power,
}


def play(cell: Cell, rule: str, numbers: Sequence[int]) -> list[Outcome]:
    """Play runs of a cell under a rule by its name."""
    player = old_explore(cell) if rule == BEFORE else _RULES[rule]
    return [player(Run(cell, number, rule)) for number in numbers]
