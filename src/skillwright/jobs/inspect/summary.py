"""Summarize runs from their stores, without running anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillwright.config import RlConfig, RunConfig, mode_of
from skillwright.config.load import look_at_config
from skillwright.core import SkillwrightError, Usage
from skillwright.core.jsonio import encode
from skillwright.jobs.kinds import CHECK, CHECKED, EVALUATED, RL, SERVE
from skillwright.jobs.listing import ListedRun
from skillwright.jobs.run import TurnEnds, find_run
from skillwright.jobs.run.resume import why_stopped
from skillwright.jobs.text import CheckReport, EvalReport, Run, TrainState, read_plan, restore
from skillwright.jobs.text.fork import Fork
from skillwright.jobs.weights.state import RlState
from skillwright.jobs.weights.state import restore as restore_rl
from skillwright.runs import RunFolder, RunStore, list_runs
from skillwright.runs.folder import CONFIG_NAME

_LISTED = (
    *("name", "job", "started", "result", "stopped", "episodes", "failures", "usage"),
    *("turns", "evaluation", "check", "fork", "rl"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary(ListedRun):
    """The state and the results of a run.

    Attributes:
        usage: Consumption by purpose.
        state: The state of a training of a document; ``None`` for other jobs.
        rl: The state of a training of weights; ``None`` for other jobs.
        evaluation: The report of an evaluation; ``None`` before its end and for training.
        check: The report of a check; ``None`` before its end and for other jobs.
        fork: The recorded episode that an evaluation continues, if any.
        mode: Lines on how training differs from SkillOpt's; none for an evaluation.
        mode_facts: The same as a JSON object, with differences that all modes have.
        turns: How the agent's answers ended; ``None`` in lists.
        stopped: The error that the latest session ended with, or "".
    """

    usage: Mapping[str, Usage] = field(default_factory=dict)
    state: TrainState | None = None
    rl: RlState | None = None
    evaluation: EvalReport | None = None
    check: CheckReport | None = None
    fork: Fork | None = None
    mode: tuple[str, ...] = ()
    mode_facts: Mapping[str, Any] = field(default_factory=dict)
    turns: TurnEnds | None = None
    stopped: str = ""

    @property
    def caveats(self) -> tuple[str, ...]:
        """Sentences that readers of a training's result must know."""
        trained = self.state or self.rl
        return trained.caveats if trained else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        state = self.state
        record: dict[str, Any] = encode(
            {
                **{name: getattr(self, name) for name in _LISTED},
                "path": str(self.path),
                "finished": self.is_finished,
                "scripted": self.is_scripted,
                "steps": state.steps if state else [],
                "epochs": state.epochs if state else [],
                "ran_out_of_patience": state.ran_out_of_patience if state else False,
                "cut_by_budget": state.cut_by_budget if state else 0,
                "best_version": state and state.best_version,
                "current_version": state and state.skill_version,
                "release": state.release_text if state else "",
                "lines": state.lines if state else [],
                "memorized": state.memorized if state else "",
                "drift": state.drift if state else "",
                "refuted": state.refuted if state else "",
                "test": state and state.report,
                "confirmation": state and state.confirmation,
                "mode": self.mode_facts,
            }
        )
        return record


def read_run(run: str | Path, root: str | Path = "runs") -> RunSummary:
    """Summarize a run, which may be running meanwhile.

    Raises:
        RunError: There is no such run, or its store cannot be read.
    """
    return with_turns(read_folder(RunFolder.look(find_run(run, root))))


def with_turns(summary: RunSummary) -> RunSummary:
    """Add how the agent's answers ended; this reads every turn."""
    with RunStore.open(RunFolder.look(summary.path).store_path, read_only=True) as store:
        return replace(summary, turns=TurnEnds.read(store.turn_ends()))


def is_finished(run: Run) -> bool:
    """Tell whether a run that this process works on is finished."""
    if run.plan is not None:
        return bool(run.store.events(EVALUATED))
    state = restore(run.config, run.store)
    return state.finished and not state.continues_under(run.config.budget)


def summarize_runs(root: Path) -> list[RunSummary]:
    """Summarize the runs below a folder, the latest first, those that cannot be read last."""
    found = [_read_or_say_why(folder) for folder in list_runs(root)]
    return sorted(found, key=lambda summary: summary.started, reverse=True)


def _read_or_say_why(folder: RunFolder) -> RunSummary:
    try:
        return read_folder(folder)
    except SkillwrightError as error:
        return RunSummary.unreadable(folder.path, str(error))


def read_folder(folder: RunFolder) -> RunSummary:
    """Summarize a run without how the agent's answers ended."""
    path = folder.path / CONFIG_NAME
    with RunStore.open(folder.store_path, read_only=True) as store:
        usage, stopped = store.usage_by_purpose(), why_stopped(store.events())
        summary = replace(RunSummary.of(folder, store), usage=usage, stopped=stopped)
        if summary.job == SERVE:
            return summary
        if summary.job == CHECK:
            checked = store.events(CHECKED)
            found = CheckReport.from_dict(checked[-1].payload) if checked else None
            return replace(summary, check=found)
        if summary.job == RL:
            return replace(summary, rl=restore_rl(look_at_config(path, RlConfig), store))
        plan, config = read_plan(store, folder.path), look_at_config(path, RunConfig)
        if plan is None:
            lines, facts = mode_of(config)
            state = restore(config, store)
            return replace(summary, state=state, mode=lines, mode_facts=facts)
        evaluated = store.events(EVALUATED)
        report = EvalReport.from_dict(evaluated[-1].payload) if evaluated else None
        return replace(summary, evaluation=report, fork=plan.fork)
