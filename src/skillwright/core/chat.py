"""Messages, sampling settings, completions and usage of chat models."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol, Required, TypedDict


class Message(TypedDict, total=False):
    """One chat message in OpenAI's format.

    ``native`` is `Completion.native`: some models need their reasoning back unchanged. Only the
    dialect that wrote it sends it.
    """

    role: Required[str]
    content: Required[str]
    name: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    native: Mapping[str, Any]


class Purpose(StrEnum):
    """Purpose of a model call, by which cost and tokens are counted."""

    ROLLOUT = "rollout"
    """The agent acts."""
    USER = "user"
    """A simulated user speaks."""
    REFLECT = "reflect"
    """An analyst reads trajectories and proposes edits."""
    MERGE = "merge"
    """Proposals are merged."""
    RANK = "rank"
    """Merged edits are ranked to fit the budget."""
    BUDGET = "lr_autonomous"
    """A step's edit budget is decided."""
    REPAIR = "repair"
    """Edits whose anchor is not in the document get another anchor."""
    REWRITE = "rewrite"
    """A skill document is rewritten as a whole."""
    SLOW_UPDATE = "slow_update"
    """Epoch-end guidance is written."""
    META_SKILL = "meta_skill"
    """The optimizer's notes for later epochs are written."""
    APPENDIX = "appendix_consolidate"
    """Execution notes are consolidated."""
    JUDGE = "judge"
    """An answer is graded."""
    TEACHER = "teacher"
    """Skills are distilled or demonstrations written."""
    EMBED = "embed"
    """Texts are embedded for retrieval."""
    CHECK = "check"
    """`skillwright doctor` checks an endpoint."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Decoding settings; ``None`` means the endpoint's default.

    Attributes:
        temperature: At least 0; models without this setting refuse the call.
        top_p: In (0, 1].
        max_tokens: Maximum tokens of the answer, reasoning included.
        seed: Best effort; not sent to endpoints that do not support seeds.
        logprobs: Request the log-probability of each token and of this number of alternatives.
        json_schema: Request an answer that satisfies this JSON Schema.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    json_schema: Mapping[str, Any] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, cost and time of one or more calls.

    Attributes:
        calls: Answered requests.
        input_tokens: Prompt tokens, including cached ones.
        output_tokens: Completion tokens, including reasoning.
        cached_tokens: Tokens of ``input_tokens`` that were read from the endpoint's cache.
        failed_calls: Unanswered attempts.
        cost_usd: Cost in US dollars; ``None``, not 0, if a price is unknown.
        cache_write_tokens: Tokens of ``input_tokens`` written to the endpoint's cache.
        reasoning_tokens: Reasoning tokens of ``output_tokens``.
        cache_hits: Answers from our own reply cache, which are no calls and cost nothing.
        seconds: Time from sending to the answer, retries included; not compared by ``==``.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    failed_calls: int = 0
    cost_usd: float | None = 0.0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_hits: int = 0
    seconds: float = field(default=0.0, compare=False)

    def __add__(self, other: "Usage") -> "Usage":
        unknown = self.cost_usd is None or other.cost_usd is None
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            failed_calls=self.failed_calls + other.failed_calls,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (other.cost_usd or 0.0),
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cache_hits=self.cache_hits + other.cache_hits,
            seconds=self.seconds + other.seconds,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        # `asdict` takes ten times as long, and this is called for every turn.
        counts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**counts, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it; ``arguments`` is its raw JSON text and may be invalid."""

    id: str
    name: str
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        """Return the call in the format of an assistant message."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token, its natural log-probability, and the likeliest alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer.

    Attributes:
        text: The visible answer; empty when the model only called tools.
        finish_reason: ``stop``, ``length``, ``tool_calls``, ``content_filter`` or ``other``.
        model: The name that the endpoint reports, possibly with a date.
        reasoning: Reasoning text, if the endpoint returns it.
        logprobs: One per token, if requested.
        native: ``{"dialect", "content"}``: the answer in the dialect's own format, for later
            requests that must repeat it unchanged; ``None`` where text and calls suffice.
        marks: ``cut`` if marks of a chat template were cut from the text, ``left`` if it holds some
            that may be part of the answer, else "".
    """

    text: str
    finish_reason: str = "stop"
    model: str = ""
    usage: Usage = field(default_factory=lambda: Usage(calls=1))
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    native: Mapping[str, Any] | None = field(default=None, hash=False)
    marks: str = ""

    def message(self) -> Message:
        """Return the answer as an assistant message of the conversation."""
        said: Message = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            said["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.native is not None:
            said["native"] = self.native
        return said


INTERRUPTED: Final[ContextVar[Callable[[Purpose, Usage], None] | None]] = ContextVar(
    "interrupted", default=None
)
"""Records the usage of calls that are cancelled; `Completion` and errors carry all other usage."""


class ChatModel(Protocol):
    """A model at an endpoint, or a scripted one; its role depends on where it is passed."""

    @property
    def identity(self) -> str:
        """Identify the model for records and reuse: backend, model, relevant settings."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer a conversation.

        Raises:
            ModelError: The endpoint failed after its retries, or refused.
        """


def question(
    identity: str, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
) -> dict[str, Any]:
    """Return everything that can change an answer, as a JSON object for a digest."""
    return {
        "model": identity,
        "messages": [dict(message) for message in messages],
        "tools": list(tools),
        "sampling": asdict(sampling),
    }
