"""Reads the events that ``codex exec --json`` prints. Unknown events and keys are ignored."""

from collections.abc import Mapping
from typing import Any

from skillwright.core import Usage
from skillwright.models.executors.report import ExecReport, json_events, no_text, one_line
from skillwright.models.http.wire import count, mapping, sequence


def read_codex_events(stdout: str) -> ExecReport:
    """Read a run: the last message is the answer, the last event on the turn tells how it ended."""
    answer: Any = ""
    failure, ended_well = "", False
    usage = Usage(calls=1, cost_usd=None)
    reasoning: list[str] = []
    trace: list[str] = []
    for event in json_events(stdout):
        match event.get("type"):
            case "turn.started":
                ended_well = False
            case "turn.completed":
                ended_well, failure = True, ""
                usage = _usage(mapping(event.get("usage")))
            case "turn.failed":
                ended_well, failure = False, _message(event.get("error"))
            case "error":
                # Reconnecting is told as an error too, so a turn that completes makes it good.
                failure = _message(event)
                trace.append(f"error: {one_line(failure)}")
            case "item.completed":
                item = mapping(event.get("item"))
                if item.get("type") == "agent_message":
                    answer = item.get("text")
                elif item.get("type") == "reasoning":
                    reasoning.append(str(item.get("text") or ""))
                else:
                    trace.append(_told(item))
    if ended_well and (problem := no_text(answer)):
        ended_well, failure = False, problem
    return ExecReport(
        answer=answer if isinstance(answer, str) else "",
        ended_well=ended_well,
        failure="" if ended_well else failure,
        usage=usage,
        reasoning="\n\n".join(reasoning),
        trace=tuple(trace),
    )


def _usage(counts: Mapping[str, Any]) -> Usage:
    """Read token counts: cached ones are part of the input, reasoning is part of the output."""
    input_tokens, output_tokens = (
        count(counts.get("input_tokens")),
        count(counts.get("output_tokens")),
    )
    cached = min(input_tokens, count(counts.get("cached_input_tokens")))
    return Usage(
        calls=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cost_usd=None,
        cache_write_tokens=min(
            input_tokens - cached, count(counts.get("cache_write_input_tokens"))
        ),
        reasoning_tokens=min(output_tokens, count(counts.get("reasoning_output_tokens"))),
    )


def _message(error: Any) -> str:
    return str(mapping(error).get("message") or error or "")


def _told(item: Mapping[str, Any]) -> str:
    match item.get("type"):
        case "command_execution":
            code = item.get("exit_code")
            ended = item.get("status") if code is None else f"exit {code}"
            return f"$ {one_line(item.get('command'))} ({ended})"
        case "file_change":
            changes = map(mapping, sequence(item.get("changes")))
            return "files: " + ", ".join(f"{c.get('kind')} {c.get('path')}" for c in changes)
        case "mcp_tool_call":
            return f"tool {item.get('server')}.{item.get('tool')} ({item.get('status')})"
        case "web_search":
            return f"search: {one_line(item.get('query'))}"
        case "error":
            return f"warning: {one_line(item.get('message'))}"
        case kind:
            return str(kind)
