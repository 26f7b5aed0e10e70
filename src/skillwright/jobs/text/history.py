"""What a training says of its records: as they are decided, and again of those that are stored."""

from collections.abc import Iterator

from skillwright.config.run import RunConfig
from skillwright.evaluation import SplitReport
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run.progress import (
    SHOWN_AS,
    EpochEnded,
    Event,
    ReleaseTested,
    Scored,
    StepDecided,
)
from skillwright.jobs.text.state import EpochRecord, StepRecord, TrainState, beginning
from skillwright.runs import RunStore


def step_decided(record: StepRecord, state: TrainState) -> StepDecided:
    """Return what is said of a step, and of the state that followed from it."""
    shown = next(iter(record.verdicts), None)
    version, left = record.skill_version, state.ledger.left
    return StepDecided(record.step, record.epoch, record.action, shown, version, left)


def epoch_ended(record: EpochRecord) -> EpochEnded:
    """Return what is said of an epoch."""
    shown = next(iter(record.verdicts), None)
    return EpochEnded(record.epoch, record.action, shown, record.skill_version)


def scores_of(report: SplitReport) -> list[Scored]:
    """Return what is said of the scores of several skills."""
    return [
        Scored(f"{SHOWN_AS.get(name, name)} skill", report.split, table.overall)
        for name, table in report.tables.items()
    ]


def past_events(config: RunConfig, store: RunStore) -> Iterator[Event]:
    """Return what was said of all that is decided, in its order."""
    state = beginning(config, store)
    for event in store.events():
        state = state.after(event.kind, event.payload)
        match event.kind:
            case Kind.BASELINE if state.baseline is not None:
                yield Scored("initial skill", "val", state.baseline.overall)
            case Kind.STEP:
                yield step_decided(state.steps[-1], state)
            case Kind.EPOCH:
                yield epoch_ended(state.epochs[-1])
            case Kind.FINAL if state.final is not None and state.two_levels:
                yield ReleaseTested(state.final, state.ledger.left)
            case Kind.TEST if state.report is not None:
                yield from scores_of(state.report)
            case Kind.CONFIRMED if state.confirmation is not None:
                yield from scores_of(state.confirmation.report)
