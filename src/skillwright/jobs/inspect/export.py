"""A run's episodes and calls as rows: JSON lines, Parquet, or OpenTelemetry spans.

Spans are those of the trackers plug-in. Their file is OTLP in JSON, one request a line,
as collectors read it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from skillwright.config.load import load_config
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, RunError, Usage, skill_hash
from skillwright.core.jsonio import dumps, write_text
from skillwright.evaluation import Score
from skillwright.jobs.inspect.critical_path import critical_path
from skillwright.jobs.inspect.episodes import EpisodeQuery, FoundEpisode, list_episodes
from skillwright.jobs.inspect.summary import RunSummary, read_folder
from skillwright.jobs.text.adapters.models import flat_settings
from skillwright.jobs.text.launch.runs import find_run, read_plan
from skillwright.jobs.text.state import Kind, StepRecord, TrainState, restore
from skillwright.jobs.weights.state import TEST_EPISODES, RlKind
from skillwright.plugins.trackers.spans import SERVICE, Span, call_span, episode_spans
from skillwright.runs import EpisodeSummary, RunFolder, RunStore
from skillwright.runs.folder import STORE_NAME
from skillwright.version import __version__

_NANO: Final = 1_000_000_000


class ExportFormat(StrEnum):
    """What rows are written as."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    OTEL = "otel"


class ExportRows(StrEnum):
    """What a row is."""

    EPISODES = "episodes"
    CALLS = "calls"


def export_run(
    run: str | Path,
    to: Path,
    form: ExportFormat = ExportFormat.JSONL,
    rows: ExportRows = ExportRows.EPISODES,
    root: str | Path = "runs",
) -> int:
    """Write a run's episodes, or its calls to models, into a file.

    Args:
        run: A run's folder or name, ``latest``, or a bank's file.
        to: The file; replaced where it is there.
        form: ``jsonl``, ``parquet`` (needs pyarrow) or ``otel`` (spans of both, OTLP in JSON).
        rows: What a row is; of no use to ``otel``.
        root: The folder that holds runs.

    Returns:
        How many rows or spans were written.

    Raises:
        RunError: There is no such run, or it has nothing to export.
        ConfigError: Parquet is asked for and pyarrow is not installed.
    """
    found = list_episodes(run, root, EpisodeQuery())
    episodes = sorted(found.episodes, key=lambda one: one.summary.id)
    with RunStore.open(found.path / STORE_NAME, read_only=True) as store:
        if form is ExportFormat.OTEL:
            lines = _spans(found.run, store, episodes)
            return _write_lines(to, lines)
        if rows is ExportRows.CALLS:
            wanted: Iterable[Mapping[str, Any]] = _call_rows(store, episodes)
        else:
            tested = _tested(store)
            wanted = (one.to_dict() | {"tested": tested(one.summary)} for one in episodes)
        return _write_lines(to, wanted) if form is ExportFormat.JSONL else _write_table(to, wanted)


def _tested(store: RunStore) -> Callable[[EpisodeSummary], list[str]]:
    """Return what says which results of the final test an episode counts for, by their names."""
    texts = [event.payload["skills"] for event in store.events(Kind.TEST_OPENED)]
    keys = [event.payload.get(TEST_EPISODES, {}) for event in store.events(RlKind.TEST)]
    by_text = texts[-1] if texts else {}
    by_key = {name: frozenset(found) for name, found in keys[-1].items()} if keys else {}

    def names(one: EpisodeSummary) -> list[str]:
        if one.phase != "test":
            return []
        document = one.skill_version.partition("+")[0]
        return [
            *(name for name, digest in by_text.items() if digest == document),
            *(name for name, found in by_key.items() if one.key in found),
        ]

    return names


