"""Scorers of replies: one frozen settings class per scorer.

A `Grade` has the reason twice: as ``feedback`` for the optimizer, which may know the right answer,
and as ``hint`` for an agent that may try again, which must not know it.
"""

import ast
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
from skillwright.envs.table.final_number import final_number
from skillwright.envs.table.numbers import Read, same_number, whole_number
from skillwright.envs.table.objects import final_object
from skillwright.envs.table.reasons import Reason, text_reason
from skillwright.envs.table.unicode_forms import alike, folded
from skillwright.envs.table.words import for_f1, holds_words, unwrapped
from skillwright.models.repairs import restored_latex

NOT_RIGHT: Final = "That is not right."

_LONGEST_SHOWN: Final = 300
_NUMPY_LIST: Final = re.compile(r"(?<=['\"])\s+(?=['\"])")
_CODE: Final = re.compile(r"[-+]?0\d")
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True)
class Grade:
    """The score of a reply.

    Attributes:
        score: In [0, 1].
        feedback: The reason, for the optimizer.
        hint: The reason without the right answer, for an agent that may try again.
        facts: Further facts for the record.
        reason: The reason without values, so that equal ones can be counted; "" if right.
    """

    score: float
    feedback: str
    hint: str = NOT_RIGHT
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


class _Compared(Frozen):
    """A scorer that compares the answer in a reply with the right one."""

    def grade(self, answer: str, right: Any) -> Grade:
        """Score an answer."""
        score = self.score(answer, right)
        if score == 1.0:
            return Grade(score, "Right.")
        return Grade(score, self._expected(answer, right), reason=self._reason(answer, right))

    def score(self, answer: str, right: Any) -> float:
        """Return a number in [0, 1]."""
        raise NotImplementedError

    def check(self, right: Any) -> None:
        """Refuse a right answer that cannot be compared.

        Raises:
            DataError: The right answer of a row does not fit this scorer.
        """
        as_text(right)

    def gold(self, right: Any) -> str:
        """Return an answer that has the score 1."""
        return as_text(right)

    def _expected(self, answer: str, right: Any) -> str:
        return f'Expected "{_short(self.gold(right))}", and you answered "{_short(answer)}".'

    def _reason(self, answer: str, right: Any) -> str:
        raise NotImplementedError


class _Texts(_Compared):
    """A scorer that compares texts."""

    fold: bool = True
    """Whether variants of a character are equal: width, quotes, dashes, zero-width characters."""

    def _reason(self, answer: str, right: Any) -> str:
        return text_reason(answer, as_text(right), listed(right))


class Exact(_Texts):
    """The same text; case, blanks, quotes around it and a final period are ignored."""

    kind: Literal["exact"] = "exact"

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        return float(_same_text(answer, as_text(right), fold=self.fold))


class OneOf(_Texts):
    """One of several right answers: a list, or a text with ``|`` between them."""

    kind: Literal["one_of"] = "one_of"

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        return float(any(_same_text(answer, one, fold=self.fold) for one in _several(right)))

    def check(self, right: Any) -> None:
        """Refuse an empty list."""
        if not _several(right):
            raise DataError(f"the answer {right!r} lists no right answer")

    def gold(self, right: Any) -> str:
        """Return the first right answer."""
        return _several(right)[0]

    def _reason(self, answer: str, right: Any) -> str:
        reasons = [text_reason(answer, one) for one in _several(right)]
        return min(reasons, key=list(Reason).index)


class Contains(_Texts):
    """The right answer occurs in the reply, as whole words; case and blanks are ignored."""

    kind: Literal["contains"] = "contains"

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        text, wanted = alike(answer, as_text(right), fold=self.fold)
        return float(holds_words(text, unwrapped(wanted)))


class Number(_Compared):
    """The number that a reply answers with equals the right one, up to the tolerance."""

    kind: Literal["number"] = "number"
    tolerance: float | str = 0.0
    """Maximum difference: ``0.01``, or ``"1%"`` of the right number."""

    @model_validator(mode="after")
    def _check_tolerance(self) -> "Number":
        self._allowed(1.0)
        return self

    def grade(self, answer: str, right: Any, *, comma: bool = False) -> Grade:
        """Score an answer; ``comma`` reads ``1,234`` with a decimal comma."""
        given, wanted = final_number(answer, comma=comma), self._wanted(right, comma)
        if given is not None and self._is_right(given, wanted):
            return Grade(1.0, "Right.")
        reason = Reason.NO_NUMBER if given is None else Reason.OTHER_NUMBER
        return Grade(0.0, self._expected(answer, right), reason=reason)

    def score(self, answer: str, right: Any) -> float:
        """Return 1 or 0."""
        return self.grade(answer, right).score

    def check(self, right: Any) -> None:
        """Refuse an answer that is no number."""
        self._wanted(right)

    def _is_right(self, given: Read, wanted: Read) -> bool:
        one, other = float_of(given), float_of(wanted)
        # Slightly more than the tolerance, because of floating-point rounding.
        if same_number(one, other) or abs(one - other) <= self._allowed(other) * (1 + 1e-9):
            return True
        if given.is_share == wanted.is_share:
            return False
        # 20% is 0.2 too.
        return same_number(100 * other, one) if given.is_share else same_number(100 * one, other)

    def _wanted(self, right: Any, comma: bool = False) -> Read:
        number = whole_number(right, comma=comma)
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


