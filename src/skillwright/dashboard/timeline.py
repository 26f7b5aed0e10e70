"""The course of a run: verdicts in order, remaining alpha, current and released versions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillwright.config.load import look_at_config
from skillwright.config.run import RunConfig
from skillwright.dashboard.reading import RunReader
from skillwright.evaluation import AlphaLedger, clustered_wilson_interval
from skillwright.jobs.inspect import RunSummary
from skillwright.jobs.run import train_tasks
from skillwright.jobs.text import Kind, TrainState
from skillwright.jobs.weights import RlState, weights_name
from skillwright.runs import VerdictRecord
from skillwright.textopt import StepMemory

_LAST = {"final": 1, "release": 1, "internalize": 2}
"""Origins of the last verdicts, in order."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The val score of a version over all draws.

    Attributes:
        share: Success rate, or ``None``.
        low: Lower end of the 95% interval, or ``None``.
        high: Upper end, or ``None``.
    """

    name: str
    share: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """Current and released versions at a step.

    Attributes:
        at: Step or iteration; 0 is the start.
        expected: The current skill's score as the gate expects it, or ``None``.
    """

    at: int
    current: Measured
    released: Measured
    expected: float | None = None


def in_order(verdicts: Sequence[VerdictRecord]) -> list[VerdictRecord]:
    """Sort verdicts: steps first, then the release test, then the test of retired skills."""
    return sorted(verdicts, key=lambda one: (_LAST.get(one.origin, 0), one.step))


def alpha_left(verdicts: Sequence[VerdictRecord], ledger: AlphaLedger | None) -> list[float | None]:
    """Return the remaining alpha after each verdict, or ``None``."""
    if ledger is None:
        return [None] * len(verdicts)
    left: list[float | None] = []
    now = replace(ledger, made=0)
    for one in verdicts:
        if one.body.get("alpha") is not None and now.made < now.planned:
            now = replace(now, made=now.made + 1)
        left.append(now.total - now.spent)
    return left


def course(summary: RunSummary, reader: RunReader) -> list[Moment]:
    """Return the versions at the start and after each step or validation."""
    if summary.rl is not None:
        return _of_weights(summary.rl)
    return _of_text(reader) if summary.state is not None else []


def _of_text(reader: RunReader) -> list[Moment]:
    scores = reader.val_counts()
    versions = {one.version: one.hash for one in reader.store.skills()}

    def measured(version: int) -> Measured:
        key = versions.get(version, "")
        name, counts = reader.versions.label(key), scores.get(key)
        if not counts:
            return Measured(name)
        low, high = clustered_wilson_interval(counts)
        return Measured(name, sum(c for c, _ in counts) / sum(n for _, n in counts), low, high)

    config = look_at_config(reader.folder / "config.yaml", RunConfig)
    state = TrainState(StepMemory(), config.ledger(train_tasks(reader.store) or 1))
    found, expected = [Moment(0, measured(0), measured(0))], dict[int, float]()
    for event in reader.store.events():
        state = state.after(event.kind, event.payload)
        if event.kind in (Kind.STEP, Kind.EPOCH, Kind.FINAL):
            current, released = measured(state.skill_version), measured(state.best_version)
            judged = {Kind.STEP: state.steps, Kind.EPOCH: state.epochs}.get(Kind(event.kind))
            if judged and (verdict := judged[-1].verdict) and verdict.current:
                expected[state.skill_version] = verdict.current.mean
            now = expected.get(state.skill_version)
            moment = Moment(state.last_step, current, released, now)
            # An epoch update and the release test come after a step, and have its number.
            kept = found[:-1] if found[-1].at == moment.at else found
            found = [*kept, moment]
    return found


def _of_weights(rl: RlState) -> list[Moment]:
    found: list[Moment] = []
    for number, one in sorted(rl.validations.items()):
        score = one.table.overall
        low, high = score.interval or (None, None)
        now = Measured(weights_name(number), score.success_rate, low, high)
        found.append(Moment(number, now, found[0].released if found else now))
    is_released = rl.test is not None if rl.release is None else rl.release.accepted
    if found and is_released and rl.best is not None:
        chosen = next(one.current for one in found if one.at == rl.best.iteration)
        found[-1] = replace(found[-1], released=chosen)
    made = rl.internalized
    if found and made is not None and made.accepted and made.verdict is not None:
        released = Measured("internalized", made.verdict.candidate_score)
        found[-1] = replace(found[-1], released=released)
    return found
