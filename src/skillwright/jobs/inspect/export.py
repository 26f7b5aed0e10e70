"""A run's episodes and calls as rows: JSON lines, Parquet, or OpenTelemetry spans.

Spans carry the names of OpenTelemetry's semantic conventions for generative AI: an episode is an
``invoke_agent`` span, each of its turns a ``chat`` span below it, and so is each call of an
optimizer or teacher. The file is OTLP in JSON, one request a line, as collectors read it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from skillwright import __version__
from skillwright.core import ConfigError, RunError, Usage
from skillwright.jobs.inspect.episodes import EpisodeQuery, FoundEpisode, list_episodes
from skillwright.runs import RunStore
from skillwright.runs.folder import STORE_NAME

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
            wanted = (one.to_dict() for one in episodes)
        return _write_lines(to, wanted) if form is ExportFormat.JSONL else _write_table(to, wanted)


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
                "output": turn.act.text,
                "finish_reason": turn.act.finish_reason,
                "reward": turn.reward,
                **_usage(turn.act.usage),
            }
    for call in store.calls():
        yield {
            "episode": None,
            "task_id": None,
            "turn": None,
            "purpose": str(call.purpose),
            "step": call.step,
            "identity": None,
            "output": None,
            "finish_reason": None,
            "reward": None,
            "wall_s": call.wall_s,
            "ended_at": call.ended_at,
        }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
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
        trace = _id(f"{run}/{episode.id}/{episode.key}", 32)
        parent = _id(f"{trace}/episode", 16)
        start, end = episode.started_at, episode.ended_at
        turns = store.load_episode(episode.id).trajectory.turns
        spans = [
            _span(
                trace,
                parent,
                "",
                f"invoke_agent {episode.env}",
                (start, end),
                {
                    "gen_ai.operation.name": "invoke_agent",
                    "gen_ai.agent.name": episode.agent,
                    "gen_ai.usage.input_tokens": episode.usage.input_tokens,
                    "gen_ai.usage.output_tokens": episode.usage.output_tokens,
                    "skillwright.task.id": episode.task_id,
                    "skillwright.task.type": episode.task_type,
                    "skillwright.phase": episode.phase,
                    "skillwright.reward": episode.reward,
                    "skillwright.stop_reason": episode.stop_reason.value,
                    "error.type": None if episode.failure is None else episode.failure.cause.value,
                },
            )
        ]
        # When a turn began is not stored: turns share the episode's time evenly.
        each = (end - start) / max(len(turns), 1)
        spans += [
            _span(
                trace,
                _id(f"{trace}/{turn.index}", 16),
                parent,
                f"chat {episode.agent}",
                (start + each * number, start + each * (number + 1)),
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": episode.agent,
                    "gen_ai.response.finish_reasons": [turn.act.finish_reason],
                    "gen_ai.usage.input_tokens": turn.act.usage.input_tokens,
                    "gen_ai.usage.output_tokens": turn.act.usage.output_tokens,
                },
            )
            for number, turn in enumerate(turns)
        ]
        yield _request(run, spans)
    for number, call in enumerate(store.calls()):
        trace = _id(f"{run}/call/{number}", 32)
        facts = {"gen_ai.operation.name": "chat", "skillwright.purpose": str(call.purpose)}
        times = (call.ended_at - call.wall_s, call.ended_at)
        span = _span(trace, _id(trace, 16), "", f"chat {call.purpose}", times, facts)
        yield _request(run, [span])


def _span(
    trace: str,
    span: str,
    parent: str,
    name: str,
    times: tuple[float, float],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    known = {key: one for key, one in facts.items() if one is not None}
    return {
        "traceId": trace,
        "spanId": span,
        **({"parentSpanId": parent} if parent else {}),
        "name": name,
        "kind": 3 if name.startswith("chat") else 1,
        "startTimeUnixNano": str(int(times[0] * _NANO)),
        "endTimeUnixNano": str(int(times[1] * _NANO)),
        "attributes": _attributes(known),
    }


def _request(run: str, spans: list[dict[str, Any]]) -> dict[str, Any]:
    resource = {"service.name": "skillwright", "skillwright.run": run}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [
                    {"scope": {"name": "skillwright", "version": __version__}, "spans": spans}
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


def _id(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
