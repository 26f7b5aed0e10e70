"""Plays a simulated run under a rule: one of the project's gate classes, or a plain rule."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gates_study.duel import FakeDuel, Side, result_of
from gates_study.worlds import Rates, Run
from skillwright.evaluation import (
    Choice,
    ExploreGate,
    Gate,
    PairedGate,
    StrictGate,
    Terms,
    Verdict,
    choices,
)

ALPHA = 0.05
TERMS = Terms(seed=0)  # one seed for all runs: the sign assignments are drawn once
NAN = math.nan


class Outcome(NamedTuple):
    """What a run ends with; the truth is known."""

    current: float  # true gain of the skill that training would go on from
    released: float  # true gain of the released skill; 0 where the initial one stays
    out: float  # whether something was released
    rollouts: float  # episodes that were played, the baseline's included
    accepts: float  # accepted steps
    waves: float = NAN  # calls of the duel, by all step decisions together
    release_waves: float = NAN  # calls of the duel by the release test
    release_rollouts: float = NAN  # episodes of the release test
    error: float = NAN  # the release test's estimate minus the true gain; NaN without a test
    error_on_val: float = NAN  # the same, against the true gain on the validation tasks
    covered: float = NAN  # whether the test's interval holds the true gain; NaN without one


Rule = Callable[[Run, np.random.Generator], Outcome]


def with_gate(gate: Gate) -> Rule:
    """Return the rule of a gate class: its steps, and its release test if it has one."""

    def play(run: Run, rng: np.random.Generator) -> Outcome:
        return _GateRun(gate, run, rng).play()

    return play


class _GateRun:
    def __init__(self, gate: Gate, run: Run, rng: np.random.Generator) -> None:
        self._gate, self._run, self._rng = gate, run, rng
        # As in a training, which keeps a share of its alpha for a second release test.
        self._ledger = gate.ledger(ALPHA, run.cell.planned, second_release=True)

    def play(self) -> Outcome:
        run, gate, tasks = self._run, self._gate, self._run.cell.tasks
        verdicts: list[Verdict] = []
        current, incumbent = run.rates, self._side(run.rates, gate.draws)
        incumbent.paid = [1] * tasks  # the baseline is the initial skill's first draw
        rollouts, accepts, waves = tasks, 0, 0
        for edit in run.edits:
            rates = edit.of(current)
            candidate = self._side(rates, gate.draws)
            duel = FakeDuel(incumbent, candidate)
            verdict = result_of(gate.judge(duel, self._ledger, TERMS))
            self._ledger = self._ledger.spend(verdict)
            verdicts.append(verdict)
            rollouts, waves = rollouts + duel.rollouts, waves + duel.waves
            if verdict.accepted:
                current, accepts = rates, accepts + 1
                # What it was accepted on flatters it: from here on both sides draw anew.
                incumbent = self._side(current, gate.draws) if gate.redraws else candidate
        gain = run.gain(current)
        if gate.release is None:
            return Outcome(gain, gain, float(accepts > 0), rollouts, accepts, waves)
        if not accepts:
            return Outcome(gain, 0.0, 0.0, rollouts, 0, waves)
        duel, verdict = self._release(current, choices(verdicts))
        out = verdict.accepted
        return Outcome(
            gain,
            gain if out else 0.0,
            float(out),
            rollouts + duel.rollouts,
            accepts,
            waves,
            duel.waves,
            duel.rollouts,
            *_estimate(verdict, gain, run.gain_on_val(current)),
        )

    def _release(self, current: Rates, judged: tuple[Choice, ...]) -> tuple[FakeDuel, Verdict]:
        test = self._gate.release
        sides = [self._side(rates, test.draws) for rates in (self._run.rates, current)]
        duel = FakeDuel(*sides)
        terms = replace(TERMS, judged=judged)
        return duel, result_of(test.judge(duel, self._ledger, terms))

    def _side(self, rates: Rates, draws: int) -> Side:
        cell = self._run.cell
        return Side(rates[: cell.tasks], draws, self._rng, cell.lost)


def _estimate(verdict: Verdict, gain: float, on_val: float) -> tuple[float, float, float]:
    effect, interval = verdict.effect, verdict.interval
    if effect is None:
        return NAN, NAN, NAN
    covered = NAN if interval is None else float(interval[0] <= gain <= interval[1])
    return effect - gain, effect - on_val, covered


def strict(draws: int) -> Rule:
    """Return SkillOpt's rule: any gain in the mean over a number of draws, against a stored score.

    With one draw it decides as `StrictGate` with ``fresh_draws=False`` does.
    """

    def play(run: Run, rng: np.random.Generator) -> Outcome:
        def gained(scores: Rates, stored: Rates) -> bool:
            # Sums of whole numbers of successes over equal numbers of draws: exact.
            return round(scores.sum() * draws) > round(stored.sum() * draws)

        return _plain(run, rng, draws, gained)

    return play


def peer(run: Run, rng: np.random.Generator) -> Outcome:
    """Play by a peer's rule: mean paired gain minus one standard error above 0, stored scores."""

    def gained(scores: Rates, stored: Rates) -> bool:
        gains = scores - stored
        return gains.mean() - gains.std(ddof=1) / math.sqrt(len(gains)) > 0

    return _plain(run, rng, 1, gained)


def _plain(
    run: Run, rng: np.random.Generator, draws: int, gained: Callable[[Rates, Rates], bool]
) -> Outcome:
    if run.cell.lost:
        raise ValueError("the plain rules know nothing of lost episodes; use a gate class")
    tasks, current, accepts = run.cell.tasks, run.rates, 0
    stored = _scores(current[:tasks], 1, rng)  # the baseline is one draw
    for edit in run.edits:
        rates = edit.of(current)
        scores = _scores(rates[:tasks], draws, rng)
        if gained(scores, stored):
            current, stored, accepts = rates, scores, accepts + 1
    gain = run.gain(current)
    rollouts = tasks + len(run.edits) * tasks * draws
    return Outcome(gain, gain, float(accepts > 0), rollouts, accepts)


def _scores(rates: Rates, draws: int, rng: np.random.Generator) -> Rates:
    return (rng.random((draws, len(rates))) < rates).mean(axis=0)


STRICT_DRAWS = (1, 2, 3, 4, 5, 6)

RULES: dict[str, Rule] = {
    "explore": with_gate(ExploreGate()),
    "explore, 4 release draws": with_gate(ExploreGate(release_draws=4)),
    "paired": with_gate(PairedGate()),
    "paired, 4 draws": with_gate(PairedGate(draws=4)),
    "strict gate": with_gate(StrictGate(fresh_draws=False)),
    "gain above 1 SE": peer,
    **{f"strict, {m} draw{'s' * (m > 1)}": strict(m) for m in STRICT_DRAWS},
}


def play(rule: str, run: Run) -> Outcome:
    """Play a run under a rule of `RULES`."""
    # The class and the plain rule share their randomness, so that they can be compared run by run.
    purpose = "strict, 1 draw" if rule == "strict gate" else rule
    return RULES[rule](run, run.generator(purpose))
