"""The outcome of a run of a program, and its errors."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skillwright.core import ModelError, ModelRefused, ReplyInvalid, Usage
from skillwright.models.http.client import decode
from skillwright.models.http.wire import ContextOverflow, EndpointFault, cost_usd
from skillwright.models.prices import Prices


class ExecFault(EndpointFault):
    """A command-line agent failed; another run may succeed."""


class OutputFlood(ExecFault):
    """A command-line agent was killed because it printed too much."""


_WINDOW = re.compile(
    r"context window|context length|context_length|prompt is too long|prompt_too_long", re.I
)
_PLAN = re.compile(
    r"usage.limit|insufficient_quota|credit balance|spend(ing)? limit|payment required"
    r"|(out of|insufficient|not enough|no) (credits?|quota|balance|funds)\b",
    re.I,
)
_QUOTA = re.compile(
    r"(exceeded|exhausted).{0,40}quota|quota.{0,40}(exceeded|exhausted)|billing", re.I
)
_SOON = re.compile(
    r"per.(second|minute|hour)|(retry|try again).{0,30}\bin [\d.]+ ?(ms|s|sec|seconds?|m|min)\b"
    r"|retry.?after|retrydelay|rate.?limit",
    re.I,
)
_KEY = re.compile(
    r"unauthori[sz]ed|authenticat|not (logged|signed) in|\bforbidden\b|permission_(error|denied)"
    r"|(invalid|incorrect|missing|expired|revoked)\W+(x-)?(api.?key|credentials|bearer|o?auth)"
    r"|(token|key|credentials)\b.{0,30} (expired|revoked)|please (log|sign) ?in|run /login"
    r"|codex login|(account|organization).{0,30}(disabled|suspended)"
    r"|unsupported_country",
    re.I,
)
_MODEL = re.compile(
    r"model_not_found|not_found_error|deployment_?not_?found|no endpoints found"
    r"|(no such|unknown|invalid|unsupported|unrecognized) model|not a valid model"
    r"|(models?[ /:\"'`]|deployment).{0,80}"
    r"(not found|(does|do|did|may) ?n[o']t exist|not supported|not available (in|for|to|on)\b"
    r"|(no|not have) access)",
    re.I,
)
_STATUS = re.compile(
    r"(?:status|error|http|code)[\"')\]]*[ :=/(\"']*(?:code[\"')]*[ :=(\"']*)?(?:[\d.]+ )?"
    r"([45]\d\d)\b"
    r"|\b([45]\d\d) (?:unauthorized|payment required|forbidden|not found|too many requests)",
    re.I,
)
_BOUND = re.compile(r"error_max_(turns|budget_usd|structured_output_retries)")
_OPTION = re.compile(r"unexpected argument|unknown option|unrecognized (option|argument)", re.I)
_LONGEST_SAID = 400


def fault_of_words(words: str, program: str, how: str) -> ModelError:
    """Turn what a program says about its failure into the error to raise."""
    said = " ".join(words.split())
    shown = f"{said[:_LONGEST_SAID]}..." if len(said) > _LONGEST_SAID else said
    head = f"{program} failed ({how}): {shown or 'it said nothing'}."
    if _WINDOW.search(said):
        return ContextOverflow(f"{head} Shorten the conversation, or use a larger model.")
    if bound := _BOUND.search(said):
        return ReplyInvalid(
            f"{head} It reached a bound before it answered: raise max_{bound[1]}, or leave it out."
        )
    statuses = {int(one or other) for one, other in _STATUS.findall(said)}
    used_up = _QUOTA.search(said) and not _SOON.search(said)
    if _PLAN.search(said) or used_up or 402 in statuses:
        return ModelRefused(f"{head} The plan or account is used up: wait for its reset, or pay.")
    if statuses and min(statuses) >= 429:  # too many requests, or a fault of the server's own
        return ExecFault(head)
    # A model that the account may not use is refused by some with 403.
    if _MODEL.search(said) or 404 in statuses:
        return ModelRefused(
            f"{head} Check the model's name, that the account may use it, and base_url."
        )
    if _KEY.search(said) or statuses & {401, 403}:
        return ModelRefused(f"{head} Sign in again, or correct the key in api_key_env.")
    if _OPTION.search(said):
        return ModelRefused(f"{head} This version of the program is too old or too new: update it.")
    return ExecFault(head)


_LONGEST = 200
_LONGEST_TAIL = 300


@dataclass(frozen=True, slots=True)
class Output:
    """The exit code (negative for a signal) and the output of a program."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def tail(self) -> str:
        """The end of its output besides the report: stderr, else stdout without JSON lines."""
        lines = self.stdout.split("\n")
        beside = "\n".join(line for line in lines if not line.lstrip().startswith(("{", "[")))
        return (self.stderr.strip() or beside.strip())[-_LONGEST_TAIL:]