def _call_rows(store: RunStore, episodes: Iterable[FoundEpisode]) -> Iterator[dict[str, Any]]:
    """A row per call: turns of episodes first, then calls of optimizers and teachers."""
    for one in episodes:
        result = store.load_episode(one.summary.id)
        for turn in result.trajectory.turns:
            yield {
                "episode": one.name,
                "task_id": one.summary.task_id,
                "turn": turn.index,
                "purpose": "rollout",
                "step": one.summary.step,
                "identity": one.summary.agent,
                "model": None,
                "output": turn.act.text,
                "finish_reason": turn.act.finish_reason,
                "error": None,
                "reward": turn.reward,
                **_usage(turn.act.usage),
                "wall_s": None,
                "ended_at": None,
            }
    for call, answer in zip(store.calls(), store.answers(), strict=True):
        yield {
            "episode": None,
            "task_id": None,
            "turn": None,
            "purpose": str(call.purpose),
            "step": call.step,
            "identity": call.identity,
            "model": call.model,
            "output": answer,
            "finish_reason": call.finish_reason or None,
            "error": call.error,
            "reward": None,
            **_usage(call.usage),
            "wall_s": call.wall_s,
            "ended_at": call.ended_at,
        }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cache_hits": usage.cache_hits,
        "cost_usd": usage.cost_usd,
    }


def _write_lines(to: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    # Beside its target, so that what was there stays until everything is written.
    half = to.with_name(f"{to.name}.part")
    with half.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    if not count:
        half.unlink()
        raise RunError("this run has nothing to export yet")
    half.replace(to)
    return count


def _write_table(to: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    try:
        pyarrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--format parquet needs pyarrow; `pip install pyarrow`, or take --format jsonl"
        ) from error
    # Objects of any shape, such as what an environment reports, have no column type: they are JSON.
    flat = [
        {key: json.dumps(one) if isinstance(one, dict | list) else one for key, one in row.items()}
        for row in rows
    ]
    if not flat:
        raise RunError("this run has nothing to export yet")
    columns = list(dict.fromkeys(key for row in flat for key in row))
    table = pyarrow.table({key: [row.get(key) for row in flat] for key in columns})
    parquet.write_table(table, to)
    return len(flat)


def _spans(run: str, store: RunStore, episodes: Iterable[FoundEpisode]) -> Iterator[dict[str, Any]]:
    for one in episodes:
        episode = one.summary
        named = f"{run}/{episode.id}/{episode.key}"
        result = store.load_episode(episode.id)
        yield _request(
            run, episode_spans(named, result, episode.agent, episode.usage, episode.ended_at)
        )
    for number, call in enumerate(store.calls()):
        times = (call.ended_at - call.wall_s, call.ended_at)
        facts = {
            "gen_ai.request.model": call.identity,
            "gen_ai.response.model": call.model or None,
            "gen_ai.usage.input_tokens": call.usage.input_tokens,
            "gen_ai.usage.output_tokens": call.usage.output_tokens,
            "error.type": None if call.error is None else "call",
        }
        yield _request(run, [call_span(f"{run}/call/{number}", str(call.purpose), times, facts)])


def _span(span: Span) -> dict[str, Any]:
    return {
        "traceId": span.trace,
        "spanId": span.id,
        **({"parentSpanId": span.parent} if span.parent else {}),
        "name": span.name,
        "kind": 3 if span.asks else 1,
        "startTimeUnixNano": str(int(span.times[0] * _NANO)),
        "endTimeUnixNano": str(int(span.times[1] * _NANO)),
        "attributes": _attributes(span.known),
    }


def _request(run: str, spans: list[Span]) -> dict[str, Any]:
    resource = {"service.name": SERVICE, "skillwright.run": run}
    sent = [_span(one) for one in spans]
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [
                    {"scope": {"name": "skillwright", "version": __version__}, "spans": sent}
                ],
            }
        ]
    }


def _attributes(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(one)} for key, one in facts.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}


# A finished run as the files that SkillOpt leaves, for scripts that read those.
#
# What a run of ours does not know stands there as ``null``; nothing is made up. The names of keys
# are
# theirs, so ``*_hard`` is the share of successes, whatever the gate compared.
#
# Source: SkillOpt (microsoft/SkillOpt), the run directory and ``summary.json`` of its trainer.


VERSION = "skillopt-0.1.0"
"""What the original writes as the version of its summary."""

_ACCEPTS = ("accept", "accept_new_best", "force_accept")


