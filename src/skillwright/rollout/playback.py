"""Replay a recorded episode: send its agent's actions to a fresh environment.

No model is called: the record also has the answers of others, such as a simulated user
(`TextEnv.use_record`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from skillwright.core import (
    Act,
    Agent,
    ContractError,
    EnvError,
    EpisodeResult,
    Message,
    RequestRefused,
    SkillContext,
    StopReason,
    Task,
    Trajectory,
    Turn,
    TurnContext,
    Usage,
)
from skillwright.core.jsonio import JsonRecord, dumps, encode
from skillwright.core.result import USER_TURN
from skillwright.envs import TextEnv
from skillwright.rollout.episode import Assignment, Attempt, MakeEnv
from skillwright.rollout.limits import Limits
from skillwright.rollout.prompt import PromptStyle, recorded_skill

_AROUND: Final = 60  # characters quoted on either side of the first difference


@dataclass(frozen=True, slots=True)
class Difference(JsonRecord):
    """A difference between a record and the replay.

    Attributes:
        turn: Turn from 0; ``None`` for the opening, or for the whole episode.
        field: Name of the value: ``observation``, ``reward``, ``metadata.truncated``, ...
        recorded: The recorded value, cut around the first difference.
        now: The value in the replay.
    """

    turn: int | None
    field: str
    recorded: str
    now: str

    @property
    def parts_ways(self) -> bool:
        """Whether the agent's next prompt would differ from the record, or not exist."""
        return self.field in ("observation", "end", "environment")


@dataclass(frozen=True, slots=True)
class PlayedBack:
    """The result of a replay.

    Attributes:
        turns: Number of turns taken.
        last: The last of them in the replay, or ``None``.
        reward: The final reward; ``None`` if the episode is not over or has none.
        skill: The skill text in its prompt; ``None`` if its first prompt differs.
        differences: In order; the replay stops at the first that changes the agent's prompt.
    """

    turns: int
    last: Turn | None
    reward: float | None
    skill: str | None
    differences: tuple[Difference, ...]

    @property
    def difference(self) -> Difference | None:
        """The first difference, or ``None``."""
        return self.differences[0] if self.differences else None


async def play_back(
    episode: EpisodeResult,
    make_env: MakeEnv,
    limits: Limits,
    prompt: PromptStyle,
    turns: int | None = None,
) -> PlayedBack:
    """Replay an episode in a fresh environment and compare turn by turn.

    Args:
        episode: The recorded episode.
        make_env: Builds the environment of a task.
        limits: The limits of the recorded episode.
        prompt: The style of its prompts.
        turns: Number of turns to replay from the start; ``None`` for the whole episode.

    Raises:
        UsageError: The environment cannot be built or opened.
    """
    taken: list[Turn] = []
    found: list[Difference] = []
    skill: str | None = None
    attempt = Attempt(
        Assignment(episode.spec, SkillContext(""), ""),
        continuing(make_env, episode.trajectory, turns),
        limits,
        prompt,
        taken.append,
        takes_tools=True,
    )
    with closing(attempt):
        try:
            await attempt.start()
            opening = attempt.context.messages
            skill = recorded_skill(_first_prompt(episode), opening)
            found += _opening(episode, attempt.opening, opening, is_known=skill is not None)
            await _take(attempt, episode.trajectory.turns[:turns], taken, found)
        except (EnvError, ContractError) as fault:
            found.append(Difference(len(taken), "environment", "answered", str(fault)))
        if turns is None and not any(one.parts_ways for one in found):
            found += _end(attempt, episode)
        over = not attempt.live and not any(one.parts_ways for one in found)
        score = _outcome(attempt).reward if over else None
    return PlayedBack(len(taken), taken[-1] if taken else None, score, skill, tuple(found))


async def _take(
    attempt: Attempt, turns: Sequence[Turn], taken: list[Turn], found: list[Difference]
) -> None:
    for then in turns:
        if not attempt.live:
            found.append(Difference(then.index - 1, "end", "the episode continues", "it is over"))
        else:
            await attempt.advance(then.act)
            found += _turn(then, taken[-1])
        if found and found[-1].parts_ways:
            return


def _first_prompt(episode: EpisodeResult) -> tuple[Message, ...]:
    turns = episode.trajectory.turns
    return turns[0].prompt if turns else ()


def _opening(
    episode: EpisodeResult, opened: Trajectory, messages: Sequence[Message], *, is_known: bool
) -> Iterator[Difference]:
    then, first = episode.trajectory, _first_prompt(episode)
    yield from _compared(None, "opening", then.opening, opened.opening)
    if first and not is_known:
        yield from _compared(None, "prompt", list(first[-len(messages) :]), list(messages))
    yield from _compared(None, "metadata", then.metadata, opened.metadata)


def _turn(then: Turn, now: Turn) -> list[Difference]:
    """Return the differences of a turn; one in the observation comes last."""
    found = [
        *_compared(then.index, "reward", then.reward, now.reward),
        *_compared(then.index, "messages", list(then.messages), list(now.messages)),
        *_compared(then.index, "metadata", then.metadata, now.metadata),
    ]
    seen = list(_compared(then.index, "observation", then.observation, now.observation))
    if not seen:
        return found
    # Messages and metadata repeat the text; one of them is enough.
    return [*(one for one in found if one.field == "reward"), *seen]


