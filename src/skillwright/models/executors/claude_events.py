"""Reads what ``claude -p`` prints: a stream of messages, or the result that closes a run."""

from collections.abc import Mapping
from typing import Any

from skillwright.core import Usage
from skillwright.core.jsonio import dumps
from skillwright.models.executors.report import ExecReport, json_events, no_text, one_line
from skillwright.models.http.wire import amount, count, mapping, sequence

_FINISH = {"max_tokens": "length", "refusal": "content_filter"}


def read_claude_events(stdout: str, *, trusts_cost: bool = True) -> ExecReport:
    """Read a run."""
    model, said_error = "", ""
    skills: tuple[str, ...] | None = None
    result: Mapping[str, Any] = {}
    reasoning: list[str] = []
    trace: list[str] = []
    for event in json_events(stdout):
        match event.get("type"):
            case "system" if event.get("subtype") == "init":
                model = str(event.get("model") or "")
                skills = tuple(str(name) for name in sequence(event.get("skills")))
            case "system":
                trace += _told_by_system(event)
            case "assistant":
                said_error = str(event.get("error") or "")
                for block in map(mapping, sequence(mapping(event.get("message")).get("content"))):
                    if block.get("type") == "thinking":
                        reasoning.append(str(block.get("thinking") or ""))
                    elif block.get("type") == "tool_use":
                        asked = one_line(dumps(block.get("input")))
                        trace.append(f"{block.get('name')} {asked}")
            case "result":
                result = event
    ended_well = result.get("subtype") == "success" and not result.get("is_error")
    said, structured = result.get("result"), result.get("structured_output")
    answer = str(said or "") if structured is None else dumps(structured)
    failure = _failure(result, said_error)
    if ended_well:
        failure = no_text(said) if structured is None else ""
        ended_well = not failure
    return ExecReport(
        answer=answer if ended_well else "",
        ended_well=ended_well,
        failure=failure,
        usage=_usage(result, trusts_cost=trusts_cost),
        model=model,
        finish_reason=_FINISH.get(str(result.get("stop_reason")), "stop"),
        reasoning="\n\n".join(reasoning),
        trace=tuple(trace),
        skills=skills,
    )


def _failure(result: Mapping[str, Any], said_error: str) -> str:
    """Join all that is said about a failure; its cause may stand in any of these."""
    parts = [
        said_error,
        str(result.get("subtype") or "") if result.get("subtype") != "success" else "",
        str(result.get("terminal_reason") or ""),
        f"status {status}" if (status := result.get("api_error_status")) else "",
        str(result.get("startup_failure_reason") or ""),
        str(result.get("result") or ""),
        *(str(error) for error in sequence(result.get("errors"))),
    ]
    return ": ".join(dict.fromkeys(part for part in parts if part))


def _usage(result: Mapping[str, Any], *, trusts_cost: bool) -> Usage:
    """Sum all calls of the run, those of auxiliary models included.

    Anthropic counts cached tokens beside the input; here they are part of it.
    """
    models = [mapping(each) for each in mapping(result.get("modelUsage")).values()]
    if models:
        names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    else:
        models = [mapping(result.get("usage"))]
        names = (
            *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            "output_tokens",
        )
    fresh, read, written, output = (sum(count(each.get(n)) for each in models) for n in names)
    cost = amount(result.get("total_cost_usd"))
    guessed = any(each.get("costBasis") == "unknown" for each in models)
    known = trusts_cost and not guessed and fresh + output > 0
    return Usage(
        calls=1,
        input_tokens=fresh + read + written,
        output_tokens=output,
        cached_tokens=read,
        cost_usd=cost if known else None,
        cache_write_tokens=written,
        reasoning_tokens=min(output, sum(count(each.get("thinkingTokens")) for each in models)),
    )


def _told_by_system(event: Mapping[str, Any]) -> list[str]:
    match event.get("subtype"):
        case "api_retry":
            return [f"retry {event.get('attempt')}: {one_line(event.get('error'))}"]
        case "compact_boundary":
            return ["the conversation was summarised"]
        case "permission_denied":
            return [f"denied: {one_line(event.get('tool_name') or event.get('tool'))}"]
        case "model_refusal_fallback":
            return ["another model answered after a refusal"]
        case _:
            return []
