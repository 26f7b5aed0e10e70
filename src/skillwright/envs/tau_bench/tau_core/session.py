"""One customer's call: the task, the database as this episode leaves it, and who is called."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skillwright.envs.tau_bench.tau_core.database import Database
from skillwright.envs.tau_bench.tau_core.reward import Grade, grade
from skillwright.envs.tau_bench.tau_core.store import Store
from skillwright.envs.tau_bench.tau_core.tasks import Action, RetailTask
from skillwright.envs.tau_bench.tau_core.tools import ToolResult, call_tool

RESPOND = "respond"


class TauEnv:
    """The domain's side of an episode; cheap to build, since it shares everything but changes.

    Attributes:
        actions: Everything that the agent did, as it was asked for.
    """

    def __init__(
        self,
        store: Store,
        split: str,
        index: int,
        make_user: Callable[[], Any] | None = None,
    ) -> None:
        self.store, self.split, self.index = store, split, index
        self.actions: list[Action] = []
        self._shared_task = store.task(split, index)
        self._own_task: RetailTask | None = None
        self._db: Database | None = None
        self._make_user = make_user
        self._user: Any = None

    @property
    def user(self) -> Any:
        """The simulated user; another may be put in its place."""
        if self._user is None and self._make_user is not None:
            self._user = self._make_user()
        return self._user

    @user.setter
    def user(self, user: Any) -> None:
        self._user = user

    @property
    def task(self) -> RetailTask:
        """The task, in a copy of this episode's own."""
        if self._own_task is None:
            self._own_task = copy.deepcopy(self._shared_task)
        return self._own_task

    @property
    def instruction(self) -> str:
        """What the simulated user is told."""
        return self._shared_task.instruction

    @property
    def db(self) -> Database:
        """The database of this episode."""
        if self._db is None:
            self._db = Database(self.store.tables)
        return self._db

    @property
    def said(self) -> Sequence[str]:
        """What the agent said to the user, in order."""
        spoken = (one.kwargs.get("content") for one in self.actions if one.name == RESPOND)
        return [content for content in spoken if isinstance(content, str)]

    def restart(self) -> None:
        """Begin again with the pristine database."""
        self.actions = []
        self._db = Database(self.store.tables)

    def call(self, name: str, kwargs: Mapping[str, Any]) -> ToolResult:
        """Call a tool, whatever its name and arguments; what is wrong with them is the answer."""
        self.actions.append(Action(name, kwargs))
        return call_tool(self.db, name, kwargs)

    def say(self, content: str) -> None:
        """Write down what the agent says; whoever holds the user asks for the reply."""
        self.actions.append(Action(RESPOND, {"content": content}))

    def grade(self) -> Grade:
        """Judge the episode as it stands; changes nothing."""
        gold = self.store.gold(self.split, self.index)
        return grade(self.db, gold, self.said, self._shared_task.outputs)
