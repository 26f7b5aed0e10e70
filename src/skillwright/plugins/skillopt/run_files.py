"""Write a finished run in the format of SkillOpt's run directory.

Unknown values are ``null``. Keys have SkillOpt's names, so ``*_hard`` is the success rate, whatever
the gate's metric. With gate `explore` a step's scores are the expected ones of its verdict.

Source: SkillOpt (microsoft/SkillOpt), the run directory and ``summary.json`` of its trainer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from skillwright.config import RunConfig, load_config
from skillwright.core import RunError, Usage, skill_hash
from skillwright.core.jsonio import dumps, write_text
from skillwright.evaluation import Score
from skillwright.jobs.inspect import RunSummary, read_folder
from skillwright.jobs.run import find_run, seconds_worked
from skillwright.jobs.text import StepRecord, TrainState, flat_settings, read_plan, restore
from skillwright.runs import RunFolder, RunStore

VERSION = "skillopt-0.1.0"
"""Version of the original's summary format."""

_ACCEPTS = ("accept", "accept_new_best", "force_accept")


def export_skillopt(run: str | Path, to: str | Path, root: str | Path = "runs") -> list[Path]:
    """Write a training run as SkillOpt's trainer does.

    The files are ``config.json``, ``history.json``, ``runtime_state.json``, ``summary.json``,
    ``best_skill.md``, ``skills/skill_v0000.md`` and so on, and for each step ``step_record.json``
    and, if any, ``candidate_skill.md``. An adapter's files stay in the run's folder ``adapter``.

    Args:
        run: Folder of the run, or its name below ``root``.
        to: Folder to write; it must be missing or empty.
        root: Folder of runs.

    Returns:
        The written files.

    Raises:
        RunError: There is no such run, it is an evaluation, or the folder is not empty.
    """
    folder, place = RunFolder.look(find_run(run, root)), Path(to)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise RunError(f"{str(place)!r} holds something already; export into a new folder")
    config = load_config(folder.path / "config.yaml")
    with RunStore.open(folder.store_path, read_only=True) as store:
        if read_plan(store, folder.path) is not None:
            raise RunError(f"{folder.name!r} is an evaluation; only a training has such files")
        exported = _Exported(config, store, restore(config, store), read_folder(folder), place)
        texts = dict(exported.files())
    for name, text in texts.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return [place / name for name in texts]


@dataclass(frozen=True, slots=True)
class _Incumbents:
    """Current and best skill versions after a step, with their val scores."""

    current: int = 0
    best: int = 0
    current_score: float | None = None
    best_score: float | None = None
    best_step: int = 0


