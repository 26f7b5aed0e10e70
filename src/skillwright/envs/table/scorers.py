"""How a reply is scored: one small frozen class per scorer, each its own settings.

A `Grade` says why: ``feedback`` to the optimizer, which may know the right answer,
and ``hint`` to an agent that may try again, who may not.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt, model_validator

from skillwright.core import DataError
from skillwright.core.jsonio import dumps
from skillwright.core.settings import Frozen
from skillwright.envs.answers import token_f1
from skillwright.models.structured import extract_json

NOT_RIGHT: Final = "That is not right."

_LONGEST_SHOWN: Final = 300
_NUMBER: Final = re.compile(r"(?:(?<!\w)[-+\u2212])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_THOUSANDS: Final = re.compile(r"\d{1,3}(,\d{3})+(?!\d)")
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Grade:
    """The score of a reply.

    Attributes:
        score: In [0, 1].
        feedback: The reason, for the optimizer.
        hint: What an agent that may try again is shown.
        facts: More of it, for the record.
    """

    score: float
    feedback: str
    hint: str = NOT_RIGHT
    facts: Mapping[str, Any] = field(default_factory=dict)


class _Compared(Frozen):
    """A scorer that compares the answer in a reply with the right one."""

    def grade(self, answer: str, right: Any) -> Grade:
        """Score an answer."""
        score = self.score(answer, right)
        return Grade(score, "Right." if score == 1.0 else self._expected(answer, right))

    def score(self, answer: str, right: Any) -> float:
        """Return a number in [0, 1]."""
        raise NotImplementedError

    def check(self, right: Any) -> None:
        """Refuse what cannot be compared with.

        Raises:
            DataError: The right answer of a row does not fit this scorer.
        """
        as_text(right)

    def gold(self, right: Any) -> str:
        """Return an answer that has the score 1."""
        return as_text(right)

    def _expected(self, answer: str, right: Any) -> str:
        return f'Expected "{_short(self.gold(right))}", and you answered "{_short(answer)}".'


class Exact(_Compared):
    """The same text; case, blanks, quotes around it and a final full stop do not count."""

    kind: Literal["exact"] = "exact"

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        return float(plain(answer) == plain(as_text(right)))


class OneOf(_Compared):
    """One of several right answers: a list, or a text that has ``|`` between them."""

    kind: Literal["one_of"] = "one_of"

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        return float(plain(answer) in map(plain, _several(right)))

    def check(self, right: Any) -> None:
        """Refuse an empty list."""
        if not _several(right):
            raise DataError(f"the answer {right!r} lists no right answer")

    def gold(self, right: Any) -> str:
        """Return the first."""
        return _several(right)[0]


class Contains(_Compared):
    """The answer is in the reply, as whole words; case and blanks do not count."""

    kind: Literal["contains"] = "contains"

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        wanted = re.escape(plain(as_text(right)))
        return float(re.search(rf"(?<!\w){wanted}(?!\w)", _simple(answer)) is not None)


class Number(_Compared):
    """The last number in the reply is the answer, give or take the tolerance."""

    kind: Literal["number"] = "number"
    tolerance: float | str = 0.0
    """How far off it may be: ``0.01``, or ``"1%"`` of the right number."""

    @model_validator(mode="after")
    def _is_a_tolerance(self) -> "Number":
        self._allowed(1.0)
        return self

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        numbers = _NUMBER.findall(answer)
        given = as_number(numbers[-1]) if numbers else None
        wanted = self._wanted(right)
        if given is None:
            return 0.0
        # A hair more, as 0.1 + 0.2 is not 0.3.
        return float(abs(given - wanted) <= self._allowed(wanted) + 1e-9 * max(1, abs(wanted)))

    def check(self, right: Any) -> None:
        """Refuse an answer that is no number."""
        self._wanted(right)

    def _wanted(self, right: Any) -> float:
        number = as_number(right)
        if number is None:
            raise DataError(f"the answer {right!r} is no number, which scorer 'number' compares")
        return number

    def _allowed(self, wanted: float) -> float:
        text = str(self.tolerance).strip()
        share = text.endswith("%")
        try:
            amount = float(text.removesuffix("%"))
        except ValueError:
            amount = -1.0
        if not (math.isfinite(amount) and amount >= 0):
            raise ValueError(f"tolerance is {self.tolerance!r}; write 0.01, or '1%'")
        return abs(wanted) * amount / 100 if share else amount


class Json(_Compared):
    """The reply is a JSON object, and the score is the share of its fields that are right."""

    kind: Literal["json"] = "json"

    def grade(self, answer: str, right: Any) -> Grade:
        """Compare field by field; fields that were not asked for do not count."""
        wanted, given = _object(right), extract_json(answer)
        if given is None:
            fields = ", ".join(wanted)
            said = f"Answer with one JSON object with the fields {fields}."
            return Grade(0.0, f"{said} Expected {_short(dumps(wanted))}", said)
        wrong = {
            name: value
            for name, value in wanted.items()
            if not _same(given.get(name, _NOTHING), value)
        }
        if not wrong:
            return Grade(1.0, "Right.")
        wrong_fields = [
            f"{name}: expected {_short(dumps(value))}, and you answered "
            + (_short(dumps(given[name])) if name in given else "nothing")
            for name, value in wrong.items()
        ]
        hint = f"These fields are not right: {', '.join(wrong)}."
        return Grade(1 - len(wrong) / len(wanted), "; ".join(wrong_fields), hint)

    def check(self, right: Any) -> None:
        """Refuse what is no object with fields."""
        _object(right)

    def gold(self, right: Any) -> str:
        """Return the object."""
        return dumps(_object(right))


class F1(_Compared):
    """The overlap of words with the answer, as SQuAD counts it."""

    kind: Literal["f1"] = "f1"

    def score(self, answer: str, right: Any) -> float:
        """Return a number in [0, 1]."""
        return token_f1(answer, [as_text(right)])


class Regex(Frozen):
    """The answer is a regular expression, and the reply matches it somewhere."""

    kind: Literal["regex"] = "regex"
    time_limit_s: PositiveFloat = 5.0
    """Seconds after which matching is a recorded failure, and no score."""

    def check(self, right: Any) -> None:
        """Refuse what is no regular expression."""
        try:
            re.compile(as_text(right))
        except re.error as error:
            raise DataError(f"the answer {right!r} is no regular expression: {error}") from error


class Function(Frozen):
    """A function of your own: ``score(row, reply)`` returns a number in [0, 1], or it and why."""

    kind: Literal["function"] = "function"
    function: Annotated[str, Field(min_length=1)]
    """``file.py:name``, or ``package.module:name``."""
    time_limit_s: PositiveFloat = 30.0
    """Seconds after which it is stopped: a recorded failure, and no score."""

    @model_validator(mode="after")
    def _names_a_function(self) -> "Function":
        file, colon, name = self.function.rpartition(":")
        if not (file and colon and name.isidentifier()):
            raise ValueError(f"function is {self.function!r}; write file.py:name")
        return self


class Judge(Frozen):
    """A model that scores by a rubric; its calls and costs are counted apart from the agent's."""

    kind: Literal["judge"] = "judge"
    rubric: Annotated[str, Field(min_length=1)]
    """What a good reply is, and what score it earns."""
    model: dict[str, Any]
    """As in a run's ``models`` section: ``{backend: openai_chat, model: gpt-5-mini}``."""
    votes: PositiveInt = 1
    """How often it is asked; the score is the median."""


