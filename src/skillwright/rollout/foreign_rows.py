"""Read the rows of an adapter's `rollout`: a score or a Failure per episode.

An invalid row costs only that row; nothing is guessed, and every problem is noted.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from skillwright.core import (
    ContractError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    RolloutResult,
    StopReason,
    Task,
)

Row = dict[str, Any]
Item = Mapping[str, Any]

_SLACK = 1e-9  # rounding error of a mean of ones
_DEEPEST = 100  # levels of a value
_MOST_PARTS = 1_000_000
_MOST_BITS = 4_096  # of an integer; Python reads no decimal number of more than 4,300 digits
_LONGEST = 10_000  # characters of an object in words
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from process to process
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class RowsAbout:
    """The batch that rows belong to.

    Attributes:
        env: The adapter's name.
        split: ``train``, ``val`` or ``test``.
        skill_version: Hash of the skill text.
        key: Makes an episode's content address from its row's id.
        ids: The requested ids, in order; ``None`` if only the adapter knows them.
        draw: Number of the attempt, from 0.
        step: The training step, or ``None``.
    """

    env: str
    split: str
    phase: str
    seed: int
    skill_version: str
    key: Callable[[str], str]
    ids: tuple[str, ...] | None = None
    items: Mapping[str, Item] | None = None
    draw: int = 0
    step: int | None = None


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The episodes read from a batch.

    Attributes:
        results: One per episode, in the order of the requested ids, or else of the rows.
        rows: The scored rows, by id.
        notes: Ignored and missing rows, for the log and the store.
    """

    results: tuple[EpisodeResult, ...]
    rows: Mapping[str, Row]
    notes: tuple[str, ...] = ()

    @property
    def has_score(self) -> bool:
        """Whether anything was scored."""
        return any(result.reward is not None for result in self.results)


def read_batch(returned: Any, about: RowsAbout) -> ReadBatch:
    """Read the rows of one rollout, joined to the requested ids.

    An unknown id is dropped, the first of two rows with one id counts, and a missing row is a
    Failure.

    Raises:
        ContractError: ``returned`` is not a list of rows.
    """
    found, notes = _by_id(_as_rows(returned))
    asked = tuple(found) if about.ids is None else about.ids
    notes += _strangers(found, asked)
    # If no row fits, each Failure gives the reason: it is shown when the run stops.
    why = "".join(f" ({note})" for note in notes) if not found.keys() & set(asked) else ""
    missing = [row_id for row_id in asked if row_id not in found]
    if missing:
        notes.append(f"{_count(missing, 'row is', 'rows are')} missing: {_some(missing)}")
    results: list[EpisodeResult] = []
    bad: list[str] = []
    for row_id in asked:
        row = found.get(row_id)
        if row is None:
            results.append(failed(about, row_id, f"the rollout returned no row for it{why}"))
            continue
        try:
            results.append(_scored(row, row_id, about))
        except ContractError as error:
            bad.append(str(error))
            results.append(failed(about, row_id, str(error), row))
    notes += _in_one("rows have no score", bad)
    scored = {r.task_id: found[r.task_id] for r in results if r.reward is not None}
    return ReadBatch(tuple(results), scored, tuple(notes))


def all_failed(about: RowsAbout, fault: BaseException) -> ReadBatch:
    """Return a Failure per known id of a batch whose rollout raised."""
    cause = Failure.of(fault)
    # A ContractError says itself what is wrong with what came back.
    raised = "" if isinstance(fault, ContractError) else f"rollout raised {type(fault).__name__}: "
    said = raised + cause.message
    results = tuple(failed(about, row_id, said, cause=cause.cause) for row_id in about.ids or ())
    return ReadBatch(results, {}, (said,))


def failed(
    about: RowsAbout,
    row_id: str,
    message: str,
    row: Row | None = None,
    cause: FailureCause = FailureCause.ENVIRONMENT,
) -> EpisodeResult:
    """Return an episode without a score."""
    return EpisodeResult(
        spec=_spec(about, row_id, row or {}),
        failure=Failure(cause, message),
        stop_reason=StopReason.FAILURE,
        skill_version=about.skill_version,
        key=about.key(row_id),
        row=None if row is None else as_json(row),
    )


def items_by_id(items: Any) -> dict[str, Item] | None:
    """Return items by id, in order, or ``None`` if they have no ids."""
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        return None
    found = {str(item["id"]): item for item in items if isinstance(item, Mapping) and "id" in item}
    return found if found and len(found) == len(items) else None


def as_json(value: Any) -> Any:
    """Convert a value to JSON; what JSON has no type for becomes words, and NaN ``None``.

    A value that holds itself, is nested too deeply, holds too many values or cannot be read is
    words there, so that no value of an adapter's loses its row.
    """
    return _Plain().read(value, ())


