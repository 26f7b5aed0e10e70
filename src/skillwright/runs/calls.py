"""Calls of models outside episodes: answered once, found again by their key."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillwright.core import Completion, Message, Purpose, ToolCall, Usage
from skillwright.runs.archive import RunTable
from skillwright.runs.columns import read_digest, storable, to_json
from skillwright.runs.ledger import COLUMNS, read_usage, spend


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A question to a model, with its answer or the error in its place.

    Attributes:
        key: Digest of all that can change the answer; equal keys are the same question.
        completion: The answer, or ``None`` with an error.
        error: Why there is no answer, or ``None`` with one.
        usage: What a call without an answer consumed; an answer knows its own.
        wall_s: Seconds from the question to the answer, retries and waiting included.
    """

    key: str
    purpose: Purpose
    identity: str
    messages: Sequence[Message]
    completion: Completion | None = None
    error: str | None = None
    usage: Usage = field(default_factory=lambda: Usage(failed_calls=1))
    step: int | None = None
    wall_s: float = 0.0

    def __post_init__(self) -> None:
        if (self.completion is None) == (self.error is None):
            raise ValueError(f"call {self.key!r}: set exactly one of completion and error")


@dataclass(frozen=True, slots=True)
class CallSummary:
    """A stored call without its texts, for reports.

    Attributes:
        asked_first: The digest of the question that it goes on with, where an unusable answer was
            asked for again; else ``prompt_digest``.
        wall_s: Seconds from the question to the answer; 0 where that is not known.
        ended_at: Seconds since 1970, UTC.
    """

    purpose: Purpose
    step: int | None
    prompt_digest: str
    asked_first: str
    wall_s: float
    ended_at: float


class CallTable(RunTable):
    """The calls of a run."""

    def record_call(self, call: CallRecord) -> None:
        """Record a call; a second answer to the same question is not kept, what it cost is."""
        with self._database.transaction():
            row_id = None
            if call.completion is None or self.find_call(call.key) is None:
                row_id = self._insert_call(call)
            usage = call.usage if call.completion is None else call.completion.usage
            spend(self._database, {call.purpose.value: usage}, call=row_id)

    def find_call(self, key: str) -> Completion | None:
        """Return the answer under a key, equal to what was recorded, or ``None``."""
        row = self._database.row(
            f"""SELECT c.*, {COLUMNS}
                FROM calls c JOIN usage u ON u.call = c.id
                WHERE c.key = ? AND c.error IS NULL""",
            (key,),
        )
        if row is None:
            return None
        texts = self._archive.texts((row["output"], row["reasoning"]))
        return Completion(
            text=texts[row["output"]],
            finish_reason=row["finish_reason"],
            model=row["model"],
            usage=read_usage(row),
            tool_calls=tuple(ToolCall(*call) for call in json.loads(row["tool_calls"])),
            reasoning=texts[row["reasoning"]],
        )

    def prompt(self, digest: str) -> tuple[Message, ...]:
        """Return the prompt of a call by the digest of its messages.

        Raises:
            RunError: There is none.
        """
        return self._archive.prompt(digest)

    def calls(self) -> list[CallSummary]:
        """Summarize the optimizer's calls, failed ones included, in order of recording."""
        rows = self._database.rows(
            """SELECT c.purpose, c.step, c.wall_s, c.ended_at, p.digest, p.messages
                FROM calls c JOIN prompts p ON p.id = c.prompt ORDER BY c.id"""
        )
        known = {row["messages"]: read_digest(row["digest"]) for row in rows}
        return [
            CallSummary(
                purpose=Purpose(row["purpose"]),
                step=row["step"],
                prompt_digest=read_digest(row["digest"]),
                asked_first=known.get(_opening(row["messages"]), read_digest(row["digest"])),
                wall_s=row["wall_s"],
                ended_at=row["ended_at"],
            )
            for row in rows
        ]

    def _insert_call(self, call: CallRecord) -> int:
        answer = call.completion
        said = () if answer is None else (answer.text, answer.reasoning)
        texts = self._archive.put_texts(said)
        values = {
            "key": call.key,
            "purpose": call.purpose.value,
            "step": call.step,
            "identity": call.identity,
            "prompt": self._archive.put_prompt(call.messages),
            "ended_at": self._clock(),
            "wall_s": call.wall_s,
            **self._answer(answer, texts),
            "error": call.error and self._archive.redactor.clean(storable(call.error)),
        }
        return self._database.insert("calls", values)

    def _answer(self, completion: Completion | None, texts: Mapping[str, int]) -> dict[str, Any]:
        if completion is None:
            return {"tool_calls": "[]", "finish_reason": "", "model": ""}
        calls = [(call.id, call.name, call.arguments) for call in completion.tool_calls]
        return {
            "output": texts[completion.text],
            "reasoning": texts[completion.reasoning],
            "tool_calls": self._archive.redactor.exact(to_json(calls)),
            "finish_reason": completion.finish_reason,
            "model": self._archive.redactor.exact(completion.model),
        }


def _opening(messages: str) -> str:
    """Return the column of a prompt that only holds this one's instruction and first question."""
    return to_json(json.loads(messages)[:2])