def _in_full(value: Any) -> Any:
    """Let a scorer without settings be a word, and a function its name."""
    if not isinstance(value, str):
        return value
    return {"kind": "function", "function": value} if ":" in value else {"kind": value}


Compared = Exact | OneOf | Contains | Number | Json | F1
Scorer = Annotated[
    Compared | Regex | Function | Judge,
    Field(discriminator="kind"),
    BeforeValidator(_in_full),
]


def read_verdict(verdict: Mapping[str, Any]) -> Grade:
    """Return the grade that a judge's verdict is; the votes are kept with it."""
    said = str(verdict["feedback"])
    return Grade(float(verdict["score"]), said, said, {"verdict": dict(verdict)})


def as_text(value: Any) -> str:
    """Return a right answer as text.

    Raises:
        DataError: It is a list or an object.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise DataError(
        f"the answer {value!r} is no text; for a list take scorer 'one_of', for an object 'json'"
    )


def as_number(value: Any) -> float | None:
    """Read a number, as people write it: ``1,234.5``, or ``3,5``; ``None`` where it is none."""
    if isinstance(value, bool):
        return None
    text = str(value).strip().strip("$\u20ac\u00a3% ").replace("\u2212", "-")
    bare = text.lstrip("+-")
    if _THOUSANDS.match(bare):
        text = text.replace(",", "")
    elif text.count(",") == 1 and "." not in text:
        text = text.replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def plain(text: str) -> str:
    """Return a text as `Exact` compares it."""
    simple = _simple(text)
    # Of a text that is nothing else they are all there is.
    return simple.strip("\"'`\u201c\u201d").removesuffix(".").strip() or simple


def _simple(text: str) -> str:
    return " ".join(text.casefold().split())


def _several(right: Any) -> list[str]:
    if isinstance(right, Sequence) and not isinstance(right, str):
        return [as_text(one) for one in right if as_text(one).strip()]
    return [part.strip() for part in as_text(right).split("|") if part.strip()]


def _object(right: Any) -> Mapping[str, Any]:
    found = right
    if isinstance(right, str):
        try:
            found = json.loads(right)
        except ValueError:
            found = None
    if not isinstance(found, Mapping) or not found:
        raise DataError(
            f"the answer {right!r} is no JSON object, which scorer 'json' compares. Where the "
            "fields are columns, list them: answer: [amount, date]"
        )
    return found


def _same(given: Any, wanted: Any) -> bool:
    if given is _NOTHING:
        return False
    if isinstance(wanted, Mapping | list) or isinstance(given, Mapping | list):
        return bool(given == wanted)
    numbers = as_number(given), as_number(wanted)
    if None not in numbers:
        return math.isclose(*numbers, rel_tol=1e-9, abs_tol=1e-9)  # type: ignore[arg-type]  # none is None
    return plain(_worded(given)) == plain(_worded(wanted))


def _worded(value: Any) -> str:
    return "" if value is None else as_text(value)


def _short(text: str) -> str:
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}..."
