"""Export a run's episodes and calls: JSON lines, Parquet, or OpenTelemetry spans (OTLP in JSON)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from skillwright.core import ConfigError, RunError, Usage
from skillwright.jobs.inspect.episodes import EpisodeQuery, FoundEpisode, list_episodes
from skillwright.jobs.kinds import Kind, RlKind
from skillwright.jobs.run.spans import SERVICE, Span, call_span, episode_spans
from skillwright.jobs.weights.state import TEST_EPISODES
from skillwright.runs import EpisodeSummary, RunStore
from skillwright.runs.folder import STORE_NAME
from skillwright.version import __version__

_NANO: Final = 1_000_000_000


class ExportFormat(StrEnum):
    """The format of a file of rows."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    OTEL = "otel"


class ExportRows(StrEnum):
    """The kind of rows."""

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
        to: The file; an existing one is replaced.
        form: ``jsonl``, ``parquet`` (needs pyarrow) or ``otel`` (spans of both, OTLP in JSON).
        rows: The kind of rows; ignored by ``otel``.
        root: The folder that holds runs.

    Returns:
        The number of rows or spans.

    Raises:
        RunError: There is no such run, or it has nothing to export.
        ConfigError: pyarrow is needed and not installed, or the file's ending says another format.
    """
    endings = (".parquet",) if form is ExportFormat.PARQUET else (".jsonl", ".ndjson")
    if to.suffix.lower() not in endings:
        others = "end it in .parquet for Parquet, in .jsonl for JSON Lines"
        raise ConfigError(f"{str(to)!r} would hold {form.value}, not what its name says; {others}")
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
    """Return a function that names the test results that an episode counts for."""
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
    """Yield a row per call: turns of episodes first, then calls of optimizers and teachers."""
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
    names = ("input_tokens", "output_tokens", "cached_tokens", "cache_hits", "cost_usd")
    return {name: getattr(usage, name) for name in names}


def _write_lines(to: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    # Written next to its target, which is replaced at the end.
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
    # Objects of any shape, such as an environment's report, have no column type: they become JSON.
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
        "events": [
            {"timeUnixNano": str(int(at * _NANO)), "name": name, "attributes": _attributes(facts)}
            for name, at, facts in span.events
        ],
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
