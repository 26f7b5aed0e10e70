"""What a run's store says about it, without running anything."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skillwright.core import SkillwrightError, Usage
from skillwright.jobs.config import RunConfig
from skillwright.jobs.config_load import load_config
from skillwright.jobs.evaluate import EVALUATED, EvalReport
from skillwright.jobs.launch import find_run, has_scripted_minds, read_plan
from skillwright.jobs.state import TrainState, fold
from skillwright.runs import RunFolder, RunStore, list_runs


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Where a run stands.

    Attributes:
        name: The run's name.
        path: Its folder.
        job: ``train`` or ``eval``.
        started: When, UTC, for people.
        episodes: Scored episodes in the store.
        failures: Episodes without a score.
        usage: What was consumed, by purpose.
        is_scripted: Whether a scripted mind took part, which must be said beside any result.
        state: Where training stands; ``None`` for an evaluation.
        evaluation: What an evaluation found; ``None`` before its end and for training.
        problem: Why the run cannot be read, or "".
    """

    name: str
    path: Path
    job: str
    started: str
    episodes: int
    failures: int
    usage: dict[str, Usage]
    is_scripted: bool = False
    state: TrainState | None = None
    evaluation: EvalReport | None = None
    problem: str = ""

    @property
    def accepted(self) -> int:
        """Candidates that passed the gate."""
        return self.state.accepts if self.state else 0

    @property
    def steps(self) -> int:
        """Steps that are decided."""
        return self.state.last_step if self.state else 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.state.finished if self.state else self.evaluation is not None

    @property
    def result(self) -> str:
        """The headline, for people."""
        if self.problem:
            return f"cannot be read: {self.problem}"
        if self.evaluation is not None:
            return f"{_percent(self.evaluation.table.overall.success_rate)} won"
        if self.state is None or not self.is_finished:
            return "not finished"
        if self.state.report is None:
            return "finished, not tested"
        tables = self.state.report.tables
        first, best = tables["initial"].overall, tables["best"].overall
        return f"{_percent(first.success_rate)} -> {_percent(best.success_rate)} won"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return {
            "name": self.name,
            "path": str(self.path),
            "job": self.job,
            "started": self.started,
            "finished": self.is_finished,
            "result": self.result,
            "scripted": self.is_scripted,
            "episodes": self.episodes,
            "failures": self.failures,
            "usage": {purpose: usage.to_dict() for purpose, usage in self.usage.items()},
            "steps": [step.to_dict() for step in self.state.steps] if self.state else [],
            "epochs": [epoch.to_dict() for epoch in self.state.epochs] if self.state else [],
            "test": self.state.report.to_dict() if self.state and self.state.report else None,
            "evaluation": self.evaluation.to_dict() if self.evaluation else None,
        }


def read_run(run: str | Path, root: str | Path = "runs") -> RunSummary:
    """Summarise a run; it may be going on meanwhile.

    Raises:
        RunError: There is no such run, or its store cannot be read.
    """
    return _read(RunFolder.look(find_run(run, root)))


def summarise_runs(root: Path) -> list[RunSummary]:
    """Summarise the runs below a folder, the latest first, those that cannot be read last."""
    found = [_read_or_say_why(folder) for folder in list_runs(root)]
    return sorted(found, key=lambda summary: summary.started, reverse=True)


def _read_or_say_why(folder: RunFolder) -> RunSummary:
    try:
        return _read(folder)
    except SkillwrightError as error:
        return RunSummary(folder.name, folder.path, "", "", 0, 0, {}, problem=str(error))


def _read(folder: RunFolder) -> RunSummary:
    config = load_config(folder.path / "config.yaml")
    with RunStore.open(folder.store_path, read_only=True) as store:
        events = store.events()
        plan = read_plan(store, folder.path)
        counts = store.counts()
        evaluated = [event for event in events if event.kind == EVALUATED]
        return RunSummary(
            name=folder.name,
            path=folder.path,
            job="train" if plan is None else "eval",
            started=_time(events[0].time),
            episodes=counts["episodes"],
            failures=counts["failures"],
            usage=store.usage_by_purpose(),
            is_scripted=has_scripted_minds(config, plan),
            state=_state(config, store) if plan is None else None,
            evaluation=EvalReport.from_dict(evaluated[-1].payload) if evaluated else None,
        )


def _state(config: RunConfig, store: RunStore) -> TrainState:
    # How many decisions were planned is not known without the data, and nothing is decided here.
    planned = max(1, len(store.verdicts()))
    return fold(TrainState.first(config.evaluation.alpha, planned), store.events())


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def _percent(rate: float | None) -> str:
    return "nothing" if rate is None else f"{rate:.0%}"
