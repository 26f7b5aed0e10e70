"""How an evaluation on tau-bench is told in a terminal."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from skillwright.cli.words import counted
from skillwright.evaluation import Score
from skillwright.jobs import TauFindings

_OF_SCORED = {
    "truncated": "ran out of turns",
    "parse_error": "had a call that could not be parsed",
    "tool_error": "had a tool answer with an error",
}
_OF_ALL = {
    "user_failure": "failed because of the simulated user",
    "failure": "failed for any fault of the infrastructure",
}
_ALWAYS = frozenset({"truncated", "parse_error"})

_ORIGINS = {
    "built-in": "the built-in store, whose scores compare with no published ones",
    "fetched": "as fetched by `skillwright data tau-bench`",
}


def show_findings(console: Console, findings: TauFindings) -> None:
    """Show what stands beside the success rate, and what it may be compared with."""
    for line in _tau_lines(findings):
        console.print(line, soft_wrap=True)


def _tau_lines(findings: TauFindings) -> Iterator[str]:
    free = counted(len(findings.free_tasks), "task")
    yield f"tasks that want nothing changed: {_score(findings.no_op)}"
    yield f"without {free} that hanging up wins: {_score(findings.without_free)}"
    if findings.rates["failure"] and findings.failures_as_losses is not None:
        yield f"failures counted as losses: [bold]{findings.failures_as_losses:.1%}[/]"
    for whose, names in (("scored", _OF_SCORED), ("all", _OF_ALL)):
        told = [
            f"{rate:.1%} {names[name]}"
            for name, rate in findings.rates.items()
            if name in names and rate is not None and (rate > 0 or name in _ALWAYS)
        ]
        if told:
            yield f"of {whose} episodes: {', '.join(told)}"
    yield f"data: {_ORIGINS.get(findings.data_origin, f'of {escape(findings.data_origin)}')}"
    yield from _published(findings)
    yield "comparable with scores under the same settings:"
    for name, value in _flat(findings.settings):
        yield f"  [dim]{escape(name)}[/] {escape(json.dumps(value))}"


def _published(findings: TauFindings) -> Iterator[str]:
    """Say whether the score may stand beside tau-bench's own figures, and if not, why."""
    if findings.departures is None:
        return
    if not findings.departures:
        user = escape(str(findings.settings["user"]["model"]))
        yield (
            "comparable with published figures of tau-bench's tool-calling agent whose user was "
            f"played by {user}"
        )
        return
    yield "not comparable with tau-bench's published figures:"
    for why in findings.departures:
        yield f"  {escape(why)}"


def _score(score: Score) -> str:
    if score.success_rate is None or score.interval is None:
        return "none was played"
    low, high = score.interval
    return (
        f"[bold]{score.success_rate:.1%}[/] won (95% interval {low:.1%} to {high:.1%}; "
        f"{counted(score.tasks, 'task')}, {counted(score.episodes, 'episode')})"
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
