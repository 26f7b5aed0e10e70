"""What an engine is: its bounds, its prompts, what it remembers by, and whom it tells."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from skillwright.core import (
    ConfigError,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Message,
    ModelError,
    SkillSource,
    Turn,
)
from skillwright.core.agent import sendable
from skillwright.core.jsonio import digest, text_digest
from skillwright.core.settings import Settings
from skillwright.models.validation import Share

# What bounds a rollout: turns, seconds, characters, episodes at once, and second chances.


class PlayLimits(Settings):
    """The bounds of episodes that a configuration sets; unset means no bound."""

    max_concurrent: PositiveInt = 64
    """Maximum concurrent episodes."""
    retries: NonNegativeInt = 2
    """Retries of a failed episode, each in a new environment."""
    give_up_after: PositiveInt | None = 20
    """Consecutive failed episodes that stop the run; unset, no limit."""
    max_failure_share: Share | None = 0.5
    """Share of failures among the last 40 episodes (20 at first) above which the run stops."""
    episode_timeout_s: PositiveFloat | None = None
    """Seconds per episode attempt; unset, no limit."""


class Limits(PlayLimits):
    """The bounds of every episode that an engine plays. ``None`` means no bound.

    Why an episode ended is its `StopReason`: ``max_turns`` and ``context`` are truncations, whose
    reward so far stands; a passed deadline is a Failure and has no reward. ``episode_timeout_s``
    counts from the start of an attempt: queueing is not slowness.
    """

    max_turns: PositiveInt | None = None
    """Most actions in an episode; where the task sets a limit of its own the smaller one holds."""
    max_prompt_chars: PositiveInt | None = None
    """Most characters of a prompt; an episode whose next prompt would be longer is cut there."""

    def identity(self) -> dict[str, Any]:
        """Return the bounds that can change a reward, for the episode key.

        How many episodes run at once, how often a fault is retried and how long an attempt may
        take decide whether there is a reward, never which.
        """
        return {"max_turns": self.max_turns, "max_prompt_chars": self.max_prompt_chars}


# The only place where a prompt is put together: system text with the skill, opening, exchanges.


SKILL_HEADING = "## Skill"


@dataclass(frozen=True, slots=True)
class PromptStyle:
    """How a conversation is shown to the agent.

    Attributes:
        history_turns: Exchanges kept after the opening, the latest ones, at least 1; ``None``
            keeps them all.

    Raises:
        ConfigError: ``history_turns`` is below 1; the agent would not see what it did last.
    """

    history_turns: int | None = None

    def __post_init__(self) -> None:
        if self.history_turns is not None and self.history_turns < 1:
            raise ConfigError(
                f"prompt.history_turns is {self.history_turns}; keep at least 1 exchange, "
                "or leave it out to keep them all"
            )

    def identity(self) -> dict[str, Any]:
        """Return the settings as a JSON object, for the episode key."""
        return {"history_turns": self.history_turns}


def render(
    style: PromptStyle,
    opening_messages: Sequence[Message],
    turns_so_far: Sequence[Turn],
    skill_text: str,
) -> tuple[Message, ...]:
    """Build the conversation that the agent is shown next.

    A turn carries the prompt that it was shown, so only the last exchange is new: messages are
    shared between the prompts of an episode, never copied, and a turn costs one new message.

    Args:
        style: The style that every prompt of the episode is rendered in.
        opening_messages: What the environment started with.
        turns_so_far: All turns of the episode, in order, with the prompts that this function
            rendered for them.
        skill_text: What the agent is given about its job; blank adds nothing.
    """
    if not turns_so_far:
        return _with_skill(opening_messages, skill_text)
    last = turns_so_far[-1]
    conversation = (*last.prompt, _said(last), *last.messages)
    if style.history_turns is None or len(turns_so_far) <= style.history_turns:
        return conversation
    # The last prompt held one exchange more than may stay: the oldest one, right after the opening.
    start = len(turns_so_far[0].prompt)
    oldest = turns_so_far[-style.history_turns - 1]
    return conversation[:start] + conversation[start + 1 + len(oldest.messages) :]


def _said(turn: Turn) -> Message:
    """Return what the agent did as later prompts carry it: of native calls, those answered."""
    said, act = Message(role="assistant", content=turn.act.text), turn.act
    results = sum(message["role"] == "tool" for message in turn.messages)
    answered = sendable(act.tool_calls, turn.prompt)[:results] if act.tool_calls else ()
    if answered:
        said["tool_calls"] = [call.to_dict() for call in answered]
    if act.native is not None and (answered or act.text.strip()):
        said["native"] = act.native
    return said


def _with_skill(opening: Sequence[Message], skill_text: str) -> tuple[Message, ...]:
    if not skill_text.strip():
        return tuple(opening)
    section = f"{SKILL_HEADING}\n\n{skill_text}"
    for index, message in enumerate(opening):
        if message["role"] == "system":
            extended = message.copy()
            extended["content"] = f"{message['content']}\n\n{section}"
            return (*opening[:index], extended, *opening[index + 1 :])
    return (Message(role="system", content=section), *opening)


def skill_in(prompt: Sequence[Message]) -> str:
    """Return the skill text that `render` put into a prompt; ``""`` where there is none."""
    written = next((one["content"] for one in prompt if one["role"] == "system"), "")
    head = f"{SKILL_HEADING}\n\n"
    if written.startswith(head):
        return written.removeprefix(head)
    return written.partition(f"\n\n{head}")[2]


def with_other_skill(prompt: Sequence[Message], given: str, instead: str) -> tuple[Message, ...]:
    """Return a prompt that `render` built as it would be with another skill text.

    Args:
        prompt: Of any turn.
        given: The skill text that it was built with.
        instead: The one that it is to have; blank for none.
    """
    messages = list(prompt)
    section = f"{SKILL_HEADING}\n\n{given}"
    index = next((at for at, one in enumerate(messages) if one["role"] == "system"), None)
    if given.strip() and index is not None:
        bare = messages[index].copy()
        bare["content"] = bare["content"].removesuffix(section).removesuffix("\n\n")
        messages[index : index + 1] = [bare] if bare["content"] else []
    return _with_skill(messages, instead)


def recorded_skill(prompt: Sequence[Message], opening: Sequence[Message]) -> str | None:
    """Return the skill text that `render` put into the first prompt of an episode.

    Returns:
        ``""`` where there is none in it; ``None`` where the prompt does not begin an episode whose
        environment opens so.
    """
    if tuple(prompt) == tuple(opening):
        return ""
    index = next((at for at, one in enumerate(opening) if one["role"] == "system"), None)
    before = "" if index is None else f"{opening[index]['content']}\n\n"
    written = [message["content"] for message in prompt[index or 0 :][:1]]
    text = "".join(written).removeprefix(f"{before}{SKILL_HEADING}\n\n")
    return text if tuple(prompt) == _with_skill(opening, text) else None


# What an engine is, what it remembers by, and what it tells those who watch.


class EngineDown(ModelError):
    """Too many episodes failed in a row to continue."""


def refuse_no_score(results: Sequence[EpisodeResult]) -> None:
    """Stop where not one of several episodes has a reward: that is no score to go by.

    Raises:
        EngineDown: All of them failed; the message quotes the latest fault.
    """
    failures = [result.failure for result in results if result.failure is not None]
    if failures and len(failures) == len(results):
        raise EngineDown(
            f"all {len(failures)} episodes failed, so there is no score; the latest: "
            f"{failures[-1].message}"
        )


Permit = Callable[[], AbstractAsyncContextManager[None]]
"""Asked before something that costs is begun: ``async with permit():`` until it is stored.