class Json(_Texts):
    """The reply ends with a JSON object, and the score is the share of its fields that are right.

    Texts compare as in `Exact`. A number matches a number or a text of the same value, but not a
    code such as ``"01234"``; ``true`` matches ``"true"``, and ``null`` an empty text.
    """

    kind: Literal["json"] = "json"

    def grade(self, answer: str, right: Any) -> Grade:
        """Compare field by field; additional fields are ignored."""
        wanted = _object(right)
        names = {name: folded(name) if self.fold else name for name in wanted}
        given, breaks_off = final_object(answer, names.values())
        if given is None:
            fields = ", ".join(wanted)
            said = f"Answer with one JSON object with the fields {fields}."
            expected = f"{said} Expected {_short(dumps(wanted))}"
            cause = Reason.CUT_OBJECT if breaks_off else Reason.NO_OBJECT
            return Grade(0.0, expected, said, reason=cause)
        found = {name: given.get(names[name], _NOTHING) for name in wanted}
        wrong = [name for name, value in wanted.items() if not self._same(found[name], value)]
        if not wrong:
            return Grade(1.0, "Right.")
        wrong_fields = [
            f"{name}: expected {_short(dumps(wanted[name]))}, and you answered "
            + ("nothing" if found[name] is _NOTHING else _short(_shown(found[name])))
            for name in wrong
        ]
        hint = f"These fields are not right: {', '.join(wrong)}."
        missing = [name for name in wrong if found[name] is _NOTHING]
        reason = (
            f"the final object has no field {', '.join(missing)}"
            if missing
            else f"another value in {', '.join(wrong)}"
        )
        return Grade(1 - len(wrong) / len(wanted), "; ".join(wrong_fields), hint, reason=reason)

    def check(self, right: Any) -> None:
        """Refuse anything but an object with fields."""
        _object(right)

    def gold(self, right: Any) -> str:
        """Return the object."""
        return dumps(_object(right))

    def _same(self, given: Any, wanted: Any) -> bool:
        if given is _NOTHING:
            return False
        if isinstance(given, Mapping | list) and isinstance(wanted, str):
            try:  # a cell of a table that holds JSON
                wanted = json.loads(wanted)
            except ValueError:
                return False
        if isinstance(wanted, Mapping) and isinstance(given, Mapping):
            return wanted.keys() == given.keys() and all(
                self._same(given[name], value) for name, value in wanted.items()
            )
        if isinstance(wanted, list) and isinstance(given, list):
            return len(wanted) == len(given) and all(map(self._same, given, wanted))
        if isinstance(wanted, Mapping | list) or isinstance(given, Mapping | list):
            return False
        if not (isinstance(given, str) and isinstance(wanted, str)):
            numbers = as_number(given), as_number(wanted)
            if numbers[0] is not None and numbers[1] is not None:
                return same_number(numbers[0], numbers[1])
        said, right = _worded(given), _worded(wanted)
        return any(_same_text(text, right, fold=self.fold) for text in {said, restored_latex(said)})


class F1(_Texts):
    """The F1 score of the reply's words against the answer's, as in SQuAD.

    In scripts without blanks between words, every character counts as a word, as in MLQA.
    """

    kind: Literal["f1"] = "f1"

    def score(self, answer: str, right: Any) -> float:
        """Return a number in [0, 1]."""
        if not self.fold:
            return token_f1(answer, [as_text(right)])
        given, wanted = map(for_f1, alike(answer, as_text(right)))
        return token_f1(given, [wanted])


class Regex(Frozen):
    """The answer is a regular expression, and the reply matches it somewhere."""

    kind: Literal["regex"] = "regex"
    time_limit_s: PositiveFloat = 5.0
    """Seconds after which matching is stopped; the episode fails without a score."""

    def check(self, right: Any) -> None:
        """Refuse an invalid regular expression."""
        try:
            re.compile(as_text(right))
        except re.error as error:
            raise DataError(f"the answer {right!r} is no regular expression: {error}") from error


