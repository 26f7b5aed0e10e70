"""A list of runs, from their stores alone: no configuration is parsed and no learner imported."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from skillwright.core.errors import RunError, SkillwrightError
from skillwright.core.sqlite_file import log_of, log_size
from skillwright.jobs.kinds import CHECK, CHECKED, EVALUATED, MADE, RL, SERVE, Kind, RlKind
from skillwright.runs.folder import STORE_NAME, RunFolder, list_runs
from skillwright.runs.store import Event, RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run in a list.

    Attributes:
        name: The run's name.
        path: Its folder.
        job: ``train``, ``eval``, ``check``, ``rl`` or ``serve``.
        started: When it began, UTC, for people.
        episodes: Scored episodes in the store.
        failures: Episodes without a score.
        steps: Decided steps; in ``rl``, updates of the bank.
        accepted: Candidates that the gate accepted, each counted once.
        is_finished: Whether nothing is left to do.
        is_scripted: Whether a scripted model took part, which must be noted next to any result.
        result: The headline, for people.
        problem: Why the run cannot be read, or "".
    """

    name: str
    path: Path
    job: str = ""
    started: str = ""
    episodes: int = 0
    failures: int = 0
    steps: int = 0
    accepted: int = 0
    is_finished: bool = False
    is_scripted: bool = False
    result: str = ""
    problem: str = ""

    @classmethod
    def of(cls, folder: RunFolder, store: RunStore) -> Self:
        """Read a run from its store.

        Raises:
            RunError: The store holds no event.
        """
        made = made_facts(store, folder.path)
        events, counts = store.events(), store.counts()
        scored, failed = counts["episodes"], counts["failures"]
        if made["job"] == SERVE:
            judged = f"{scored} conversations judged, {failed} not"
            outcome = _Outcome(judged, is_finished=True)
        elif made["job"] == RL:
            outcome = _weights(events)
        elif made["job"] == CHECK:
            checked = _last(events, CHECKED)
            answer = checked["verdict"]["answer"] if checked else "not finished"
            outcome = _Outcome(answer, is_finished=checked is not None)
        elif made["job"] == "eval":
            outcome = _evaluation(events)
        else:
            outcome = _training(events, bool(made.get("two_levels")))
        return cls(
            name=folder.name,
            path=folder.path,
            job=made["job"],
            started=_time(events[0].time),
            episodes=scored,
            failures=failed,
            steps=outcome.steps,
            accepted=outcome.accepted,
            is_finished=outcome.is_finished,
            is_scripted=bool(made.get("scripted")),
            result=outcome.result,
        )

    @classmethod
    def unreadable(cls, path: Path, problem: str) -> Self:
        """Return the line of a run that cannot be read."""
        result = f"cannot be read: {problem}"
        return cls(name=path.name, path=path, result=result, problem=problem)


def listed_runs(root: Path) -> list[ListedRun]:
    """List the runs below a folder by name."""
    return [_listed(folder) for folder in list_runs(root)]


def _listed(folder: RunFolder) -> ListedRun:
    try:
        with RunStore.open(folder.store_path, read_only=True) as store:
            return ListedRun.of(folder, store)
    except SkillwrightError as error:
        return ListedRun.unreadable(folder.path, str(error))


def made_facts(store: RunStore, path: Path) -> dict[str, Any]:
    """Return the first event of a run: its job, and what the job recorded at the start."""
    made = store.events(MADE)
    if not made:
        raise RunError(_without_beginning(path))
    return dict(made[0].payload)


def _without_beginning(path: Path) -> str:
    where, log = path / STORE_NAME, log_of(path / STORE_NAME).name
    if size := log_size(where):
        return (
            f"nothing can be read of run {str(path)!r}: {STORE_NAME!r} holds no event, and its log "
            f"{log!r} ({size:,} bytes) is damaged. Restore both from a copy; nothing was changed."
        )
    return (
        f"{str(where)!r} holds no event: the run was killed before it began, or it was copied "
        f"without {log!r}, which holds what was written last. Copy that file too; where there is "
        "none, start a new run."
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: str
    steps: int = 0
    accepted: int = 0
    is_finished: bool = False


def _evaluation(events: Sequence[Event]) -> _Outcome:
    report = _last(events, EVALUATED)
    if report is None:
        return _Outcome("not finished")
    return _Outcome(f"{_solved(report['table'])} solved", is_finished=True)


def _training(events: Sequence[Event], two_levels: bool) -> _Outcome:
    judged = [one.payload for one in events if one.kind in (Kind.STEP, Kind.EPOCH)]
    accepted = sum(
        any(_is_accepted(record.get(name)) for name in ("verdict", "best_verdict"))
        for record in judged
    )
    final = _is_accepted(_last(events, Kind.FINAL))
    step = _last(events, Kind.STEP)
    report = _last(events, Kind.TEST)
    ends = [one.kind for one in events if one.kind in (Kind.FINISHED, Kind.CONTINUED)]
    is_finished = ends[-1:] == [Kind.FINISHED]
    result = "finished, not tested" if is_finished else "not finished"
    if report is not None and is_finished:
        # A release that was proven by a second test is the best skill after the first report.
        kinds = [one.kind for one in events if one.kind in (Kind.TEST, Kind.FINAL)]
        best = "final" if final and kinds[-1] == Kind.FINAL else "best"
        result = _gain(report, "initial", best)
    return _Outcome(
        result,
        steps=0 if step is None else step["step"],
        accepted=accepted + (final and not two_levels),
        is_finished=is_finished,
    )


def _weights(events: Sequence[Event]) -> _Outcome:
    evolutions = {
        one.payload["iteration"]: one.payload["action"]
        for one in events
        if one.kind == RlKind.EVOLUTION
    }
    played = (one.payload["iteration"] for one in events if one.kind == RlKind.ITERATION)
    is_finished = _last(events, RlKind.FINISHED) is not None
    report = _last(events, RlKind.TEST)
    if report is not None:
        result = _gain(report, next(iter(report["tables"])), "final")
    elif is_finished:
        result = "finished, not tested"
    else:
        result = f"not finished: iteration {max(played, default=0)}"
    return _Outcome(
        result,
        steps=len(evolutions),
        accepted=list(evolutions.values()).count("accept"),
        is_finished=is_finished,
    )


def _last(events: Sequence[Event], kind: str) -> dict[str, Any] | None:
    return next((one.payload for one in reversed(events) if one.kind == kind), None)


def _is_accepted(verdict: dict[str, Any] | None) -> bool:
    return verdict is not None and verdict["decision"] == "accept"


def _gain(report: dict[str, Any], first: str, last: str) -> str:
    return f"{_solved(report['tables'][first])} -> {_solved(report['tables'][last])} solved"


def _solved(table: dict[str, Any]) -> str:
    rate = table["overall"]["success_rate"]
    return "nothing" if rate is None else f"{rate:.0%}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
