"""The reward: compare the database and the agent's messages with the task's targets.

A pure function of the final state and the messages.

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


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call, or ``respond`` with a ``content``."""

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # JSON values


@dataclass(frozen=True, slots=True)
class TauTask:
    """One task of a split; episodes share it, so do not change it."""

    user_id: str  # the customer; in tau2-bench tasks, which do not name one, their id
    instruction: str  # known to the simulated user; the agent never sees it
    # Gold actions; those that fail change nothing, and reads are not required
    actions: list[Action]
    outputs: list[str]  # texts that the agent must say to the user


def read_tasks(listed: Any, domain: Domain, where: str) -> tuple[TauTask, ...]:
    """Read the tasks of a split, in the format of tau-bench or of tau2-bench.

    Raises:
        DataError: One is not a task, or needs unsupported grading.
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
"""Version of the grading; increase it if equal conversations may get another reward."""


@dataclass(frozen=True, slots=True)
class GoldState:
    """The state after the gold actions, computed once per task."""

    db: Database  # the database after the gold actions
    canonical: dict[RecordRef, str]  # canonical texts of the records that they changed

    @property
    def is_untouched(self) -> bool:
        """Whether the gold actions change nothing."""
        return all(text == self.db.tables.canonical(at) for at, text in self.canonical.items())


@dataclass(frozen=True, slots=True)
class Difference:
    """A record that differs from its target."""

    record: str  # its table and id: `orders/#W0000000`
    fields: tuple[str, ...]  # its keys whose values differ, or that only one side has, sorted


@dataclass(frozen=True, slots=True)
class Grade:
    """A reward with its parts.

    Attributes:
        database_matches: Whether every record is as after the gold actions.
        differing: Records that are not.
        outputs_said: Required texts that the agent said to the user.
        outputs_missing: Required texts that it did not say.
    """

    database_matches: bool
    differing: tuple[Difference, ...]
    outputs_said: tuple[str, ...]
    outputs_missing: tuple[str, ...]

    @property
    def reward(self) -> float:
        """1.0 if the database matches and no text is missing, else 0.0."""
        return float(self.database_matches and not self.outputs_missing)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts as a JSON object."""
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
    """Apply gold actions to a fresh database, except those that end an episode."""
    db = Database(tables)
    for action in actions:
        if action.name != TRANSFER:
            call_tool(db, action.name, action.kwargs)
    return GoldState(db, {place: db.canonical(place) for place in db.changed})


def grade(db: Database, gold: GoldState, said: Sequence[str], outputs: Sequence[str]) -> Grade:
    """Grade an episode.

    Args:
        db: The final database.
        gold: The target state.
        said: Every message of the agent to the user.
        outputs: Texts that must be in one of them, ignoring case and the commas of the message.
    """
    # A record that neither side changed is equal.
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
