"""Model calls outside episodes, stored once and found by their key; and the ledger of usage."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from skillwright.core import Completion, Message, Purpose, ToolCall, Usage
from skillwright.runs.archive import RunTable, read_digest, storable, to_json
from skillwright.runs.database import Database

_FIELDS = tuple(one.name for one in fields(Usage))
_COUNTS = tuple(name for name in _FIELDS if name != "cost_usd")
_NOTHING = Usage().to_dict()

COLUMNS = ", ".join(f"u.{name}" for name in _FIELDS)
"""All that `read_usage` reads, of a table ``usage`` called ``u``."""

# A sum with an unknown price in it is unknown: SUM would pass over the NULL.
SUMS = (
    ", ".join(f"sum(u.{name}) AS {name}" for name in _COUNTS)
    + ", CASE WHEN count(u.cost_usd) = count(u.id) THEN sum(u.cost_usd) END AS cost_usd"
)


def spend(
    database: Database,
    usage: Mapping[str, Usage],
    *,
    episode: int | None = None,
    call: int | None = None,
) -> None:
    """Record the usage of an episode or a call, by purpose."""
    database.write_many(
        f"INSERT INTO usage (purpose, episode, call, {', '.join(_FIELDS)})"
        f" VALUES (?, ?, ?{', ?' * len(_FIELDS)})",
        [
            (purpose, episode, call, *(getattr(spent, name) for name in _FIELDS))
            for purpose, spent in usage.items()
        ],
    )


@dataclass(frozen=True, slots=True)
class Bill:
    """Usage and its known cost.

    Attributes:
        tokens: Tokens of prompts and answers, as far as known.
        unknown_calls: Calls without a known cost, or recorded with such a call.
        dearest_usd: Highest mean cost per call of an entry; ``None`` if none is known.
    """

    tokens: int = 0
    known_usd: float = 0.0
    unknown_calls: int = 0
    dearest_usd: float | None = None
    latest: int = 0

    def __add__(self, later: "Bill") -> "Bill":
        dearest = [one.dearest_usd for one in (self, later) if one.dearest_usd is not None]
        return Bill(
            tokens=self.tokens + later.tokens,
            known_usd=self.known_usd + later.known_usd,
            unknown_calls=self.unknown_calls + later.unknown_calls,
            dearest_usd=max(dearest, default=None),
            latest=later.latest,
        )

    @property
    def usd(self) -> float | None:
        """Cost, with unknown calls at the highest known price; ``None`` if none is known."""
        if self.unknown_calls and self.dearest_usd is None:
            return None
        return self.known_usd + self.unknown_calls * (self.dearest_usd or 0.0)


def read_usage(row: Any) -> Usage:
    """Read a usage from a row with its columns; a row without any entry used nothing."""
    return Usage(**{name: row[name] for name in _FIELDS}) if row["calls"] is not None else Usage()


def brief(usage: Usage) -> dict[str, Any]:
    """Return the fields that are not at their default, for a turn's JSON column."""
    spent = usage.to_dict()
    return {name: value for name, value in spent.items() if value != _NOTHING[name]}


