"""The reward: compare the database and the agent's messages with the task's targets.

A pure function of the final state and the messages.

Source: tau-bench (arXiv:2406.12045), reward of its base environment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import DataError
from skillwright.worlds.tau_bench.tau_core.database import (
    Database,
    RecordRef,
    Tables,
    canonical_text,
)
from skillwright.worlds.tau_bench.tau_core.domain import Domain
from skillwright.worlds.tau_bench.tau_core.tau2 import MARK, from_tau2
from skillwright.worlds.tau_bench.tau_core.tools import TRANSFER, Refused, call_tool


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call, or ``respond`` with a ``content``."""

    name: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    by_user: bool = False  # called by the simulated user
    compared: tuple[str, ...] | None = None  # arguments that must be equal; ``None`` for all

    @property
    def tool(self) -> str:
        """The tool; of a call through another one, the one that is meant."""
        meant = (self.kwargs.get(key) for key in ("agent_tool_name", "discoverable_tool_name"))
        return next((name for name in meant if isinstance(name, str)), self.name)

    def is_done_by(self, call: "Action") -> bool:
        """Tell whether a call is this gold action."""
        keys = call.kwargs.keys() if self.compared is None else self.compared
        missing = object()
        return self.name == call.name and all(
            self.kwargs.get(key, missing) == call.kwargs.get(key, missing) for key in keys
        )


@dataclass(frozen=True, slots=True)
class Function:
    """A function on the state that is no tool: it prepares the state, or asserts about it."""

    side: str  # `assistant` or `user`
    name: str
    kwargs: Mapping[str, Any]
    expected: bool = True  # the return value of an assertion

    def call(self, db: Database) -> Any:
        """Call it, and bring the sides of the state in line."""
        domain = db.tables.domain
        tools = domain.user_tools if self.side == "user" else domain.tools
        found = {**tools, **domain.functions.get(self.side, {})}[self.name](db, **self.kwargs)
        if domain.sync:
            domain.sync(db)
        return found


DB: Final = "DB"
COMMUNICATE: Final = "COMMUNICATE"
ACTION: Final = "ACTION"
ENV_ASSERTION: Final = "ENV_ASSERTION"
NL_ASSERTION: Final = "NL_ASSERTION"


