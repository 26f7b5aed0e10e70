"""The limits of episodes: turns, seconds, characters, concurrency and retries."""

from typing import Any

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from skillwright.core.settings import Settings
from skillwright.models.validation import Share


class PlayLimits(Settings):
    """The limits of episodes that a configuration sets; unset means no limit."""

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
    """The limits of every episode that an engine plays; ``None`` means no limit.

    ``max_turns`` and ``context`` are truncations: the reward so far counts. An exceeded deadline
    is a Failure and has no reward; ``episode_timeout_s`` excludes time in the queue.
    """

    max_turns: PositiveInt | None = None
    """Maximum number of actions; a task's own smaller limit applies."""
    max_prompt_chars: PositiveInt | None = None
    """Maximum characters of a prompt; a longer one truncates the episode."""

    def identity(self) -> dict[str, Any]:
        """Return the limits that can change a reward, for the episode key."""
        return {"max_turns": self.max_turns, "max_prompt_chars": self.max_prompt_chars}