@dataclass(frozen=True, slots=True)
class _Exported:
    config: RunConfig
    store: RunStore
    state: TrainState
    summary: RunSummary
    place: Path

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield path and content of each file."""
        state, kept = self.state, self._first()
        history = []
        yield "skills/skill_v0000.md", self.store.skill(0)
        for record in state.steps:
            kept = _after(kept, record)
            step = self._step(record, kept)
            history.append(step)
            yield f"skills/skill_v{record.step:04d}.md", self.store.skill(kept.current)
            yield f"steps/step_{record.step:04d}/step_record.json", _json(step)
            if record.skill_version is not None:
                text = self.store.skill(record.skill_version)
                yield f"steps/step_{record.step:04d}/candidate_skill.md", text
        kept = _at_the_end(kept, state)
        yield "best_skill.md", self.store.skill(state.best_version)
        yield "config.json", _json(self._config())
        yield "history.json", _json(history)
        yield "runtime_state.json", _json(self._runtime(kept))
        yield "summary.json", _json(self._summary(kept))

    def _first(self) -> _Incumbents:
        score = _mean(self.state.baseline.overall if self.state.baseline else None)
        return _Incumbents(current_score=score, best_score=score)

    def _config(self) -> dict[str, Any]:
        return flat_settings(self.config, self.place)

    def _origin(self, version: int) -> str:
        return next(one.origin for one in self.store.skills() if one.version == version)

    def _step(self, record: StepRecord, kept: _Incumbents) -> dict[str, Any]:
        """Return a step's record, which is an entry of the history too."""
        entry, edits = record.entry, self.store.edits(record.step)
        candidate = None if record.skill_version is None else self.store.skill(record.skill_version)
        hashes = {one.version: one.hash for one in self.store.skills()}
        return {
            "step": record.step,
            "epoch": record.epoch,
            "rollout_n": entry.n_total,
            "rollout_hard": 1 - entry.n_fail / entry.n_total if entry.n_total else None,
            "n_edits_ranked": len(entry.edits),
            "n_edits_proposed": len(edits),
            "candidate_hash": None if candidate is None else hashes[record.skill_version or 0],
            "candidate_skill_len": None if candidate is None else len(candidate),
            "candidate_gate_score": entry.score_after,
            "gate_metric": getattr(self.config.evaluation.gate, "metric", None),
            "action": record.action,
            "current_score": kept.current_score,
            "best_score": kept.best_score,
            "best_step": kept.best_step,
            "current_origin": self._origin(kept.current),
            "best_origin": self._origin(kept.best),
            "skill_len": len(self.store.skill(kept.current)),
        }

    def _runtime(self, kept: _Incumbents) -> dict[str, Any]:
        state = self.state
        return {
            "last_completed_step": state.last_step,
            "current_skill_path": f"skills/skill_v{state.last_step:04d}.md",
            "current_score": kept.current_score,
            "current_origin": self._origin(state.skill_version),
            "best_skill_path": "best_skill.md",
            "best_score": kept.best_score,
            "best_step": kept.best_step,
            "best_origin": self._origin(state.best_version),
        }

    def _final_selection(self) -> list[tuple[float, float]] | None:
        """Return the val scores of the last skill, or ``None`` if it was not played."""
        text = self.store.skill(self.state.measured(self.state.skill_version))
        least = self.config.env.success_threshold
        played = [
            (float(one.reward >= least) if one.hard is None else one.hard, one.reward)
            for one in self.store.episodes(split="val")
            if one.reward is not None
            and one.skill_version == skill_hash(text)
            and one.phase not in ("confirm", "ablation")
        ]
        return played or None

    def _summary(self, kept: _Incumbents) -> dict[str, Any]:
        """Return the run's summary; scores that were not measured are ``None``."""
        state = self.state
        tables = state.report.tables if state.report else {}
        scores = {name: tables[name].overall if name in tables else None for name in tables}
        first, best, final = (scores.get(name) for name in ("initial", "best", "final"))
        actions = [record.action for record in state.steps]
        selected = self._final_selection()
        return {
            "version": VERSION,
            "config": self._config(),
            "baseline_selection_hard": _hard(state.baseline.overall if state.baseline else None),
            "best_selection_hard": kept.best_score,
            "final_selection_hard": selected and fmean(hard for hard, _ in selected),
            "final_selection_soft": selected and fmean(soft for _, soft in selected),
            "best_step": kept.best_step,
            "current_origin": self._origin(state.skill_version),
            "best_origin": self._origin(state.best_version),
            "epoch_stats": [{"epoch": one.epoch, "action": one.action} for one in state.epochs],
            "total_steps": len(actions),
            "total_accepts": sum(action in _ACCEPTS for action in actions),
            "total_rejects": sum(action in ("reject", "undecided") for action in actions),
            "total_skips": sum(action.startswith("skip_") for action in actions),
            "baseline_test_hard": _hard(first),
            "baseline_test_soft": _mean(first),
            "test_hard": _hard(best),
            "test_soft": _mean(best),
            "final_test_hard": _hard(final or best),
            "final_test_soft": _mean(final or best),
            "test_delta_hard": _less(_hard(best), _hard(first)),
            "final_test_delta_hard": _less(_hard(final or best), _hard(first)),
            "total_wall_time_s": seconds_worked(self.store),
            "token_summary": _tokens(self.summary.usage),
        }


def _after(kept: _Incumbents, record: StepRecord) -> _Incumbents:
    version, score = record.skill_version, record.entry.score_after
    if version is not None and record.enters:
        kept = replace(kept, current=version, current_score=score)
    if version is not None and record.is_best:
        kept = replace(kept, best=version, best_score=score, best_step=record.step)
    if record.noted_version is not None:
        kept = replace(kept, current=record.noted_version)
    return kept


def _at_the_end(kept: _Incumbents, state: TrainState) -> _Incumbents:
    """Return both after the final comparison, which may make the last skill the best one."""
    if state.final is None or not state.final.accepted:
        return kept
    version, score = state.best_version, state.final.candidate_score
    made = [one.step for one in state.steps if one.skill_version == version]
    return replace(
        kept, best=version, best_score=score, best_step=max(made, default=kept.best_step)
    )


def _hard(score: Score | None) -> float | None:
    return None if score is None else score.success_rate


def _mean(score: Score | None) -> float | None:
    return None if score is None else score.mean_reward


def _less(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _tokens(usage: Mapping[str, Usage]) -> dict[str, dict[str, int]]:
    every = sum(usage.values(), Usage())
    return {
        stage: {
            "calls": used.calls,
            "prompt_tokens": used.input_tokens,
            "completion_tokens": used.output_tokens,
            "total_tokens": used.input_tokens + used.output_tokens,
        }
        for stage, used in {**usage, "_total": every}.items()
    }


def _json(value: Any) -> str:
    return dumps(value, indent=2) + "\n"