class _Plain:
    """Converts one value; counts its parts, of which a few references can make billions."""

    def __init__(self) -> None:
        self._left = _MOST_PARTS

    def read(self, value: Any, above: tuple[int, ...]) -> Any:
        """Convert a part; ``above`` identifies the values that hold it."""
        self._left -= 1
        match value:
            case None | bool() | str():
                return value
            case int():
                return value if value.bit_length() <= _MOST_BITS else "(an integer too large)"
            case float():
                return float(value) if math.isfinite(value) else None
        if id(value) in above:
            return "(a value that holds itself)"
        if len(above) >= _DEEPEST or self._left < 0:
            return "(left out: too many values, or nested too deeply)"
        try:
            return self._parts(value, (*above, id(value)))
        except Exception as error:  # noqa: BLE001 - a foreign object; it is stored in words
            return f"(a {type(value).__name__} that raises {type(error).__name__} when it is read)"

    def _parts(self, value: Any, above: tuple[int, ...]) -> Any:
        if isinstance(value, Mapping):
            return {str(name): self.read(part, above) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.read(part, above) for part in value]
        if isinstance(value, set | frozenset):
            return sorted((self.read(part, above) for part in value), key=repr)
        if callable(getattr(value, "to_dict", None)) and not isinstance(value, type):
            return self.read(value.to_dict(), above)
        if is_dataclass(value) and not isinstance(value, type):
            return self.read(_fields(value), above)
        if callable(getattr(value, "item", None)):  # a number of numpy or torch
            with suppress(TypeError, ValueError, RuntimeError):
                return self.read(value.item(), above)
        text = _ADDRESS.sub("", str(value))
        more = f"... ({len(text):,} characters)" if len(text) > _LONGEST else ""
        return text[:_LONGEST] + more


def _as_rows(returned: Any) -> list[Any]:
    if not isinstance(returned, Iterable) or isinstance(returned, str | bytes | Mapping):
        raise ContractError(
            f"rollout returned {type(returned).__name__}, not a list of rows with id, hard and soft"
        )
    return list(returned)


def _by_id(rows: Sequence[Any]) -> tuple[dict[str, Row], list[str]]:
    """Return the first row of every id, and notes on the others."""
    found: dict[str, Row] = {}
    nothing: list[str] = []
    again: list[str] = []
    for number, given in enumerate(rows):
        row = _as_dict(given)
        row_id = "" if row is None or row.get("id") is None else str(row["id"])
        if row is None or not row_id:
            what = f"a {type(given).__name__}" if row is None else "without an id"
            nothing.append(f"row {number} is {what}, and nothing can be made of it")
        elif row_id in found:
            again.append(f"row {number} has the id {row_id!r} again; the first one counts")
        else:
            found[row_id] = row
    return found, [
        *_in_one("rows cannot be read", nothing),
        *_in_one("rows have an id again", again),
    ]


def _strangers(found: Mapping[str, Row], asked: Sequence[str]) -> list[str]:
    """Note the rows that were not requested."""
    unknown = [row_id for row_id in found if row_id not in set(asked)]
    if not unknown:
        return []
    if len(unknown) == len(found):
        return [
            f"no row has the id of an item: rows {_some(unknown)}; items {_some(asked)}. The id of "
            "a row must be that of its item"
        ]
    rows = _count(unknown, "row has an id", "rows have ids")
    return [f"{rows} not asked for: {_some(unknown)}"]


def _in_one(what: str, said: Sequence[str]) -> list[str]:
    """Merge notes of one kind, so that an error in every row is reported once per batch."""
    return [f"{len(said)} {what}; the first: {said[0]}"] if len(said) > 1 else list(said)


def _count(things: Sequence[str], one: str, more: str) -> str:
    return f"{len(things)} {one if len(things) == 1 else more}"


def _as_dict(row: Any) -> Row | None:
    """Return a row as a dict: itself, or an object's attributes."""
    if isinstance(row, dict):
        return row
    if isinstance(row, RolloutResult):
        return row.to_dict()
    if isinstance(row, Mapping):
        return dict(row)
    if is_dataclass(row) and not isinstance(row, type):
        return _fields(row)
    attributes = getattr(row, "__dict__", None)
    return dict(attributes) if attributes and "id" in attributes else None


def _fields(value: Any) -> Row:
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _scored(row: Row, row_id: str, about: RowsAbout) -> EpisodeResult:
    read = RolloutResult.from_dict(row)
    return EpisodeResult(
        spec=_spec(about, row_id, row),
        reward=_share(read.soft, "soft", row_id),
        hard=_share(read.hard, "hard", row_id),
        metrics={"n_turns": float(read.n_turns)} if read.n_turns else {},
        skill_version=about.skill_version,
        key=about.key(row_id),
        row=as_json(row),
    )


def _share(value: float, name: str, row_id: str) -> float:
    if not -_SLACK <= value <= 1 + _SLACK:
        raise ContractError(
            f"rollout row {row_id!r}: {name} is {value:g}, and every score lies in [0, 1]"
        )
    return min(max(value, 0.0), 1.0)


def _spec(about: RowsAbout, row_id: str, row: Row) -> EpisodeSpec:
    item = (about.items or {}).get(row_id, {})
    named = [of.get(name) for of in (row, item) for name in ("task_type", "instruction_type")]
    statement = row.get("task_description") or row.get("question") or item.get("question") or ""
    task = Task(
        id=row_id,
        env=about.env,
        task_type=str(next(filter(None, [*named, item.get("subtype")]), "")),
        description=str(statement),
        split=about.split,
    )
    return EpisodeSpec(task, about.seed, about.draw, about.phase, about.step)


def _some(ids: Iterable[str]) -> str:
    names = list(ids)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(repr(name) for name in names[:_SHOWN]) + more