@dataclass(frozen=True, slots=True)
class ExecReport:
    """The outcome of one run, from its event stream.

    Attributes:
        answer: The last message; may be empty.
        ended_well: Whether the last event of the turn says that it completed; exit codes do not.
        is_whole: Whether the end of the turn was printed, good or bad.
        failure: What a failure event says.
        usage: Tokens and money; the cost is ``None`` where it is unknown.
        model: The model that the program says it ran.
        finish_reason: As in `Completion`.
        reasoning: Reasoning text where it is shown.
        trace: One line per thing that the agent did.
        skills: The skills that the program found; ``None`` where it does not tell.
    """

    answer: str = ""
    ended_well: bool = False
    is_whole: bool = False
    failure: str = ""
    usage: Usage = field(default_factory=lambda: Usage(calls=1, cost_usd=None))
    model: str = ""
    finish_reason: str = "stop"
    reasoning: str = ""
    trace: tuple[str, ...] = ()
    skills: tuple[str, ...] | None = None

    def priced(self, prices: Prices | None) -> "ExecReport":
        """Return the report with the cost by a price list, where one is given."""
        has_tokens = self.usage.input_tokens + self.usage.output_tokens > 0
        if prices is None or not has_tokens:
            return self
        # A run is many calls, and what they add up to says nothing of how long each prompt was.
        flat = prices.model_copy(update={"long_prompts": None})
        return replace(self, usage=replace(self.usage, cost_usd=cost_usd(self.usage, flat)))


def json_events(stdout: str) -> Iterator[Mapping[str, Any]]:
    """Read JSON objects, one per line; a line that is none, or half of one, is skipped."""
    # Not splitlines: JSON may hold other line breaks, such as U+2028, as they are.
    for line in stdout.split("\n"):
        try:
            value = decode(line.encode("utf-8", "replace"))
        except ValueError:
            continue
        for event in value if isinstance(value, list) else [value]:
            if isinstance(event, dict):
                yield event


def no_text(answer: Any) -> str:
    """Return the error of an answer that is neither text nor null; ``""`` if it is valid."""
    if answer is None or isinstance(answer, str):
        return ""
    return f"its answer is no text ({type(answer).__name__})"


def one_line(text: Any) -> str:
    """Return a text for a trace: one line, cut."""
    line = " ".join(str(text).split())
    return f"{line[:_LONGEST]}..." if len(line) > _LONGEST else line


def fault_of_report(report: ExecReport, output: Output, name: str) -> ModelError | None:
    """Return the error that a run is, or ``None`` where it may hold an answer."""
    if report.ended_well:
        if report.answer.strip() or report.usage.output_tokens:
            return None
        if report.finish_reason == "content_filter":
            return None
        return ExecFault(
            f"{name} reports a completed turn without a message and without a token, which is how "
            "a plan that is used up looks. Look at the plan's limits, or use a key."
        )
    how = f"exit code {output.exit_code}"
    if not report.failure and not output.tail and output.stdout.strip():
        how += ", and its report breaks off"
    return fault_of_words(report.failure or output.tail, name, how)
