"""Events of a training's records: as they are decided, and again from stored records."""

import re
from collections.abc import Iterator, Sequence

from skillwright.config.run import RunConfig
from skillwright.evaluation import Decision, SplitReport, Verdict, gain_text
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


_WORDS = {"accept_new_best": "kept", "accept": "kept", "force_accept": "kept", "reject": "dropped"}
_SKIPPED = {
    "skip_no_patches": "nothing proposed",
    "skip_analyst_faults": "optimizer replies unreadable",
    "skip_no_rewrite": "optimizer reply unreadable",
    "skip_no_change": "the proposal changes nothing",
    "skip_fault": "optimizer reply unreadable",
    "skip_no_pairs": "nothing to compare",
    "skip_no_content": "nothing proposed",
}
_FOREWORDS = re.compile(
    r"^(?:Accepted(?: as current)?|Rejected|Undecided|Proven better|Not proven(?: better)?): "
)
_UNUSABLE = "skipped: nothing usable proposed"
_CALLS_FAILED = "skipped: optimizer calls failed"
_MARGIN = 9  # columns of the name of what was decided
_AFTER_WORD = 11
_WIDTH = 80


def decision_text(action: str, verdict: Verdict | None, remarks: Sequence[str] = ()) -> str:
    """Describe the decision on a candidate and its reasons in full, for people."""
    reason = _bare(verdict.reason) if verdict else ""
    match action:
        case "accept" if verdict and not verdict.reason.startswith("Accepted as current"):
            return f"kept, but the best skill stays: {reason}"
        case "force_accept":
            return "kept without a gate" + (f"; against the best skill: {reason}" if reason else "")
        case "inject_placeholder":
            return "an empty region for guidance was added to the current skill"
        case "skip_no_patches" if remarks:
            return _UNUSABLE
        case "skip_analyst_faults" if remarks and all("calls failed" in one for one in remarks):
            return _CALLS_FAILED
        case _ if action in _SKIPPED:
            return f"skipped: {_SKIPPED[action]}"
    word = _WORDS.get(action, action.replace("_", " "))
    return f"{word}: {reason}" if reason else word


def decision_lines(event: StepDecided | EpochEnded) -> list[str]:
    """Describe a decision briefly: one line of at most 80 columns if its numbers say why."""
    action, verdict = event.action, event.verdict
    is_step = isinstance(event, StepDecided)
    what = f"step {event.step}" if isinstance(event, StepDecided) else f"epoch {event.epoch}"
    notes = [] if is_step else ["slow update"]
    if action not in (*_WORDS, "undecided") or verdict is None or verdict.effect is None:
        word, _, rest = decision_text(action, verdict, event.remarks).partition(": ")
        said = ": ".join([*notes, rest]) if rest else "".join(notes)
        return [f"{what:<{_MARGIN}}{word:<{_AFTER_WORD}}{said}".rstrip()]
    if action == "force_accept":
        notes.append("without a gate")
    elif action == "accept" and not verdict.reason.startswith("Accepted as current"):
        notes.append("the best skill stays")
    if verdict.current is not None:
        notes.insert(0, f"current {_short_score(verdict.current.mean)}")
    return verdict_lines(what, _WORDS.get(action, action), verdict, notes)


def release_lines(verdict: Verdict) -> list[str]:
    """Describe the outcome of the release test as `decision_lines` does."""
    word = {Decision.ACCEPT: "proven", Decision.REJECT: "not proven"}.get(
        verdict.decision, "undecided"
    )
    if verdict.effect is None:
        return [f"{'release':<{_MARGIN}}{word:<{_AFTER_WORD}}{_bare(verdict.reason)}"]
    return verdict_lines("release", word, verdict)


def verdict_lines(what: str, word: str, verdict: Verdict, notes: Sequence[str] = ()) -> list[str]:
    """Format a measured verdict: gain with its interval, the scores of both sides.

    The gain of a proven release is the one that is expected on further tasks, where that is known.
    The gate's reason follows where the numbers do not say why: an undecided verdict, or a gain
    that was rejected although its test, if there is one, passed.
    """
    effect, interval = verdict.effect or 0.0, verdict.interval
    if verdict.expected is not None:
        notes = [*notes, f"expected on further tasks; {gain_text(effect)} in this test"]
        effect = verdict.expected.gain
        interval = verdict.expected.low, verdict.expected.high
    scores = ""
    if verdict.incumbent_score is not None and verdict.candidate_score is not None:
        before, after = verdict.incumbent_score, verdict.candidate_score
        scores = f"{_short_score(before)} -> {_short_score(after)}"
    p_value, alpha = verdict.p_value, verdict.alpha
    tested = p_value is not None and alpha is not None
    parts = [
        f"{what:<{_MARGIN}}{word:<{_AFTER_WORD}}{gain_text(effect, interval):<34}",
        f"{scores:<10}",
    ]
    notes = [*([f"p {p_value:.2g} (limit {alpha:.2g})"] if tested else []), *notes]
    lines = ["  ".join(parts).rstrip()]
    for note in notes:
        longer = f"{lines[-1]}  {note}"
        if len(longer) <= _WIDTH:
            lines[-1] = longer
        else:
            lines.append(" " * _MARGIN + note)
    surprising = verdict.decision is Decision.REJECT and (verdict.effect or 0.0) > 0
    failed_test = p_value is not None and alpha is not None and p_value > alpha
    if verdict.decision is Decision.UNDECIDED or (surprising and not failed_test):
        lines.append(" " * _MARGIN + _bare(verdict.reason))
    elif verdict.lost:
        lines.append(
            " " * _MARGIN
            + f"{verdict.lost} of {verdict.pairs + verdict.lost} pairs left out for faults"
        )
    return lines


def _short_score(score: float) -> str:
    """Format a mean score in [0, 1] without its leading zero: ``.61``, ``1.00``."""
    return f"{score:.2f}".removeprefix("0")


def _bare(reason: str) -> str:
    """Return a gate's reason without the word of its decision."""
    return _FOREWORDS.sub("", reason)


def scores_of(report: SplitReport) -> list[Scored]:
    """Return the scores of several skills, as events hold them."""
    return [
        Scored(name if name.endswith(" skill") else f"{name} skill", report.split, table.overall)
        for name, table in ((SHOWN_AS.get(one, one), it) for one, it in report.tables.items())
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
