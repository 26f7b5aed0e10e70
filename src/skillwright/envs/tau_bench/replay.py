"""An episode of tau-bench once more: the agent's turns and the user's words as they were stored."""

from dataclasses import dataclass

from skillwright.core import EpisodeResult, SkillwrightError, StopReason, Turn
from skillwright.core.agent import sendable, with_ids_of
from skillwright.envs.about import Replay
from skillwright.envs.text_env import StepOutput, TextEnv


class _NotAsked(SkillwrightError):
    """The user is spoken to in a turn in which it was not."""


@dataclass(slots=True)
class RecordedUser:
    """Says what was recorded; `next_reply` is set before every turn, ``None`` where there was none.

    Attributes:
        opening: What it opened with.
        next_reply: What it says to the next message.
    """

    opening: str
    next_reply: str | None = None

    def reset(self, instruction: str) -> str:
        """Say the opening message."""
        del instruction
        return self.opening

    def step(self, content: str) -> str:
        """Say what was said in this turn."""
        del content
        if self.next_reply is None:
            raise _NotAsked("the agent would speak to the user where it called a tool")
        return self.next_reply


def replay(env: TextEnv, user: RecordedUser, episode: EpisodeResult) -> Replay:
    """Play a scored episode again in a fresh environment whose user says what is recorded."""
    turns = episode.trajectory.turns
    env.init([])
    reward, done = 0.0, False
    for turn in turns:
        said = turn.metadata.get("source") == "user"
        user.next_reply = turn.observation if said else None
        output = _taken(env, turn)
        metadata = output["metadata"]
        if metadata.get("infra_error"):
            return Replay(None, f"turn {turn.index}: {metadata['error']}")
        if metadata["observation"] != turn.observation:
            return Replay(None, f"turn {turn.index}: the agent would read something else")
        reward, done = reward + output["reward"], output["done"]
        if done and turn is not turns[-1]:
            return Replay(None, f"turn {turn.index}: the episode would have ended")
    if not done and episode.stop_reason is not StopReason.CONTEXT:
        return Replay(None, "the episode would have continued")
    then = episode.reward or 0.0
    return Replay(reward, "" if reward == then else _difference(turns[-1].metadata, metadata))


def _taken(env: TextEnv, turn: Turn) -> StepOutput:
    if not env.native_tools():
        return env.step(turn.act.text)
    calls = turn.act.tool_calls
    return env.step_native(turn.act.text, with_ids_of(calls, sendable(calls, turn.prompt)))


def _difference(then: object, now: object) -> str:
    """Say which part of the reward came out differently."""
    before, after = (_breakdown(one) for one in (then, now))
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    return "another " + ", ".join(names) if names else "it is paid by another rule"


def _breakdown(metadata: object) -> dict[str, object]:
    found = metadata.get("reward_breakdown") if isinstance(metadata, dict) else None
    return {name: value for name, value in (found or {}).items() if name != "reward"}
