"""The episode environment, compatible with SkyRL-Gym's text environment.

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
    """Result of a step.

    Attributes:
        observations: New messages for the conversation; may be empty at the end of the episode.
        reward: Reward of this step, in the environment's units.
        done: Whether the episode is over.
        metadata: Further facts. ``observation`` is the raw text if it differs from the message;
            ``truncated`` is true if the turn limit ended the episode.
        postprocessed_action: The executed action, if it differs from the agent's text.
    """

    observations: list[Message]
    reward: float
    done: bool
    metadata: dict[str, Any]
    postprocessed_action: NotRequired[str | None]


class TextEnv(AboutEnv):
    """One episode: cheap to build, used once, closed at the end.

    A subclass implements `init` and `step`. `step` must not raise because of an invalid action,
    which is answered with an observation. An internal error is raised as `EnvError`, and the
    episode becomes a failure.

    Attributes:
        version: Version of the environment's behavior; increase it if equal actions may give other
            observations or rewards. Stored episodes of other versions are not reused.
    """

    version = "1"

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        """Store the settings; expensive work belongs into `init`.

        Args:
            env_config: Settings shared by all episodes.
            extras: Settings of this episode; all environments accept ``max_turns`` (default 50).

        Raises:
            DataError: ``max_turns`` is no integer.
        """
        self.env_config = env_config
        self.extras: dict[str, Any] = dict(extras or {})
        self.max_turns = _whole_number(self.extras.get("max_turns", DEFAULT_MAX_TURNS))
        self.turns = 0

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return the extras of a few episodes for ``skillwright env check``.

        An override may take ``env_config`` by keyword.
        """
        return [{}]

    @classmethod
    def tidied_items(cls, items: Sequence[Any]) -> list[Any]:
        """Normalize the items of a data file before they become tasks.

        An override may rename keys, check values and add an ``id``, and may take ``env_config`` by
        keyword. The default changes nothing.

        Raises:
            DataError: An item is malformed; the message names it and the reason.
        """
        return list(items)

    @classmethod
    def category(cls, task: Task) -> str:
        """Return the task's category in a skill bank, by explicit rules.

        Returns:
            The category, by default ``task.task_type``; ``""`` if unknown.
        """
        return task.task_type

    @classmethod
    def scope(cls, task: Task) -> str:
        """Return the task's scope, such as a home or a shop, or ``""``.

        Skills with a scope are only injected into tasks of the same scope.
        """
        return ""

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the episode.

        Args:
            prompt: Messages before the environment's own; often empty.

        Returns:
            The conversation so far, and metadata.
        """
        return list(prompt), {}

    def step(self, action: str) -> StepOutput:
        """Take one action.

        Raises:
            EnvError: An internal error; never because of an invalid ``action``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def native_tools(self) -> Sequence[dict[str, Any]]:
        """Return the tools for native calls, in OpenAI's format.

        If there are any, they are sent to the agent's endpoint, and turns go to `astep_native`. By
        default there are none, and actions are texts.
        """
        return ()

    def step_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Take a turn of an agent that is offered `native_tools`.

        Args:
            said: The agent's text; without a call, this is the action.
            calls: Calls in order, as the model wrote them; unknown names and malformed arguments
                are answered with an observation.

        Returns:
            As `step`. The first observations have the role ``tool`` and the ``tool_call_id`` of the
            answered calls, beginning with the first; unanswered calls are dropped from the prompt.

        Raises:
            EnvError: An internal error.
        """
        raise NotImplementedError(f"{type(self).__name__} offers no native tools")

    async def ainit(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the episode; override it in an environment that awaits the network."""
        return self.init(prompt)

    async def astep(self, action: str) -> StepOutput:
        """Take one action; override it in an environment that awaits the network."""
        return self.step(action)

    async def astep_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Run `step_native`; override it in an environment that awaits the network."""
        return self.step_native(said, calls)

    def close(self) -> None:
        """Release the episode's resources. Closing twice is allowed."""

    def use_record(self, record: Trajectory, turns: int | None = None) -> None:
        """Replay the recorded answers of the environment's models; called before `init`.

        An environment that calls a model or a person, such as a simulated user, then returns
        recorded answers instead. The default is for environments without models.

        Args:
            record: The recorded episode.
            turns: Number of turns to replay; afterwards models are called, with the conversation so
                far. ``None`` for all.

        Raises:
            EnvError: A model cannot continue a recorded conversation.
        """

    def get_metrics(self) -> dict[str, float]:
        """Return numbers about the episode; reports show their mean."""
        return {}

    def get_usage(self) -> dict[str, Usage]:
        """Return the usage of the environment's own models by purpose (`Purpose`).

        It is called at the end of every episode, also of a failed one, for the run's ledger.
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
        """Build a step output with a message to the agent; ends the episode at the turn limit."""
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
    """Bind the settings to a class method of an environment, if it takes ``env_config``.

    `TextEnv.examples`, `TextEnv.tidied_items` and ``gold_actions`` may take it by keyword.
    """
    wants_it = "env_config" in inspect.signature(method).parameters
    return partial(method, env_config=env_config) if wants_it else method


def _whole_number(max_turns: Any) -> int:
    try:
        return int(max_turns)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"max_turns is {max_turns!r}; give a whole number such as 50") from error