def export_skillopt(run: str | Path, to: str | Path, root: str | Path = "runs") -> list[Path]:
    """Write a training run as SkillOpt's trainer would have left it.

    ``config.json``, ``history.json``, ``runtime_state.json``, ``summary.json``, ``best_skill.md``,
    ``skills/skill_v0000.md`` and on, by step, and of every step ``step_record.json`` and, where
    there was one, ``candidate_skill.md``. What an adapter wrote stays in the run's ``adapter``
    folder, where it has their names already.

    Args:
        run: Its folder, or its name below ``root``.
        to: The folder that is written; it must not hold anything.
        root: The folder that holds runs.

    Returns:
        The files.

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
class _Stand:
    """Where a run stood after a step."""

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
        """Tell every file, by its path below the folder."""
        state, stand = self.state, self._first()
        history = []
        yield "skills/skill_v0000.md", self.store.skill(0)
        for record in state.steps:
            stand = _after(stand, record)
            step = self._step(record, stand)
            history.append(step)
            yield f"skills/skill_v{record.step:04d}.md", self.store.skill(stand.current)
            yield f"steps/step_{record.step:04d}/step_record.json", _json(step)
            if record.skill_version is not None:
                text = self.store.skill(record.skill_version)
                yield f"steps/step_{record.step:04d}/candidate_skill.md", text
        stand = _at_the_end(stand, state)
        yield "best_skill.md", self.store.skill(state.best_version)
        yield "config.json", _json(self._config())
        yield "history.json", _json(history)
        yield "runtime_state.json", _json(self._runtime(stand))
        yield "summary.json", _json(self._summary(stand))

    def _first(self) -> _Stand:
        score = _mean(self.state.baseline.overall if self.state.baseline else None)
        return _Stand(current_score=score, best_score=score)

    def _config(self) -> dict[str, Any]:
        return flat_settings(self.config, self.place)

    def _origin(self, version: int) -> str:
        return next(one.origin for one in self.store.skills() if one.version == version)

    def _step(self, record: StepRecord, stand: _Stand) -> dict[str, Any]:
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
            "current_score": stand.current_score,
            "best_score": stand.best_score,
            "best_step": stand.best_step,
            "current_origin": self._origin(stand.current),
            "best_origin": self._origin(stand.best),
            "skill_len": len(self.store.skill(stand.current)),
        }

    def _runtime(self, stand: _Stand) -> dict[str, Any]:
        state = self.state
        return {
            "last_completed_step": state.last_step,
            "current_skill_path": f"skills/skill_v{state.last_step:04d}.md",
            "current_score": stand.current_score,
            "current_origin": self._origin(state.skill_version),
            "best_skill_path": "best_skill.md",
            "best_score": stand.best_score,
            "best_step": stand.best_step,
            "best_origin": self._origin(state.best_version),
        }

    def _final_selection(self) -> list[tuple[float, float]] | None:
        """Return what val episodes with the last skill scored; ``None`` where none was played."""
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

    def _summary(self, stand: _Stand) -> dict[str, Any]:
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
            "best_selection_hard": stand.best_score,
            "final_selection_hard": selected and fmean(hard for hard, _ in selected),
            "final_selection_soft": selected and fmean(soft for _, soft in selected),
            "best_step": stand.best_step,
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
            "total_wall_time_s": critical_path(self.store, 1).took_s,
            "token_summary": _tokens(self.summary.usage),
        }


def _after(stand: _Stand, record: StepRecord) -> _Stand:
    version, score = record.skill_version, record.entry.score_after
    if version is not None and record.enters:
        stand = replace(stand, current=version, current_score=score)
    if version is not None and record.is_best:
        stand = replace(stand, best=version, best_score=score, best_step=record.step)
    if record.noted_version is not None:
        stand = replace(stand, current=record.noted_version)
    return stand


def _at_the_end(stand: _Stand, state: TrainState) -> _Stand:
    """Return where a run stands after its last skill met the best one."""
    if state.final is None or not state.final.accepted:
        return stand
    version, score = state.best_version, state.final.candidate_score
    made = [one.step for one in state.steps if one.skill_version == version]
    return replace(
        stand, best=version, best_score=score, best_step=max(made, default=stand.best_step)
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
