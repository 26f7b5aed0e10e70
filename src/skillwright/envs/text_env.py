"""The episode environment: SkyRL-Gym's text environment, so that ours run there and theirs here.

Source: ``BaseTextEnv`` of skyrl-gym 0.4 (NovaSky-AI/SkyRL). The step output is a plain dict, as
there, because trainers index it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NotRequired, TypedDict, TypeVar

from skillwright.core import DataError, Message, Task, ToolCall, Trajectory, Usage
from skillwright.envs.about import AboutEnv

DEFAULT_MAX_TURNS = 50

Found = TypeVar("Found")


class StepOutput(TypedDict):
    """What one step returns.

    Attributes:
        observations: New messages for the conversation; may be empty when the episode is over.
        reward: The reward of this step, in the units of the environment.
        done: The episode is over.
        metadata: Facts besides the text. ``observation`` is the world's raw text where it differs
            from the message; ``truncated`` is true when the turn limit ended the episode.
        postprocessed_action: The action that was really taken, where it was cut or cleaned.
    """

    observations: list[Message]
    reward: float
    done: bool
    metadata: dict[str, Any]
    postprocessed_action: NotRequired[str | None]


class TextEnv(AboutEnv):
    """One episode. Built cheaply, used once, closed.

    A subclass writes `init` and `step`. `step` never raises for anything a model wrote: a clumsy
    move is an observation. An environment that breaks raises `EnvError`, and the episode becomes
    a Failure.

    Attributes:
        version: Raised when equal actions may give other observations or rewards; part of what
            tells stored episodes apart.
    """

    version = "1"

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        """Keep the settings; build nothing that costs.

        Args:
            env_config: Settings shared by all episodes of an environment.
            extras: Settings of this episode. ``max_turns`` is always understood (default 50).

        Raises:
            DataError: ``max_turns`` is no whole number.
        """
        self.env_config = env_config
        self.extras: dict[str, Any] = dict(extras or {})
        self.max_turns = _whole_number(self.extras.get("max_turns", DEFAULT_MAX_TURNS))
        self.turns = 0

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return the extras of a few episodes; ``skillwright env check`` plays them.

        One whose tasks depend on the settings takes ``env_config`` by keyword.
        """
        return [{}]

    @classmethod
    def tidied_items(cls, items: Sequence[Any]) -> list[Any]:
        """Bring the items of a data file to their shape, before they become tasks.

        An environment that reads other people's files renames keys, checks the rest and fills in
        an ``id`` here. The default changes nothing; one that depends on the settings takes
        ``env_config`` by keyword.

        Raises:
            DataError: An item is none; the message says which, and why.
        """
        return list(items)

    @classmethod
    def category(cls, task: Task) -> str:
        """Return the category of a task, by which a skill bank keeps its skills.

        It is found by explicit rules, from what the task itself says.

        Returns:
            ``""`` where it is unknown; never a guess. The default is ``task.task_type``.
        """
        return task.task_type

    @classmethod
    def scope(cls, task: Task) -> str:
        """Return the one place that a task is set in (a home, a shop), or ``""``.

        What is learned about that place is shown only in tasks of the same scope.
        """
        del task
        return ""

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the episode.

        Args:
            prompt: Messages that come before the environment's own; often empty.

        Returns:
            The conversation so far, and metadata.
        """
        return list(prompt), {}

    def step(self, action: str) -> StepOutput:
        """Take one action.

        Raises:
            EnvError: The environment broke; never because of what ``action`` says.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def native_tools(self) -> Sequence[dict[str, Any]]:
        """Return the tools that an agent is offered natively, in OpenAI's form.

        Where there are any, the agent's endpoint gets them, and turns are taken by
        `astep_native`. The default is none: an action is a text, and calls are written into it.
        """
        return ()

    def step_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Take a turn of an agent that is offered `native_tools`.

        Args:
            said: Its text; without a call, this is its action.
            calls: What it called, in order, as the model wrote it: unknown names and arguments
                that are no JSON come too, and are answered with an observation.

        Returns:
            As `step`. The first observations have role ``tool`` and the ``tool_call_id`` of the
            calls that were answered, from the first on; others are not shown to the agent again.

        Raises:
            EnvError: The environment broke.
        """
        raise NotImplementedError(f"{type(self).__name__} offers no native tools")

    async def ainit(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the episode; overridden by an environment that waits on the network."""
        return self.init(prompt)

    async def astep(self, action: str) -> StepOutput:
        """Take one action; overridden by an environment that waits on the network."""
        return self.step(action)

    async def astep_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Do what `step_native` does; overridden by an environment that waits on the network."""
        return self.step_native(said, calls)

    def close(self) -> None:
        """Release what the episode holds. Closing twice is allowed."""

    def use_record(self, record: Trajectory, turns: int | None = None) -> None:
        """Take what others answered from a record; called before `init`, to play it back.

        An environment that asks a model or a person, as one with a simulated user, gives their
        recorded answers and calls no model. The default suits an environment that calls none.

        Args:
            record: What happened.
            turns: Number of first turns that are recorded; after them models are called again, with
                what was said. ``None`` for all.

        Raises:
            EnvError: They cannot continue a conversation that they did not have.
        """

    def get_metrics(self) -> dict[str, float]:
        """Return numbers about the episode; counted in the report by their mean."""
        return {}

    def get_usage(self) -> dict[str, Usage]:
        """Return what models of the environment's own have consumed, by purpose (`Purpose`).

        It is asked for however the episode ends, and goes into the run's ledger.
        """
        return {}

    def reply(
        self,
        text: str,
        *,
        reward: float = 0.0,
        done: bool = False,
        metadata: Mapping[str, Any] | None = None,
    ) -> StepOutput:
        """Build a step output that says ``text`` to the agent, with the turn limit applied."""
        truncated = not done and self.turns >= self.max_turns
        return StepOutput(
            observations=[{"role": "user", "content": text}],
            reward=reward,
            done=done or truncated,
            metadata={"observation": text, "truncated": truncated, **(metadata or {})},
        )

    def finish(
        self, text: str, *, reward: float, metadata: Mapping[str, Any] | None = None
    ) -> StepOutput:
        """Build the last step output of an episode."""
        return self.reply(text, reward=reward, done=True, metadata=metadata)


def with_config(method: Callable[..., Found], env_config: object | None) -> Callable[..., Found]:
    """Hand the settings to a method of an environment's class, where it takes ``env_config``.

    `TextEnv.examples`, `TextEnv.tidied_items` and ``gold_actions`` may take it by keyword.
    """
    wants_it = "env_config" in inspect.signature(method).parameters
    return partial(method, env_config=env_config) if wants_it else method


def _whole_number(max_turns: Any) -> int:
    try:
        return int(max_turns)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"max_turns is {max_turns!r}; give a whole number such as 50") from error
