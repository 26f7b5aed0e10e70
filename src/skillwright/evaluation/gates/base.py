"""What every gate is: settings that a configuration can name, and a decision about a candidate."""

import math
from typing import ClassVar, Protocol

from pydantic import ConfigDict

from skillwright.core import Duel
from skillwright.evaluation.gates.judging import Metric, Terms, tasks_needed
from skillwright.evaluation.gates.release import ASSIGNMENTS, ReleaseTest
from skillwright.evaluation.gates.skillopt_gate import GateMetric
from skillwright.evaluation.paired import POWER, detectable_gain
from skillwright.evaluation.verdict import AlphaLedger, Verdict
from skillwright.models.validation import Frozen, Share


class Gate(Protocol):
    """Judges whether a candidate replaces the current skill.

    A gate is one class: its fields are its keys in a configuration, and
    `skillwright.evaluation.gates.AnyGate` is the list that a configuration chooses from.
    """

    @property
    def kind(self) -> str:
        """The name that a configuration chooses it by."""

    @property
    def metric(self) -> GateMetric:
        """What it compares; see `skillwright.evaluation.gates.judging.Metric`."""

    @property
    def mixed_weight(self) -> float:
        """Weight of the soft score in the mixed one."""

    @property
    def draws(self) -> int:
        """Draws per task and side that a decision takes at most."""

    @property
    def knows_noise(self) -> bool:
        """Whether it tests at the ledger's alpha, so that too few tasks can prove nothing."""

    @property
    def accepts_all(self) -> bool:
        """Whether every candidate becomes current, and the gate decides about the best only."""

    @property
    def redraws(self) -> bool:
        """Whether both sides are drawn anew once something was accepted."""

    @property
    def release(self) -> ReleaseTest | None:
        """The test of what a run releases; ``None`` where each accepted candidate is released."""

    def expected_rollouts(self, tasks: int) -> int:
        """Return how many rollouts of both sides a decision on so many tasks takes on average."""

    def ledger(self, alpha: float, decisions: int, *, again: bool = False) -> AlphaLedger:
        """Return how a run's alpha is shared.

        Args:
            alpha: The chance that a run releases something although its edits changed nothing.
            decisions: How often candidates may be judged, at least 1.
            again: Whether what a release test does not prove may be tested once more.
        """

    async def judge(self, duel: Duel, ledger: AlphaLedger, terms: Terms = ...) -> Verdict:
        """Draw paired results from ``duel`` until the question is settled.

        Args:
            duel: Incumbent and candidate; its draws are the only evidence.
            ledger: What is left of the run's alpha. It is read, not changed: the caller spends
                the verdict (`AlphaLedger.spend`).
            terms: What the run says.
        """


class GateSettings(Frozen):
    """What all gates share: their settings, and the properties that most have in common."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    metric: GateMetric = "hard"
    """``hard`` compares successes, ``soft`` rewards, ``mixed`` both."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""

    knows_noise: ClassVar[bool] = True
    accepts_all: ClassVar[bool] = False

    @property
    def redraws(self) -> bool:
        """Whether both sides are drawn anew once something was accepted."""
        return True

    @property
    def release(self) -> ReleaseTest | None:
        """The test of what a run releases; ``None`` where each accepted candidate is released."""
        return None

    def ledger(self, alpha: float, decisions: int, *, again: bool = False) -> AlphaLedger:
        """Return how a run's alpha is shared: evenly over its decisions."""
        del again
        return AlphaLedger(alpha, max(1, decisions))

    def scores(self, terms: Terms) -> Metric:
        """Return the score of an episode that is compared."""
        return Metric(self.metric, self.mixed_weight, terms.success_threshold)


def why_hopeless(gate: Gate, ledger: AlphaLedger, tasks: int) -> str:
    """Say why a gate could never let anything through on so few tasks, or return ""."""
    needed = tasks_needed(ledger.share)
    if gate.release is not None and ledger.share * ASSIGNMENTS < 1:
        return (
            f"the release test cannot prove anything at alpha = {ledger.share:.2g}: its smallest "
            f"p-value is 1 in {ASSIGNMENTS:,}"
        )
    if not gate.knows_noise or tasks >= needed:
        return ""
    proves = "release test" if gate.release is not None else f"{gate.kind} gate"
    planned, total = ledger.planned, ledger.total
    shared = "" if planned == 1 or ledger.shares else f" ({planned} decisions share {total:g})"
    return (
        f"the {proves} cannot prove a gain on {max(0, tasks)} val tasks: at alpha = "
        f"{ledger.share:.2g}{shared} it takes at least {needed}"
    )


def power_text(gate: Gate, ledger: AlphaLedger, tasks: int) -> str:
    """Say which gain a gate finds on so many held-out tasks; see `detectable_gain`."""
    if gate.accepts_all:
        return "the open gate lets every edit become current, and releases any measured gain"
    if not gate.knows_noise:
        return (
            f"the {gate.kind} gate tests nothing: of edits that change nothing it takes about 44% "
            "where answers vary"
        )
    draws = gate.release.draws if gate.release is not None else gate.draws
    what = (
        "the release test" if gate.release is not None else f"the {gate.kind} gate, at each step,"
    )
    can = tasks >= tasks_needed(ledger.share)
    gain = detectable_gain(tasks, draws, ledger.share) if can else None
    if gain is None:
        return f"on {tasks} val tasks {what} finds no gain in {POWER:.0%} of runs"
    return (
        f"on {tasks} val tasks {what} finds a true gain of {math.ceil(100 * gain)} points in "
        f"{POWER:.0%} of runs (alpha {ledger.share:.2g}, up to {_counted(draws)} per task and "
        "side; success rates spread from 0 to 1, answers that vary)"
    )


def _counted(draws: int) -> str:
    return "1 draw" if draws == 1 else f"{draws} draws"
