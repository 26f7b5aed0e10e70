"""What a run believes about its current skill, and what further draws of a candidate are worth.

The belief is a probability distribution of the success rate of each val task, on a grid of rates.
An edit is expected to do one of three things: nothing; mend a share of the tasks, whose failures
become successes with the probability `DEPTH`; or break a share of them. How often edits do each is
learned during the run. All posteriors are sums over few hypotheses, so they are exact.

A draw of a candidate costs money that could pay for a further edit. So a candidate is drawn while
the expected improvement of the decision on it is above the price of the draws, and the price of a
rollout is the gain per rollout that a new edit is expected to bring.

Source: the knowledge gradient of P. Frazier, W. Powell and S. Dayanik, SIAM J. Control Optim. 47
(2008) 2410-2439; here with a price per draw.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import pi, sqrt
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

GRID: Final[Array] = np.sin(np.pi * (np.arange(13) + 0.5) / 26) ** 2
"""Success rates, dense near 0 and 1, where most tasks of real agents lie."""

DEPTH: Final = 0.75
"""Chance that an edit turns the result of a task that it mends or breaks."""

MENDED_SHARES: Final[Array] = np.array([0.06, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9])
BROKEN_SHARES: Final[Array] = np.array([0.06, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9])
"""Shares of the tasks that an edit may mend or break; the first lines of a skill mend many."""

_PRIOR: Final[Array] = np.array([1, 1, 1, 1, 0.5, 0.25, 0.125])
_OF_SHARES: Final[Array] = _PRIOR / _PRIOR.sum()
_GOOD, _BAD = len(MENDED_SHARES), len(BROKEN_SHARES)
SIGN: Final[Array] = np.array([0.0, *[1.0] * _GOOD, *[-1.0] * _BAD])
"""By hypothesis: 0 for an edit that does nothing, 1 for one that mends, -1 for one that breaks."""
IS_GOOD: Final = SIGN > 0
IS_BAD: Final = SIGN < 0

PRIOR_COUNTS: Final = (1.0, 0.5, 1.0)
"""How many edits that do nothing, mend and break the run has seen before it begins."""

CONCENTRATION: Final = 1.5
"""Prior beta distribution of rates: alpha + beta. Below 2 with both below 1, tasks are mostly
solved always or never."""

AHEAD: Final = (10, 20, 40, 80, 160)
"""Numbers of further draws whose worth is computed: few draws alone often cannot turn a decision.
"""

OFFSET_VARIANCE: Final = 0.01
"""Prior variance of the difference in mean score between train and val tasks."""

_FLOOR: Final = 1e-9


def _moves(to: Array) -> Array:
    """Return the matrix that moves mass from each grid point to a rate, by interpolation."""
    high = np.clip(np.searchsorted(GRID, to), 1, len(GRID) - 1)
    part = np.clip((to - GRID[high - 1]) / (GRID[high] - GRID[high - 1]), 0, 1)
    matrix = np.zeros((len(GRID), len(GRID)))
    rows = np.arange(len(GRID))
    matrix[rows, high], matrix[rows, high - 1] = part, 1 - part
    return matrix


_MENDED, _BROKEN = GRID + (1 - GRID) * DEPTH, GRID * (1 - DEPTH)
TO_MENDED, TO_BROKEN = _moves(_MENDED), _moves(_BROKEN)
_LOGS = {
    name: (np.log(rates), np.log1p(-rates))
    for name, rates in (("same", GRID), ("mended", _MENDED), ("broken", _BROKEN))
}


def _likelihood(name: str, drawn: "Drawn") -> Array:
    """Return the likelihood of draws under each rate, shape ``[tasks, grid]``.

    A graded reward counts as a part of a success, which overstates its noise.
    """
    solved, failed = _LOGS[name]
    logs = np.outer(drawn.sums, solved) + np.outer(drawn.counts - drawn.sums, failed)
    return np.asarray(np.exp(logs), np.float64)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Draws of a skill by task: sums of rewards and numbers of draws, each of shape ``[tasks]``."""

    sums: Array
    counts: Array

    @classmethod
    def none(cls, tasks: int) -> Self:
        """Return no draws."""
        return cls(np.zeros(tasks), np.zeros(tasks))

    @property
    def total(self) -> int:
        """The number of draws."""
        return int(self.counts.sum())

    def plus(self, places: Sequence[int], rewards: Sequence[float]) -> Self:
        """Return the draws with further ones, by the places of their tasks."""
        sums, counts = self.sums.copy(), self.counts.copy()
        np.add.at(sums, np.asarray(places, int), rewards)
        np.add.at(counts, np.asarray(places, int), 1.0)
        return replace(self, sums=sums, counts=counts)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Posterior of a candidate's effect.

    Attributes:
        weights: Probability of each hypothesis, shape ``[hypotheses]``.
        gains: Mean gain under each, shape ``[hypotheses]``.
        variance: Variance that one draw contributes to the estimate of the gain.
    """

    weights: Array
    gains: Array
    variance: float

    @property
    def gain(self) -> float:
        """The expected gain."""
        return float(self.weights @ self.gains)

    @property
    def error(self) -> float:
        """The standard deviation of the gain."""
        return sqrt(max(float(self.weights @ self.gains**2) - self.gain**2, 0.0))

    def improvement(self, more: int) -> float:
        """Return how much better the decision is expected to be after ``more`` draws.

        The decision accepts where the expected gain is above 0.
        """
        sd = sqrt(self.variance / more)
        seen = np.linspace(self.gains.min() - 3 * sd, self.gains.max() + 3 * sd, 61)
        apart = (seen[:, None] - self.gains) / sd
        density = np.exp(-0.5 * apart**2) @ (self.weights * self.gains)
        after = np.maximum(density, 0).sum() * (seen[1] - seen[0]) / (sd * sqrt(2 * pi))
        return float(after) - max(0.0, self.gain)

    def worth(self, price: float) -> tuple[float, int]:
        """Return the largest net worth of further draws, and their number.

        Args:
            price: Price of a draw, in gain.
        """
        return max((self.improvement(more) - price * more, more) for more in AHEAD)


@dataclass(frozen=True)
class Belief:
    """What a run believes about its current skill on the val tasks.

    Attributes:
        rates: Distribution of each task's rate, shape ``[tasks, grid]``; rows sum to 1.
        initial: The same for the initial skill, by its own draws.
        counts: Number of edits so far that did nothing, mended, broke; posterior means, with
            `PRIOR_COUNTS`.
        gained: Expected gain of the current skill over the initial one.
        variance: Variance of that gain.
        offset: How much more the current skill is expected to score on train than on val tasks.
        offset_variance: Variance of that.
    """

    rates: Array
    initial: Array
    counts: Array
    gained: float = 0.0
    variance: float = 0.0
    offset: float = 0.0
    offset_variance: float = OFFSET_VARIANCE

    @classmethod
    def of_draws(cls, drawn: Drawn) -> Self:
        """Return the belief after draws of the initial skill."""
        mean = (drawn.sums.sum() + 1) / (drawn.counts.sum() + 2)
        prior = GRID ** (CONCENTRATION * mean - 0.5) * (1 - GRID) ** (
            CONCENTRATION * (1 - mean) - 0.5
        )
        rates = prior * _likelihood("same", drawn)
        rates /= rates.sum(1, keepdims=True)
        return cls(rates, rates, np.array(PRIOR_COUNTS))

    @property
    def mean(self) -> float:
        """The expected mean success rate of the current skill over the val tasks."""
        return float(self.expected.mean())

    @property
    def error(self) -> float:
        """The standard deviation of that mean, for these val tasks."""
        each = self.rates @ GRID**2 - self.expected**2
        return sqrt(max(float(each.sum()), 0.0)) / len(self.rates)

    @cached_property
    def expected(self) -> Array:
        """The expected rate of each task, shape ``[tasks]``."""
        return np.asarray(self.rates @ GRID, np.float64)

    @cached_property
    def within(self) -> float:
        """Variance of the gain of one pair of draws, of the current and the initial skill."""
        noise = GRID * (1 - GRID)
        return float((self.rates @ noise).mean() + (self.initial @ noise).mean())

    @cached_property
    def new_edit(self) -> Weighed:
        """What the next edit is expected to do, before it is drawn."""
        shares = self.counts / self.counts.sum()
        weights = np.r_[shares[0], shares[1] * _OF_SHARES, shares[2] * _OF_SHARES]
        mean, expected = self.mean, self.expected
        gains = np.r_[0.0, MENDED_SHARES * DEPTH * (1 - mean), -BROKEN_SHARES * DEPTH * mean]
        # Tasks near 0 or 1 tell most. The truth is between equal weights of all tasks and the
        # weights that minimize the variance.
        up, down = expected + 0.1 * (1 - expected), 0.9 * expected
        least = (1 - mean) ** 2 / np.mean((1 - expected) ** 2 / (up * (1 - up)))
        least += mean * mean / np.mean(expected**2 / (down * (1 - down)))
        plain = (expected * (1 - expected)).mean()
        return Weighed(weights, gains, float(0.25 * least + 0.5 * plain))

    def with_draws(self, drawn: Drawn) -> Self:
        """Return the belief after further draws of the current skill."""
        rates = _normal(self.rates * _likelihood("same", drawn))
        return replace(self, rates=rates)

    def with_train(self, total: float, plays: int) -> Self:
        """Return the belief after a train batch, which is played with the current skill anyway.

        Train tasks are others, may be harder, and are those that the skill was written for. So the
        difference to val is believed and learned too. The batch tells about the mean over the val
        tasks only: a task moves by the doubt about its rate, so that what is known of single tasks
        stays.

        Args:
            total: Sum of the scores.
            plays: Their number, above 0.
        """
        mean = total / plays
        noise = max(mean * (1 - mean), 0.09) / plays
        surprise = mean - self.mean - self.offset
        variance = self.error**2 + self.offset_variance + noise
        part = self.offset_variance / variance
        return replace(
            self,
            rates=_normal(self.rates * np.exp(surprise / variance / len(self.rates) * GRID)),
            offset=self.offset + part * surprise,
            offset_variance=self.offset_variance * (1 - part),
        )

    def price(self, step_cost: float) -> float:
        """Return the gain per rollout that a new edit is expected to bring.

        Args:
            step_cost: What it costs to propose an edit, in rollouts: those of its train batch, and
                the optimizer's calls.
        """
        edit = self.new_edit
        return max(edit.improvement(more) / (step_cost + more) for more in AHEAD)

    def weigh(self, drawn: Drawn) -> Weighed:
        """Return the posterior of a candidate's effect after its draws."""
        return self._posterior(drawn).weighed

    def after(self, drawn: Drawn, *, accepted: bool) -> "Belief":
        """Return the belief after the decision on a candidate.

        The draws of a rejected candidate tell about the current skill too: all of them if the
        candidate does nothing, and those of the tasks that it leaves alone otherwise.
        """
        found = self._posterior(drawn)
        weighed, counts = found.weighed, self.counts.copy()
        counts += [
            weighed.weights[0],
            weighed.weights[IS_GOOD].sum(),
            weighed.weights[IS_BAD].sum(),
        ]
        stay, mend, broke = found.parts()
        if not accepted:
            return replace(self, rates=_normal(stay + mend + broke), counts=counts)
        return replace(
            self,
            rates=_normal(stay + mend @ TO_MENDED + broke @ TO_BROKEN),
            counts=counts,
            gained=self.gained + weighed.gain,
            variance=self.variance + weighed.error**2,
        )

    def parts(self, drawn: Drawn) -> tuple[Array, Array, Array]:
        """Return the mass of each task's rate before an edit: left alone, mended, broken.

        Args:
            drawn: Draws of the candidate with the edit.
        """
        return self._posterior(drawn).parts()

    def _posterior(self, drawn: Drawn) -> "_Posterior":
        same, mended, broken = (
            self.rates * _likelihood(name, drawn) for name in ("same", "mended", "broken")
        )
        a, g, b = same.sum(1), mended.sum(1), broken.sum(1)
        if_mended = a + MENDED_SHARES[:, None] * (g - a)
        if_broken = a + BROKEN_SHARES[:, None] * (b - a)
        logs = np.r_[np.log(a).sum(), np.log(if_mended).sum(1), np.log(if_broken).sum(1)]
        before = self.new_edit
        weights = before.weights * np.exp(logs - logs.max())
        weighed = replace(before, weights=weights / weights.sum())
        return _Posterior(weighed, (same, mended, broken), a, if_mended, if_broken)


@dataclass(frozen=True, slots=True)
class _Posterior:
    weighed: Weighed
    joint: tuple[Array, Array, Array]
    if_same: Array
    if_mended: Array
    if_broken: Array

    def parts(self) -> tuple[Array, Array, Array]:
        """Return the mass of each task's rate before the edit: left alone, mended, broken."""
        weights, (same, mended, broken) = self.weighed.weights, self.joint
        good, bad = weights[IS_GOOD], weights[IS_BAD]
        alone = (
            weights[0] / self.if_same
            + good @ ((1 - MENDED_SHARES[:, None]) / self.if_mended)
            + bad @ ((1 - BROKEN_SHARES[:, None]) / self.if_broken)
        )
        mend = good @ (MENDED_SHARES[:, None] / self.if_mended)
        broke = bad @ (BROKEN_SHARES[:, None] / self.if_broken)
        return alone[:, None] * same, mend[:, None] * mended, broke[:, None] * broken


def _normal(mass: Array) -> Array:
    mass = np.maximum(mass, _FLOOR)
    return np.asarray(mass / mass.sum(1, keepdims=True), np.float64)
