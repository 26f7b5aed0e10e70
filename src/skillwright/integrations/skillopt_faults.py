"""Faults of a model that an adapter caught: no score may come of them.

Many adapters score what they catch as a zero. Every fault's message begins with `NO_ANSWER` and a
mark of its own, so that a row that quotes it can be told from one that was scored.

A zero may also lie in files that the adapter goes on from. So a file beside the folder of a rollout
says, to a later attempt, to a resumed run and across processes, that a question is without an
answer; a folder that was left so is put aside.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any

from skillwright.core import (
    ConfigError,
    ContractError,
    EpisodeResult,
    Failure,
    FailureCause,
    ModelError,
    ModelRefused,
    RequestRefused,
    SkillwrightError,
)
from skillwright.core.jsonio import write_text

NO_ANSWER = "[no answer from the model]"
"""Stands in every fault's message: a row that quotes it is no score, whatever its numbers say."""

IN_A_FORK = (
    f"{NO_ANSWER} a process that the adapter forked asked for it, and the run's own "
    "process alone can: ask in a thread pool, or before and after what runs in processes"
)

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Hearing:
    """What went wrong between an adapter's rollout and its models.

    A question that its thread asked again at once, and had answered, is no fault.
    """

    context: Context  # of whoever called the adapter: its permit covers what the adapter asks
    folder: Path | None = None  # where the adapter writes; ``None`` where nothing is scored
    faults: dict[str, SkillwrightError] = field(default_factory=dict)  # by mark
    lost: dict[str, str] = field(default_factory=dict)  # rows that are no score, and why, by id
    _times: dict[str, Iterator[int]] = field(default_factory=dict, init=False)
    _again: dict[int, tuple[str, str]] = field(default_factory=dict, init=False)

    def mark(self, key: str) -> str:
        """Return what tells a fault from others in a text; equal questions have one each."""
        return f"{NO_ANSWER} ({key[:8]}.{next(self._times.setdefault(key, count(1)))})"

    def asked(self, key: str) -> None:
        """Take it that a thread which asks something else has given its last question up.

        An equal one that is answered later is another episode's.
        """
        if self._again.get(get_ident(), (key, ""))[0] != key:
            del self._again[get_ident()]

    def answered(self) -> None:
        """Forget the fault that this thread asked again about."""
        _, mark = self._again.pop(get_ident(), ("", ""))
        self.faults.pop(mark, None)

    def note(self, key: str, mark: str, fault: SkillwrightError) -> None:
        """Remember a question without an answer; asked again at once, it is one fault."""
        self.answered()
        self.faults[mark] = fault
        self._again[get_ident()] = (key, mark)
        self.doubt()

    def doubt(self, said: str = "") -> None:
        """Say in a file that what is written now may come of a fault; with words, for good."""
        if self.folder is not None:
            with _doubt(self.folder).open("a", encoding="utf-8") as file:
                file.write(said)

    def trust(self) -> None:
        """Take the doubt back: no score in the folder comes of a fault."""
        if self.folder is not None:
            _doubt(self.folder).unlink(missing_ok=True)

    def refuse_missing(self) -> None:
        """Stop where a name or prompt of `skillopt` was missing, whoever caught that."""
        for fault in self.faults.values():
            if isinstance(fault, ConfigError):
                raise fault

    def sift(self, rows: Any) -> Any:
        """Return what a rollout returned, without the rows that a fault scored."""
        for fault in self.faults.values():
            refused = isinstance(fault, ModelRefused) and not isinstance(fault, RequestRefused)
            if refused or not isinstance(fault, ModelError):
                raise fault
        if self.folder is not None and (said := _said(_doubt(self.folder))):
            raise ContractError(IN_A_FORK if IN_A_FORK in said else said)
        kept, told = self._without_lost(rows)
        for mark, fault in self.faults.items():
            if mark not in told:
                raise fault
        self.trust()
        return kept

    def _without_lost(self, rows: Any) -> tuple[Any, str]:
        """Return the rows without those that quote a fault, and all that those quote."""
        if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
            return rows, ""
        kept, told = [], ""
        for row in rows:
            quotes = list(_quotes(row))
            if not quotes:
                kept.append(row)
                continue
            row_id = row.get("id") if isinstance(row, Mapping) else getattr(row, "id", "")
            self.lost[str(row_id)] = quotes[0]
            told += "\n".join(quotes)
            _log.warning("the row of %r is no score: %s", row_id, quotes[0])
        return kept, told

    def charge(self, result: EpisodeResult) -> EpisodeResult:
        """Return an episode with its failure charged to the model, where its row was lost so."""
        quote = self.lost.get(result.task_id)
        if quote is None or result.failure is None:
            return result
        return replace(result, failure=Failure(FailureCause.MODEL, quote))


def forget_unanswered(folder: Path) -> None:
    """Let an adapter not go on from what a fault scored.

    Rows of its ``results.jsonl`` that quote a fault are taken out. Where an earlier attempt ended
    with a question that is without an answer, and no row tells of it, the folder is put aside.
    """
    if _doubt(folder).exists():
        if folder.exists():
            aside = next(
                one
                for number in range(1, 1_000_000)
                if not (one := folder.with_name(f"{folder.name}.unanswered_{number}")).exists()
            )
            folder.rename(aside)
        _doubt(folder).unlink()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "results.jsonl"
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if NO_ANSWER not in line]
    if len(kept) < len(lines):
        write_text(file, "".join(kept))


def _doubt(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.unanswered")


def _said(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _quotes(value: Any) -> Iterator[str]:
    """Return the texts of a row that quote a fault."""
    match value:
        case str():
            if NO_ANSWER in value:
                yield value
            return
        case Mapping():
            parts = list(value.values())
        case list() | tuple():
            parts = list(value)
        case _:
            parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield from _quotes(part)
