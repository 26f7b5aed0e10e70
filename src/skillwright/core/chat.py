"""What is said to a model, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Required, TypedDict


class Message(TypedDict, total=False):
    """One chat message, in the shape that every OpenAI-compatible endpoint takes.

    ``native`` is what `Completion.native` held: a model that thinks wants its own words back as it
    wrote them. The dialect that wrote it sends it; every other leaves it out.
    """

    role: Required[str]
    content: Required[str]
    name: str
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    native: Mapping[str, Any]


class Purpose(StrEnum):
    """What a model call is for; money and tokens are counted by it."""

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
    """Edits whose anchor is not in the document get another."""
    REWRITE = "rewrite"
    """A skill document is rewritten as a whole."""
    SLOW_UPDATE = "slow_update"
    """Epoch-end guidance is written."""
    META_SKILL = "meta_skill"
    """The optimizer's own memory is written."""
    APPENDIX = "appendix_consolidate"
    """Execution notes are made fewer."""
    JUDGE = "judge"
    """An answer is graded."""
    TEACHER = "teacher"
    """Skills are distilled or demonstrations written."""
    EMBED = "embed"
    """Texts are embedded, so that skills can be found by meaning."""
    CHECK = "check"
    """`skillwright doctor` asks whether an endpoint answers."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to decode. ``None`` leaves a setting to the endpoint.

    Attributes:
        temperature: At least 0; some models take none, and then refuse the call.
        top_p: In (0, 1].
        max_tokens: Bound on the answer with its reasoning.
        seed: Best effort: it is not sent to an endpoint without seeds.
        logprobs: Ask for the log-probability of each token and of this number of alternatives.
        json_schema: Ask the endpoint to hold the answer to this JSON Schema.
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
    """What one or more calls consumed.

    Attributes:
        calls: Requests that were answered.
        input_tokens: Prompt tokens, cached ones included.
        output_tokens: Completion tokens, reasoning included.
        cached_tokens: The part of ``input_tokens`` that the endpoint had cached.
        failed_calls: Attempts that an endpoint did not answer.
        cost_usd: Money, or ``None`` where a price is unknown. Unknown is never 0.
        cache_write_tokens: The part of ``input_tokens`` that the endpoint put into its cache.
        reasoning_tokens: The part of ``output_tokens`` that was reasoning.
        cache_hits: Answers out of our own reply cache; they are no calls and cost nothing.
        seconds: Time from being sent to being answered, retries included; it says nothing about
            the answer, so usages that differ in it only are equal.
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
        # Not `asdict`, which takes ten times as long: this is called for every turn.
        counts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**counts, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it; ``arguments`` is its raw JSON text and may be invalid."""

    id: str
    name: str
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        """Return the call as an assistant message carries it."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of an answer and its natural log-probability, with the likeliest alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer.

    Attributes:
        text: The visible answer; empty when the model only called tools.
        finish_reason: ``stop``, ``length``, ``tool_calls``, ``content_filter`` or ``other``.
        model: The name that the endpoint reports, which may be a dated one.
        reasoning: Reasoning text where the endpoint shows it.
        logprobs: One per token, where they were asked for.
        native: ``{"dialect", "content"}``: the answer as its dialect wrote it, where a later
            request has to carry it unchanged; ``None`` where the text and the calls are all of it.
        marks: ``cut`` where marks of a chat template were cut from the text, ``left`` where marks
            are in it that may be part of the answer, else "".
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
        """Return the answer as a message of the conversation that continues after it."""
        said: Message = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            said["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.native is not None:
            said["native"] = self.native
        return said


class ChatModel(Protocol):
    """A model behind an endpoint, or a scripted one. Its role is where it is used."""

    @property
    def identity(self) -> str:
        """Name what answers, for records and reuse: backend, model, and settings that matter."""

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
    identity: str,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]],
    sampling: Sampling,
) -> dict[str, Any]:
    """Return all that can change an answer, as a JSON object: its digest names the question."""
    return {
        "model": identity,
        "messages": [dict(message) for message in messages],
        "tools": list(tools),
        "sampling": asdict(sampling),
    }
