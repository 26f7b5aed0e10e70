"""What a run's store says about it, without running anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from skillwright.config.load import load_config, load_rl_config
from skillwright.config.readers import mode_of
from skillwright.core import SkillwrightError, Usage
from skillwright.core.jsonio import encode
from skillwright.jobs.run.launch import MADE, SERVE, find_run
from skillwright.jobs.run.turn_ends import TurnEnds
from skillwright.jobs.text.evaluate import EVALUATED, EvalReport
from skillwright.jobs.text.fork import Fork
from skillwright.jobs.text.launch import Run, has_scripted_models, read_plan
from skillwright.jobs.text.state import Kind, TrainState, restore
from skillwright.jobs.weights.launch import JOB as RL
from skillwright.jobs.weights.launch import rl_has_scripted_models
from skillwright.jobs.weights.state import RlState
from skillwright.jobs.weights.state import restore as restore_rl
from skillwright.runs import RunFolder, RunStore, list_runs


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Where a run stands.

    Attributes:
        name: The run's name.
        path: Its folder.
        job: ``train``, ``eval``, ``rl`` or ``serve``.
        started: When, UTC, for people.
        episodes: Scored episodes in the store.
        failures: Episodes without a score.
        usage: What was consumed, by purpose.
        is_scripted: Whether a scripted model took part, which must be said with any result.
        state: Where training stands; ``None`` for an evaluation.
        rl: Where a run of the recipe stands; ``None`` for other jobs.
        evaluation: What an evaluation found; ``None`` before its end and for training.
        fork: The recorded episode that an evaluation continues, where it does.
        mode: Lines that say how training differs from SkillOpt's; none for an evaluation.
        mode_facts: The same as a JSON object, with what no mode does as SkillOpt.
        turns: How the agent's answers ended; ``None`` in lists.
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
    rl: RlState | None = None
    evaluation: EvalReport | None = None
    fork: Fork | None = None
    mode: tuple[str, ...] = ()
    mode_facts: Mapping[str, Any] = field(default_factory=dict)
    turns: TurnEnds | None = None
    problem: str = ""

    @property
    def accepted(self) -> int:
        """Candidates that the gate accepted, each once, however many skills it had to beat."""
        if self.rl is not None:
            return sum(one.action == "accept" for one in self.rl.evolutions.values())
        if self.state is None:
            return 0
        judged = [*self.state.steps, *self.state.epochs]
        final = None if self.state.two_levels else self.state.final
        return sum(one.accepted for one in judged) + (final is not None and final.accepted)

    @property
    def steps(self) -> int:
        """Steps that are decided; of the recipe, updates of the bank."""
        if self.rl is not None:
            return len(self.rl.evolutions)
        return self.state.last_step if self.state else 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do; nothing can be resumed of conversations."""
        if self.job == SERVE:
            return True
        if self.rl is not None:
            return self.rl.finished
        return self.state.finished if self.state else self.evaluation is not None

    @property
    def result(self) -> str:
        """The headline, for people."""
        if self.problem:
            return f"cannot be read: {self.problem}"
        if self.job == SERVE:
            return f"{self.episodes} conversations judged, {self.failures} not"
        if self.evaluation is not None:
            return f"{_percent(self.evaluation.table.overall.success_rate)} solved"
        names, report = ("initial", "best"), self.state.report if self.state else None
        if self.rl is not None:
            report = self.rl.test
            names = (next(iter(report.tables)) if report else "cold_start", "final")
        if report is not None and (self.is_finished or self.rl is not None):
            first, last = (report.tables[name].overall.success_rate for name in names)
            return f"{_percent(first)} -> {_percent(last)} solved"
        if self.is_finished:
            return "finished, not tested"
        where = f": iteration {self.rl.last_iteration}" if self.rl else ""
        return f"not finished{where}"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        state = self.state
        record: dict[str, Any] = encode(
            {
                "name": self.name,
                "path": str(self.path),
                "job": self.job,
                "started": self.started,
                "finished": self.is_finished,
                "result": self.result,
                "scripted": self.is_scripted,
                "episodes": self.episodes,
                "failures": self.failures,
                "usage": self.usage,
                "steps": state.steps if state else [],
                "epochs": state.epochs if state else [],
                "ran_out_of_patience": state.ran_out_of_patience if state else False,
                "best_version": state and state.best_version,
                "current_version": state and state.skill_version,
                "release": state.release_text if state else "",
                "test": state and state.report,
                "confirmation": state and state.confirmation,
                "mode": self.mode_facts,
                "turns": self.turns,
                "evaluation": self.evaluation,
                "fork": self.fork,
                "rl": self.rl,
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
    """Add how the agent's answers ended, which takes a look at every turn."""
    with RunStore.open(RunFolder.look(summary.path).store_path, read_only=True) as store:
        return replace(summary, turns=TurnEnds.read(store.turn_ends()))


def is_finished(run: Run) -> bool:
    """Whether nothing is left to do in a run that this process works on."""
    return bool(run.store.events(Kind.FINISHED if run.plan is None else EVALUATED))


def summarize_runs(root: Path) -> list[RunSummary]:
    """Summarize the runs below a folder, the latest first, those that cannot be read last."""
    found = [_read_or_say_why(folder) for folder in list_runs(root)]
    return sorted(found, key=lambda summary: summary.started, reverse=True)


def _read_or_say_why(folder: RunFolder) -> RunSummary:
    try:
        return read_folder(folder)
    except SkillwrightError as error:
        return RunSummary(folder.name, folder.path, "", "", 0, 0, {}, problem=str(error))


def read_folder(folder: RunFolder) -> RunSummary:
    """Summarize a run without how the agent's answers ended."""
    with RunStore.open(folder.store_path, read_only=True) as store:
        events, counts, path = store.events(), store.counts(), folder.path / "config.yaml"
        common: dict[str, Any] = {
            "name": folder.name,
            "path": folder.path,
            "episodes": counts["episodes"],
            "failures": counts["failures"],
            "usage": store.usage_by_purpose(),
        }
        job = next((one.payload.get("job") for one in events[:1] if one.kind == MADE), None)
        if job == SERVE:
            return RunSummary(**common, job=SERVE, started=_time(events[0].time))
        if job == RL:
            recipe = load_rl_config(path)
            return RunSummary(
                **common,
                job=RL,
                started=_time(events[0].time),
                is_scripted=rl_has_scripted_models(recipe),
                rl=restore_rl(recipe, store),
            )
        plan, config = read_plan(store, folder.path), load_config(path)
        common |= {
            "started": _time(events[0].time),
            "is_scripted": has_scripted_models(config, store, plan),
        }
        if plan is None:
            return RunSummary(
                **common,
                job="train",
                state=restore(config, store),
                mode=mode_of(config).lines,
                mode_facts=mode_of(config).facts,
            )
        evaluated = [event.payload for event in events if event.kind == EVALUATED]
        report = EvalReport.from_dict(evaluated[-1]) if evaluated else None
        return RunSummary(**common, job="eval", evaluation=report, fork=plan.fork)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")


def _percent(rate: float | None) -> str:
    return "nothing" if rate is None else f"{rate:.0%}"