class Function(Frozen):
    """The user's function: ``score(row, reply)`` returns a number in [0, 1], or it and feedback."""

    kind: Literal["function"] = "function"
    function: Annotated[str, Field(min_length=1)]
    """``file.py:name``, or ``package.module:name``."""
    time_limit_s: PositiveFloat = 30.0
    """Seconds after which it is stopped; the episode fails without a score."""

    @model_validator(mode="after")
    def _check_name(self) -> "Function":
        file, colon, name = self.function.rpartition(":")
        if not (file and colon and name.isidentifier()):
            raise ValueError(f"function is {self.function!r}; write file.py:name")
        return self


class Judge(Frozen):
    """A model that scores by a rubric; its calls and costs are counted apart from the agent's."""

    kind: Literal["judge"] = "judge"
    rubric: Annotated[str, Field(min_length=1)]
    """Criteria of a good reply, and the scores for meeting them."""
    model: dict[str, Any]
    """As in a run's ``models`` section: ``{backend: openai_chat, model: gpt-5-mini}``."""
    votes: PositiveInt = 1
    """Number of votes per reply; the score is their median."""


class Assertions(Frozen):
    """The share of a case's assertions that hold, of a skill's ``evals.json``.

    Those with a rule are checked by it, the others by a model; without a model they are left out.
    """

    kind: Literal["assertions"] = "assertions"
    model: dict[str, Any] | None = None
    """As in a run's ``models`` section; unset, only assertions with a rule are checked."""
    votes: PositiveInt = 1
    """Number of votes per reply; an assertion holds if most of them say so."""


def _in_full(value: Any) -> Any:
    """Expand the short forms: a scorer's name, or a function's ``file.py:name``."""
    if not isinstance(value, str):
        return value
    return {"kind": "function", "function": value} if ":" in value else {"kind": value}


Compared = Exact | OneOf | Contains | Number | Json | F1
Scorer = Annotated[
    Compared | Regex | Function | Judge | Assertions,
    Field(discriminator="kind"),
    BeforeValidator(_in_full),
]


def read_verdict(verdict: Mapping[str, Any]) -> Grade:
    """Convert a judge's verdict to a grade, with the votes as facts."""
    said = str(verdict["feedback"])
    hint = str(verdict.get("hint", said))
    return Grade(float(verdict["score"]), said, hint, {"verdict": dict(verdict)})


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
    """Read a number, as people write it: ``1,234.5``, ``3,5``, ``1/2``.

    ``None`` where it is none, or a code such as ``01234``.
    """
    is_code = isinstance(value, str) and _CODE.match(value.strip())
    found = None if is_code else whole_number(value)
    return None if found is None else found.value


def float_of(found: Read) -> float:
    """Return the value of a parsed number."""
    return math.nan if found.value is None else found.value


def listed(right: Any) -> list[str]:
    """Return the texts of a list, which may be JSON or Python text in a cell."""
    found = right
    if isinstance(right, str):
        text = right.strip()
        if not (text.startswith("[") and text.endswith("]")):
            return []
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            try:
                found = ast.literal_eval(_NUMPY_LIST.sub(", ", text))
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                return []
    if isinstance(found, str | Mapping) or not isinstance(found, Sequence):
        return []
    if any(isinstance(one, Sequence | Mapping) and not isinstance(one, str) for one in found):
        return []
    return [as_text(one) for one in found if one is not None and as_text(one).strip()]


def _same_text(answer: str, right: str, *, fold: bool) -> bool:
    given, wanted = alike(answer, right, fold=fold)
    return given == wanted or unwrapped(given) == unwrapped(wanted)


def _several(right: Any) -> list[str]:
    if found := listed(right):
        return found
    if isinstance(right, Sequence) and not isinstance(right, str):
        return [as_text(one) for one in right if as_text(one).strip()]
    return [part.strip() for part in as_text(right).split("|") if part.strip()]


def _object(right: Any) -> Mapping[str, Any]:
    found = right
    if isinstance(right, str):
        try:
            found = json.loads(right)
        except (ValueError, RecursionError):
            found = None
    if not isinstance(found, Mapping) or not found:
        raise DataError(
            f"the answer {right!r} is no JSON object, which scorer 'json' compares. Where the "
            "fields are columns, list them: answer: [amount, date]"
        )
    return found


def _worded(value: Any) -> str:
    return "" if value is None else as_text(value)


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join(text.encode(errors="replace").decode().split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}..."