What it raises stops the run. ``contextlib.nullcontext`` permits everything.
"""


class Engine(Protocol):
    """Plays episodes: an agent with a skill in environments."""

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play every episode and return the results in the order of ``specs``.

        A fault is a result with a `Failure`; it does not stop the others.

        Raises:
            ModelRefused: An endpoint refuses the key or the model; a retry cannot help.
            EngineDown: Nothing but failures came back for too long.
            UsageError: An environment cannot be built as asked.
        """
        ...


class EpisodeRecorder(Protocol):
    """Remembers finished episodes; provided by the store of a run."""

    def find(self, key: str) -> EpisodeResult | None:
        """Return the result recorded under a key, or ``None``."""
        ...

    def known_to_fail(self, key: str) -> bool:
        """Tell whether an episode failed while others went well.

        It was recorded without a reward, and another one was with a reward after it. What fails in
        an outage, which nothing survives, is not known to fail.
        """
        ...

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Keep a finished episode under ``result.key``, durably, before this returns.

        Returns:
            The episode as `find` will give it, so that a resumed run is given the same now as
            after a resume.
        """
        ...

    def abandon(self, result: EpisodeResult) -> None:
        """Keep what an episode consumed that was stopped on its way and has no result."""
        ...


class MemoryRecorder:
    """Remembers episodes for as long as the process lives; for notebooks and tests."""

    def __init__(self) -> None:
        self.results: list[EpisodeResult] = []
        self.abandoned: list[EpisodeResult] = []
        self._by_key: dict[str, EpisodeResult] = {}

    def find(self, key: str) -> EpisodeResult | None:
        """Return the latest result recorded under a key, or ``None``."""
        return self._by_key.get(key)

    def known_to_fail(self, key: str) -> bool:
        """Tell whether an episode failed, and one that was recorded later did not."""
        by_time = iter(self.results)
        failed = any(one.key == key and one.reward is None for one in by_time)
        return failed and any(one.reward is not None for one in by_time)

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Keep a result; ``results`` lists all of them in the order in which they finished."""
        self.results.append(result)
        self._by_key[result.key] = result
        return result

    def abandon(self, result: EpisodeResult) -> None:
        """Keep it in ``abandoned``."""
        self.abandoned.append(result)


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """An environment answered an action.

    Attributes:
        spec: The episode.
        attempt: Which attempt at it, from 1.
        turn: What happened.
    """

    spec: EpisodeSpec
    attempt: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class EpisodeFinished:
    """An episode has its result, all attempts over.

    Attributes:
        result: The result.
        reused: It was recorded before and was not played again.
    """

    result: EpisodeResult
    reused: bool = False