class UsageTable(RunTable):
    """Usage of a run."""

    def record_usage(self, usage: Mapping[str, Usage]) -> None:
        """Record usage without a stored episode or call, by purpose."""
        with self._database.transaction():
            spend(self._database, {name: one for name, one in usage.items() if one != Usage()})

    def usage_by_purpose(self) -> dict[str, Usage]:
        """Return the usage per purpose over all resumes, failures included."""
        query = f"SELECT u.purpose, {SUMS} FROM usage u GROUP BY u.purpose ORDER BY u.purpose"
        return {row["purpose"]: read_usage(row) for row in self._database.rows(query)}

    def usage_of_steps(self, last: int) -> tuple[Usage, Usage, int]:
        """Return what steps 1 to ``last`` used, of stored answers and scored episodes only.

        These are equal after a resume: the usage of calls outside episodes, that of train episodes
        and the number of these.
        """
        (asked,) = self._database.rows(
            f"SELECT {SUMS} FROM usage u JOIN calls c ON c.id = u.call"
            " WHERE c.error IS NULL AND c.step BETWEEN 1 AND ?",
            (last,),
        )
        (played,) = self._database.rows(
            f"SELECT count(DISTINCT e.id) AS episodes, {SUMS} FROM usage u"
            " JOIN episodes e ON e.id = u.episode WHERE u.calls > 0 AND e.reward IS NOT NULL"
            " AND e.phase = 'train' AND e.step BETWEEN 1 AND ?",
            (last,),
        )
        return read_usage(asked), read_usage(played), int(played["episodes"])

    def usage_since(self, entry: int = 0) -> tuple[Usage, int]:
        """Return what was consumed after an entry of the ledger, and the latest entry's number."""
        (row,) = self._database.rows(
            f"SELECT max(u.id) AS latest, {SUMS} FROM usage u WHERE u.id > ?", (entry,)
        )
        return read_usage(row), entry if row["latest"] is None else row["latest"]

    def bill(self, after: int = 0) -> Bill:
        """Return what was consumed after an entry of the ledger, with what is unknown of it."""
        (row,) = self._database.rows(
            "SELECT coalesce(sum(u.input_tokens + u.output_tokens), 0),"
            " coalesce(sum(u.cost_usd), 0.0),"
            " coalesce(sum(CASE WHEN u.cost_usd IS NULL THEN max(u.calls, 1) END), 0),"
            " max(CASE WHEN u.calls > 0 AND u.cost_usd > 0 THEN u.cost_usd / u.calls END),"
            " coalesce(max(u.id), ?) FROM usage u WHERE u.id > ?",
            (after, after),
        )
        return Bill(*row)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A question to a model, with its answer or the error in its place.

    Attributes:
        key: Digest of all that can change the answer.
        completion: The answer, or ``None`` with an error.
        error: Why there is no answer, or ``None`` with one.
        usage: Usage of a call without an answer.
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
        wall_s: Seconds from the question to the answer; 0 where that is not known.
        ended_at: Seconds since 1970, UTC.
        model: The model that answered, as the endpoint names it; "" where there was no answer.
        finish_reason: Finish reason of the answer, or "".
        error: Why there is no answer, or ``None``.
        usage: Usage, also of a failed call.
    """

    purpose: Purpose
    step: int | None
    prompt_digest: str
    wall_s: float
    ended_at: float
    identity: str = ""
    model: str = ""
    finish_reason: str = ""
    error: str | None = None
    usage: Usage = field(default_factory=Usage)


class CallTable(RunTable):
    """The calls of a run."""

    def record_call(self, call: CallRecord) -> None:
        """Record a call; of a second answer to the same question only the cost."""
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

    def forget_calls(self, keys: Iterable[str]) -> None:
        """Keep answers as a record only: `find_call` does not find them any more."""
        with self._database.transaction(durable=True):
            for key in keys:
                self._database.write(
                    "UPDATE calls SET key = key || ':' || id WHERE key = ? AND error IS NULL",
                    (key,),
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
            f"""SELECT c.purpose, c.step, c.wall_s, c.ended_at, c.identity, c.model,
                    c.finish_reason, c.error, p.digest, {SUMS}
                FROM calls c JOIN prompts p ON p.id = c.prompt LEFT JOIN usage u ON u.call = c.id
                GROUP BY c.id ORDER BY c.id"""
        )
        return [
            CallSummary(
                purpose=Purpose(row["purpose"]),
                step=row["step"],
                prompt_digest=read_digest(row["digest"]),
                wall_s=row["wall_s"],
                ended_at=row["ended_at"],
                identity=row["identity"],
                model=row["model"],
                finish_reason=row["finish_reason"],
                error=row["error"],
                usage=read_usage(row),
            )
            for row in rows
        ]

    def answers(self) -> Iterator[str | None]:
        """Return what each of `calls` was answered, in the same order; ``None`` for a failure."""
        for (number,) in self._database.rows("SELECT output FROM calls ORDER BY id"):
            yield None if number is None else self._archive.texts((number,))[number]

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
