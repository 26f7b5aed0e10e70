"""Events of a training's records: as they are decided, and again from stored records."""

from collections.abc import Iterator, Sequence

from skillwright.config.run import RunConfig
from skillwright.evaluation import SplitReport, Verdict
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
    """Return the event of a decided step, with the state after it."""
    shown = next(iter(record.verdicts), None)
    version, left = record.skill_version, state.ledger.left
    return StepDecided(
        record.step, record.epoch, record.action, shown, version, left, record.remarks
    )


def epoch_ended(record: EpochRecord) -> EpochEnded:
    """Return the event of an epoch's end."""
    shown = next(iter(record.verdicts), None)
    return EpochEnded(record.epoch, record.action, shown, record.skill_version, record.remarks)


_SKIPPED = {
    "skip_no_patches": "the optimizer proposed no edits",
    "skip_analyst_faults": "no optimizer reply could be used",
    "skip_no_rewrite": "the optimizer wrote no skill that can be used",
    "skip_no_change": "what the optimizer wrote changes nothing",
    "skip_fault": "the optimizer's reply could not be used",
    "skip_no_pairs": "there was nothing to compare",
    "skip_no_content": "the optimizer wrote no guidance",
}


def decision_text(action: str, verdict: Verdict | None, remarks: Sequence[str] = ()) -> str:
    """Describe the decision on a candidate and its reasons, for people."""
    reason = verdict.reason if verdict else ""
    match action:
        case "accept" if reason.startswith("Accepted as current"):
            return reason
        case "accept":
            return f"{reason.removesuffix('.')}; current, but the best skill stays"
        case "force_accept" if verdict:
            return f"current without a gate; against the best skill: {reason}"
        case "force_accept":
            return "current without a gate; the best skill stays"
        case "inject_placeholder":
            return "an empty region for guidance was added to the current skill"
        case "skip_no_patches" if remarks:
            return "skipped: no edit was proposed that can be used"
        case _ if action in _SKIPPED:
            return f"skipped: {_SKIPPED[action]}"
    return reason or action.replace("_", " ")


def scores_of(report: SplitReport) -> list[Scored]:
    """Return the scores of several skills, as events hold them."""
    return [
        Scored(f"{SHOWN_AS.get(name, name)} skill", report.split, table.overall)
        for name, table in report.tables.items()
    ]


def past_events(config: RunConfig, store: RunStore) -> Iterator[Event]:
    """Return the events of all stored decisions, in order."""
    state = beginning(config, store)
    for event in store.events():
        state = state.after(event.kind, event.payload)
        match event.kind:
            case Kind.BASELINE if state.baseline is not None:
                yield Scored("initial skill", "val", state.baseline.overall, state.hints)
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
