"""The base class of gates, their registry, and a gate's power before a run.

A package adds a gate by naming its class in the group ``skillwright.gates``:

    [project.entry-points."skillwright.gates"]
    sign_test = "my_package:SignTestGate"
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from pydantic import ConfigDict

from skillwright.core import DataError, StepDuel, did_you_mean
from skillwright.entry_points import entry_points
from skillwright.evaluation.gates.chosen import ASSIGNMENTS
from skillwright.evaluation.gates.judging import USUAL, Metric, Terms, tasks_needed
from skillwright.evaluation.gates.release import ReleaseTest
from skillwright.evaluation.gates.skillopt_gate import GateMetric
from skillwright.evaluation.power import POWER, detectable_gain
from skillwright.evaluation.verdict import AlphaLedger, Verdict
from skillwright.models.open_union import OpenUnion
from skillwright.models.validation import Share

GROUP: Final = "skillwright.gates"


class Gate(OpenUnion):
    """Decides whether a candidate replaces the current skill; base class of all gates.

    A gate's fields are its keys in a configuration, below ``evaluation.gate``. A new gate defines
    the fields ``kind`` and ``draws`` and the method `judge`; everything else has defaults.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    kind: str
    metric: GateMetric = "hard"
    """``hard`` compares successes, ``soft`` rewards, ``mixed`` both."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""

    tag: ClassVar[str] = "kind"
    default_tag: ClassVar[str | None] = "explore"

    knows_noise: ClassVar[bool] = True
    """Whether it is a statistical test at the ledger's alpha, which needs a minimum of tasks."""
    accepts_all: ClassVar[bool] = False
    """Whether every candidate becomes current, and the gate only decides about the best one."""

    if TYPE_CHECKING:  # a field in some gates, a constant in others

        @property
        def draws(self) -> int:
            """Maximum draws per task and side in a decision."""

    @classmethod
    def member(cls, name: str) -> "type[Gate]":
        """Find a gate by its kind."""
        if name in _BUILT_IN:
            return _BUILT_IN[name]
        points = entry_points(GROUP)
        if name not in points:
            raise DataError(f"no gate {name!r}. {did_you_mean(name, [*_BUILT_IN, *points])}")
        found: type[Gate] = points[name].load()
        is_gate = isinstance(found, type) and issubclass(found, Gate)
        if not is_gate or found.model_fields["kind"].default != name:
            raise DataError(
                f"{points[name].value!r} of the package {points[name].package!r} is no "
                f"skillwright.evaluation.Gate with the kind {name!r}"
            )
        return found

    @classmethod
    def members(cls) -> "Mapping[str, type[Gate]]":
        """Find all gates, built-in ones first."""
        found = dict(_BUILT_IN)
        for name in entry_points(GROUP):
            with suppress(DataError):
                found.setdefault(name, cls.member(name))
        return found

    believes: ClassVar[bool] = False
    """Whether it judges candidates against a belief about the current skill (`Terms.seen`)."""

    @property
    def redraws(self) -> bool:
        """Whether both sides get new draws after an accepted candidate."""
        return True

    @property
    def release(self) -> ReleaseTest | None:
        """The release test; ``None`` if every accepted candidate is released."""
        return None

    def expected_rollouts(self, tasks: int) -> int:
        """Return the mean number of rollouts, both sides together, of a decision on ``tasks``."""
        return 2 * tasks * self.draws

    def ledger(self, alpha: float, decisions: int, *, second_release: bool = False) -> AlphaLedger:
        """Divide a run's alpha; by default evenly among its decisions.

        Args:
            alpha: Probability that a run releases a skill although its edits have no effect.
            decisions: Maximum number of judged candidates.
            second_release: Whether the run may make a second release test: a repetition of one
                that was not significant, or one after skills are distilled into weights.
        """
        del second_release
        return AlphaLedger(alpha, max(1, decisions))

    def scores(self, terms: Terms) -> Metric:
        """Return the metric that is compared."""
        return Metric(self.metric, self.mixed_weight, terms.success_threshold)

    def bonus(self, incumbent: str, candidate: str) -> float:
        """Return what the candidate's text itself adds to its gain; 0 unless a gate says so."""
        del incumbent, candidate
        return 0.0

    async def judge(self, duel: StepDuel, ledger: AlphaLedger, terms: Terms = USUAL) -> Verdict:
        """Draw paired results from ``duel`` until a decision is possible.

        Args:
            duel: Draws paired results of incumbent and candidate.
            ledger: The run's remaining alpha. The gate only reads it; the caller spends the
                verdict (`AlphaLedger.spend`).
            terms: Facts about the run.
        """
        raise NotImplementedError


_BUILT_IN: dict[str, type[Gate]] = {}
GateClass = TypeVar("GateClass", bound=Gate)


def built_in(gate: type[GateClass]) -> type[GateClass]:
    """Register a gate under its kind."""
    _BUILT_IN[gate.model_fields["kind"].default] = gate
    return gate


def why_hopeless(gate: Gate, ledger: AlphaLedger, tasks: int) -> str:
    """Return why a gate could not accept anything on ``tasks`` tasks, or ""."""
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
    shared = "" if planned == 1 or ledger.shares else f" ({planned} decisions share {total:.2g})"
    return (
        f"the {proves} cannot prove a gain on {max(0, tasks)} val tasks: at alpha = "
        f"{ledger.share:.2g}{shared} it takes at least {needed}"
    )


def alpha_lines(gate: Gate, alpha: float) -> list[str]:
    """Return a sentence that explains a run's alpha; none for a gate without a test."""
    if not gate.knows_noise:
        return []
    what = "release a skill" if gate.release is not None else "keep an edit"
    return [f"alpha {alpha:g}: of runs without a real gain, at most {100 * alpha:g}% {what}"]


def power_text(gate: Gate, ledger: AlphaLedger, tasks: int) -> str:
    """Describe the smallest gain that a gate can detect on ``tasks``; see `detectable_gain`."""
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
        f"{POWER:.0%} of runs (alpha {_share(ledger)}, up to {_counted(draws)} per task and "
        "side; success rates spread from 0 to 1, answers that vary)"
    )


def _share(ledger: AlphaLedger) -> str:
    """Format the alpha of the next test, and the run's where it differs."""
    whole = "" if ledger.share == ledger.total else f" of the run's {ledger.total:g}"
    return f"{ledger.share:.2g}{whole}"


def _counted(draws: int) -> str:
    return "1 draw" if draws == 1 else f"{draws} draws"