@dataclass(frozen=True, slots=True)
class TauTask:
    """One task of a split; episodes share it, so do not change it."""

    user_id: str  # the customer; in tau2-bench tasks, which do not name one, their id
    instruction: str  # known to the simulated user; the agent never sees it
    # Gold actions; those that fail change nothing, and reads are not required
    actions: list[Action]
    outputs: list[str]  # texts that the agent must say to the user
    basis: tuple[str, ...] = (DB, COMMUNICATE)  # parts of the reward, which are multiplied
    initial: tuple[Function, ...] = ()  # what changes the data before the episode
    state: tuple[Function, ...] = ()  # assertions about the final state
    assertions: tuple[str, ...] = ()  # sentences about the episode, which a model judges
    kind: str = ""  # the kind of problem, in domains whose tools do not show it
    documents: tuple[str, ...] = ()  # those that it needs, where the agent searches documents
    user_tools: tuple[str, ...] | None = None  # those of the user that it shows; ``None`` for all


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
            entry = from_tau2(entry, domain, where)
        task = TauTask(
            user_id=entry["user_id"],
            instruction=entry["instruction"],
            actions=[_action(action) for action in entry["actions"]],
            outputs=entry["outputs"],
            basis=entry.get("basis", (DB, COMMUNICATE)),
            initial=tuple(Function(**one) for one in entry.get("initial", ())),
            state=tuple(Function(**one) for one in entry.get("state", ())),
            assertions=entry.get("assertions", ()),
            kind=entry.get("kind", ""),
            documents=entry.get("documents", ()),
            user_tools=entry.get("user_tools"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{where} lacks what a task has (user_id, instruction, actions with name and kwargs, "
            f"outputs): {error!r}"
        ) from error
    if not isinstance(task.outputs, list):
        raise DataError(f"{where}: outputs is not a list of texts")
    if not _all_text([task.user_id, task.instruction, *task.outputs, *task.assertions]):
        raise DataError(f"{where}: user_id, instruction and outputs are texts")
    if not _all_text([action.name for action in task.actions]):
        raise DataError(f"{where}: the name of an action is not a text")
    return task


def _action(entry: Mapping[str, Any]) -> Action:
    compared = entry.get("compared")
    return Action(
        entry["name"],
        dict(entry["kwargs"]),
        bool(entry.get("by_user")),
        None if compared is None else tuple(compared),
    )


def _all_text(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


GRADER_VERSION = "1"
"""Version of the grading; increase it if equal conversations may get another reward."""


@dataclass(frozen=True, slots=True)
class GoldState:
    """The state after the gold actions, computed once per task."""

    db: Database  # the database after the gold actions
    canonical: dict[RecordRef, str]  # canonical texts of the records that they changed
    # Gold actions that are refused, as "tool: observation"; the first of each pair is whether the
    # tool writes, so that the label is wrong
    refused: tuple[tuple[bool, str], ...] = ()

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
        state_failed: Assertions about the final state that do not hold.
        actions_missing: Gold actions that were not called, where the reward depends on that.
        basis: Parts of the reward.
        judged: Whether all sentences hold that a model judges; ``None`` if none was judged.
    """

    database_matches: bool
    differing: tuple[Difference, ...]
    outputs_said: tuple[str, ...]
    outputs_missing: tuple[str, ...]
    state_failed: tuple[str, ...] = ()
    actions_missing: tuple[str, ...] = ()
    basis: tuple[str, ...] = (DB, COMMUNICATE)
    judged: bool | None = None

    @property
    def reward(self) -> float:
        """1.0 if every part of the reward is fulfilled that needs no judge, and the judged one."""
        parts = {
            DB: self.database_matches,
            ENV_ASSERTION: not self.state_failed,
            ACTION: not self.actions_missing,
        }
        fulfilled = all(of for name, of in parts.items() if name in self.basis)
        return float(fulfilled and not self.outputs_missing and self.judged is not False)

    def to_dict(self) -> dict[str, Any]:
        """Return the parts as a JSON object."""
        others = {
            "r_state": (ENV_ASSERTION, {"state_failed": self.state_failed}),
            "r_actions": (ACTION, {"actions_missing": self.actions_missing}),
        }
        return {
            "reward": self.reward,
            "r_db": float(self.database_matches),
            "r_outputs": float(not self.outputs_missing),
            "differing_records": [
                {"record": one.record, "fields": list(one.fields)} for one in self.differing
            ],
            "outputs_said": list(self.outputs_said),
            "outputs_missing": list(self.outputs_missing),
            **{
                key: value
                for name, (part, failed) in others.items()
                if part in self.basis
                for missing, listed in failed.items()
                for key, value in ((name, float(not listed)), (missing, list(listed)))
            },
            **({} if self.judged is None else {"r_assertions": float(self.judged)}),
            **({} if self.basis == (DB, COMMUNICATE) else {"basis": list(self.basis)}),
        }


def begin(tables: Tables, task: TauTask) -> Database:
    """Return the database at the start of a task.

    Raises:
        DataError: A function that makes the initial state fails.
    """
    db = Database(tables)
    for function in task.initial:
        try:
            function.call(db)
        except Exception as error:
            raise DataError(
                f"task {task.user_id!r}: its initial state cannot be made: "
                f"{function.name}({dict(function.kwargs)}) fails: {error!r}"
            ) from error
    return db


def gold_state(tables: Tables, task: TauTask) -> GoldState:
    """Apply gold actions to a fresh database, except those that end an episode."""
    db, refused = begin(tables, task), []
    for action in task.actions:
        if action.name != TRANSFER:
            result = call_tool(db, action.name, action.kwargs, by_user=action.by_user)
            if result.is_error:
                writes = action.tool in tables.domain.task_types
                refused.append((writes, f"{action.name}: {result.observation}"))
    canonical = {place: db.canonical(place) for place in db.changed}
    for assertion in task.state:
        try:
            _holds(assertion, db)
        except Exception as error:
            raise DataError(
                f"task {task.user_id!r}: an assertion about its final state cannot be checked: "
                f"{assertion.name}({dict(assertion.kwargs)}) fails: {error!r}"
            ) from error
    return GoldState(db, canonical, tuple(refused))


def grade(
    db: Database,
    gold: GoldState,
    said: Sequence[str],
    task: TauTask,
    calls: Sequence[Action] = (),
) -> Grade:
    """Grade an episode, except what a model judges.

    Args:
        db: The final database.
        gold: The target state.
        said: Every message of the agent to the user, in which the required texts are looked for,
            ignoring case and the commas of the message.
        task: The task.
        calls: Every tool call of the agent and of the user.
    """
    is_extra = db.tables.domain.is_extra
    # A record that neither side changed is equal.
    differing = tuple(
        Difference(str(place), _differing_fields(db, gold, place))
        for place in sorted(db.changed.keys() | gold.canonical.keys())
        if db.canonical(place) != (gold.canonical.get(place) or db.tables.canonical(place))
        and not (place not in gold.canonical and is_extra and is_extra(db.record(place)))
    )
    heard = [message.lower().replace(",", "") for message in said]
    missing = [
        text for text in task.outputs if not any(text.lower() in message for message in heard)
    ]
    undone = [one for one in task.actions if not any(map(one.is_done_by, calls))]
    return Grade(
        database_matches=not differing,
        differing=differing,
        outputs_said=tuple(text for text in task.outputs if text not in missing),
        outputs_missing=tuple(missing),
        state_failed=tuple(one.name for one in task.state if not _holds(one, db)),
        actions_missing=tuple(one.name for one in undone) if ACTION in task.basis else (),
        basis=task.basis,
    )


def _holds(assertion: Function, db: Database) -> bool:
    try:
        return bool(assertion.call(db)) == assertion.expected
    except Refused:  # it is about a record that is not there
        return False


def _differing_fields(db: Database, gold: GoldState, place: RecordRef) -> tuple[str, ...]:
    ours, theirs = db.record(place), gold.db.record(place)
    return tuple(
        name
        for name in sorted(ours.keys() | theirs.keys())
        if (name in ours) != (name in theirs)
        or canonical_text(ours[name]) != canonical_text(theirs[name])
    )