class Observer(Protocol):
    """Watches an engine. It only watches; what it raises stops the run."""

    def on_turn(self, event: TurnFinished) -> None:
        """Called after every turn."""
        ...

    def on_episode(self, event: EpisodeFinished) -> None:
        """Called once per episode; one that is asked for twice at the same time shows once."""
        ...


def episode_key(
    spec: EpisodeSpec,
    skill_text: str,
    *,
    agent_identity: str,
    env_identity: Mapping[str, Any],
    limits: Limits,
    prompt: PromptStyle,
) -> str:
    """Return the content address of an episode: same question, same answer.

    Everything that can change a reward is in it: the world, the task, the seed, who acts, what it
    is given, and where it is cut. What the episode is for (``spec.phase``) is not.

    Returns:
        64 hexadecimal digits.

    Raises:
        DataError: The extras of the task, or the environment's identity, are no JSON values.
    """
    question = {
        "env": spec.task.env,
        "env_identity": dict(env_identity),
        "task": spec.task.id,
        "extras": dict(spec.task.extras),
        "seed": spec.seed,
        "draw": spec.draw,
        "agent": agent_identity,
        "limits": limits.identity(),
        "prompt": prompt.identity(),
        "skill": text_digest(skill_text) if skill_text.strip() else "",
    }
    try:
        return digest(question)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"task {spec.task.id!r} cannot be named by its content: {error}. The extras of a task "
            "and the environment's settings must be plain JSON values."
        ) from error
