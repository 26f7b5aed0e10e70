"""The limits of episodes: turns, seconds, characters, concurrency and retries."""

from dataclasses import dataclass
from typing import Any

from skillwright.core import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of every episode that an engine plays; ``None`` means no limit.

    ``max_turns`` and ``context`` are truncations: the reward so far counts. An exceeded deadline is
    a Failure and has no reward.

    Attributes:
        max_turns: Maximum number of actions, at least 1; a task's own smaller limit applies.
        episode_timeout_s: Seconds per attempt, above 0, without time in the queue.
        max_concurrent: Episodes in flight over all calls of one engine, at least 1.
        retries: Further attempts, each in a fresh environment, for an episode that failed.
        max_prompt_chars: Maximum characters of a prompt; a longer one truncates the episode.
        give_up_after: Consecutive failures after which the engine is considered down.
        max_failure_share: Share of failures among the latest episodes above which the engine is
            considered down, in [0, 1]; see `skillwright.rollout.circuit`.

    Raises:
        ConfigError: A limit is out of its range.
    """

    max_turns: int | None = None
    episode_timeout_s: float | None = None
    max_concurrent: int = 64
    retries: int = 2
    max_prompt_chars: int | None = None
    give_up_after: int | None = 20
    max_failure_share: float | None = 0.5

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_concurrent", "max_prompt_chars", "give_up_after"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"limits.{name} is {value}; it must be at least 1")
        if self.retries < 0:
            raise ConfigError(f"limits.retries is {self.retries}; 0 means one attempt only")
        share = self.max_failure_share
        if share is not None and not 0 <= share <= 1:
            raise ConfigError(f"limits.max_failure_share is {share}; it is a share, from 0 to 1")
        if self.episode_timeout_s is not None and not self.episode_timeout_s > 0:
            raise ConfigError(
                f"limits.episode_timeout_s is {self.episode_timeout_s}; "
                "give seconds above 0, or leave it out for no deadline"
            )

    def identity(self) -> dict[str, Any]:
        """Return the limits that can change a reward, for the episode key."""
        return {"max_turns": self.max_turns, "max_prompt_chars": self.max_prompt_chars}