def _end(attempt: Attempt, episode: EpisodeResult) -> Iterator[Difference]:
    turn = len(episode.trajectory.turns) - 1
    failed = episode.failure is not None
    if attempt.live and episode.stop_reason is StopReason.CONTEXT and not failed:
        attempt.cut(RequestRefused("the agent's window was full"))
    if attempt.live is not failed:
        states = ("the episode continues", "it is over")
        yield Difference(turn, "end", states[not failed], states[failed])
    elif not failed:
        now = _outcome(attempt)
        for field in ("stop_reason", "reward"):
            yield from _compared(None, field, getattr(episode, field), getattr(now, field))
        counted = _without(now.metrics, attempt.outside_metrics)
        then = _without(episode.metrics, attempt.outside_metrics)
        yield from _compared(None, "metrics", then, counted)


def _without(metrics: Mapping[str, float], names: frozenset[str]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name not in names}


def _outcome(attempt: Attempt) -> EpisodeResult:
    return attempt.result(attempts=1, started_at=0.0, lost=Usage(), lost_side={})


_ABSENT: Final = object()


def _compared(turn: int | None, field: str, then: Any, now: Any) -> Iterator[Difference]:
    place = _first(field, encode(then), encode(now))
    if place is not None:
        name, old, new = place
        yield Difference(turn, name, *_shown(old, new))


def _first(name: str, then: Any, now: Any) -> tuple[str, Any, Any] | None:
    """Return the name and both values of the first difference of two JSON values."""
    if isinstance(then, dict) and isinstance(now, dict):
        names = [*then, *(key for key in now if key not in then)]
        pairs = [(f"{name}.{key}", then.get(key, _ABSENT), now.get(key, _ABSENT)) for key in names]
        # A simulated user's reasoning and usage are replayed, so they are not compared.
        pairs = [one for one in pairs if one[0] != f"metadata.{USER_TURN}"]
    elif isinstance(then, list) and isinstance(now, list):
        longest = range(max(len(then), len(now)))
        sides = ([*one, *[_ABSENT] * (len(longest) - len(one))] for one in (then, now))
        pairs = [(f"{name}[{at}]", *pair) for at, pair in enumerate(zip(*sides, strict=True))]
    else:
        return None if then == now and (then is _ABSENT) is (now is _ABSENT) else (name, then, now)
    return next((found for one in pairs if (found := _first(*one)) is not None), None)


def _shown(then: Any, now: Any) -> tuple[str, str]:
    old, new = _text(then), _text(now)
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), None)
    at = min(len(old), len(new)) if same is None else same
    return _cut(old, at), _cut(new, at)


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    return value if isinstance(value, str) else dumps(value)


def _cut(text: str, at: int) -> str:
    start, end = max(at - _AROUND, 0), at + _AROUND
    return f"{'...' * (start > 0)}{text[start:end]}{'...' * (end < len(text))}"


def continuing(make_env: MakeEnv, record: Trajectory, turns: int | None = None) -> MakeEnv:
    """Return a factory of environments whose simulated users and models answer from a record.

    Args:
        make_env: Builds the environment of a task.
        record: The recorded answers.
        turns: Number of recorded turns, after which models are called; ``None`` for all.
    """

    def build(task: Task) -> TextEnv:
        env = make_env(task)
        if hasattr(env, "use_record"):  # SkyRL-Gym environments call no model
            env.use_record(record, turns)
        return env

    return build


@dataclass(eq=False)
class RecordedStart:
    """An agent that repeats the first ``turns`` turns of a record, then acts as ``agent``.

    Repeated turns cost nothing. If an environment answers differently from the record, the episode
    ends with a `Failure`.
    """

    agent: Agent
    episode: EpisodeResult
    turns: int

    @property
    def identity(self) -> str:
        """Identity of the agent and of the repeated record."""
        return f"{self.agent.identity} from turn {self.turns} of {self.episode.key}"

    @property
    def takes_tools(self) -> bool:
        """Whether the agent can be offered tools natively."""
        return bool(getattr(self.agent, "takes_tools", False))

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Repeat recorded acts or ask the agent, in order.

        Raises:
            EnvError: An environment answered differently from the record.
        """
        live = [one for one in contexts if one.turn >= self.turns]
        for one in contexts:
            self._refuse_other(one)
        fresh = iter(await self.agent.act_batch(live) if live else [])
        turns = self.episode.trajectory.turns
        return [
            replace(turns[one.turn].act, usage=Usage()) if one.turn < self.turns else next(fresh)
            for one in contexts
        ]

    def _refuse_other(self, context: TurnContext) -> None:
        if not 0 < context.turn <= self.turns:
            return
        then = self.episode.trajectory.turns[context.turn - 1].messages
        now = tuple(context.messages)[-len(then) :] if then else ()
        if encode(then) != encode(now):
            raise EnvError(
                f"turn {context.turn - 1} was not answered as it is recorded, so nothing can "
                "continue from there"
            )
