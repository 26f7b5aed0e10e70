"""The reward: what the agent left behind and said, against what it should have.

A pure function of the final state and the messages; nothing is replayed in the agent's database.

Source: tau-bench (arXiv:2406.12045), reward of its base environment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skillwright.core import DataError
from skillwright.worlds.tau_bench.tau_core.database import (
    Database,
    RecordRef,
    Tables,
    canonical_text,
)
from skillwright.worlds.tau_bench.tau_core.domain import Domain
from skillwright.worlds.tau_bench.tau_core.tau2 import MARK, from_tau2
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER, call_tool

# What a customer wants, and what the result should be.


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call, or ``respond`` with a ``content``."""

    name: str  # the tool
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # its arguments, JSON values


@dataclass(frozen=True, slots=True)
class TauTask:
    """One task of a split; shared by its episodes, so leave it as it is."""

    user_id: str  # who calls; of a task of tau2-bench its id, where nothing says who
    instruction: str  # what the simulated user knows; the agent never sees it
    # Gold actions; those that fail change nothing, and reads are not asked for
    actions: list[Action]
    outputs: list[str]  # texts that the agent must have said to the user


def read_tasks(listed: Any, domain: Domain, where: str) -> tuple[TauTask, ...]:
    """Read the tasks of a split, in the format of tau-bench or of tau2-bench.

    Raises:
        DataError: One of them is no task, or asks for what is not graded here.
    """
    if not isinstance(listed, list):
        raise DataError(f"{where} is not a list of tasks")
    return tuple(_task(entry, domain, f"{where}: task {at}") for at, entry in enumerate(listed))


def _task(entry: Any, domain: Domain, where: str) -> TauTask:
    try:
        if MARK in entry:
            where = f"{where} (id {entry.get('id')!r})"
            entry = from_tau2(entry, domain.tools, where)
        task = TauTask(
            user_id=entry["user_id"],
            instruction=entry["instruction"],
            actions=[Action(action["name"], dict(action["kwargs"])) for action in entry["actions"]],
            outputs=entry["outputs"],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{where} lacks what a task has (user_id, instruction, actions with name and kwargs, "
            f"outputs): {error!r}"
        ) from error
    if not isinstance(task.outputs, list):
        raise DataError(f"{where}: outputs is not a list of texts")
    if not _all_text([task.user_id, task.instruction, *task.outputs]):
        raise DataError(f"{where}: user_id, instruction and outputs are texts")
    if not _all_text([action.name for action in task.actions]):
        raise DataError(f"{where}: the name of an action is not a text")
    return task


def _all_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


GRADER_VERSION = "1"
"""Raised when equal conversations may get another reward."""


@dataclass(frozen=True, slots=True)
class GoldState:
    """The state after the gold actions, computed once per task."""

    db: Database  # the database, not to be changed any more
    # The canonical text of every record that the gold actions changed
    canonical: dict[RecordRef, str]

    @property
    def is_untouched(self) -> bool:
        """Whether the gold actions leave everything as it was."""
        return all(text == self.db.tables.canonical(at) for at, text in self.canonical.items())


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that is not as it should be."""

    record: str  # its table and id: `orders/#W0000000`
    fields: tuple[str, ...]  # its keys whose values differ, or that only one side has, sorted


@dataclass(frozen=True, slots=True)
class Grade:
    """A reward, and why.

    Attributes:
        database_matches: Every record is as the gold actions leave it.
        differing: Those that are not.
        outputs_said: Required texts that the agent said to the user.
        outputs_missing: Those that it did not.
    """

    database_matches: bool
    differing: tuple[Difference, ...]
    outputs_said: tuple[str, ...]
    outputs_missing: tuple[str, ...]

    @property
    def reward(self) -> float:
        """1.0 where the database matches and nothing is missing, else 0.0."""
        return float(self.database_matches and not self.outputs_missing)

    def to_dict(self) -> dict[str, Any]:
        """Return the breakdown as a JSON object."""
        return {
            "reward": self.reward,
            "r_db": float(self.database_matches),
            "r_outputs": float(not self.outputs_missing),
            "differing_records": [
                {"record": one.record, "fields": list(one.fields)} for one in self.differing
            ],
            "outputs_said": list(self.outputs_said),
            "outputs_missing": list(self.outputs_missing),
        }


def gold_state(tables: Tables, actions: Iterable[Action]) -> GoldState:
    """Carry out gold actions in a fresh database, all but those that end an episode."""
    db = Database(tables)
    for action in actions:
        if action.name != TRANSFER:
            call_tool(db, action.name, action.kwargs)
    return GoldState(db, {place: db.canonical(place) for place in db.changed})


def grade(db: Database, gold: GoldState, said: Sequence[str], outputs: Sequence[str]) -> Grade:
    """Judge an episode.

    Args:
        db: What the agent left behind.
        gold: What it should have left behind.
        said: Every message of the agent to the user.
        outputs: Texts that must be in one of them: without regard to case, and with the commas of
            the message, not of the text, left out.
    """
    # A record that neither side touched is the same on both.
    differing = tuple(
        Difference(str(place), _differing_fields(db, gold, place))
        for place in sorted(db.changed.keys() | gold.canonical.keys())
        if db.canonical(place) != (gold.canonical.get(place) or db.tables.canonical(place))
    )
    heard = [message.lower().replace(",", "") for message in said]
    missing = [text for text in outputs if not any(text.lower() in message for message in heard)]
    return Grade(
        database_matches=not differing,
        differing=differing,
        outputs_said=tuple(text for text in outputs if text not in missing),
        outputs_missing=tuple(missing),
    )


def _differing_fields(db: Database, gold: GoldState, place: RecordRef) -> tuple[str, ...]:
    ours, theirs = db.record(place), gold.db.record(place)
    return tuple(
        name
        for name in sorted(ours.keys() | theirs.keys())
        if (name in ours) != (name in theirs)
        or canonical_text(ours[name]) != canonical_text(theirs[name])
    )
