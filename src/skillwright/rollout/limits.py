"""The limits of episodes: turns, seconds, characters, concurrency and retries."""

from dataclasses import dataclass
from typing import Any

from skillwright.core import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of every episode that an engine plays. ``None`` means no bound.

    Why an episode ended is its `StopReason`: ``max_turns`` and ``context`` are truncations, whose
    reward so far stands; a passed deadline is a Failure and has no reward.

    Attributes:
        max_turns: Most actions in an episode, at least 1. Where the task sets a limit of its own
            the smaller one holds.
        episode_timeout_s: Seconds that one attempt may take, above 0, counted from its start:
            queueing is not slowness.
        max_concurrent: Episodes in flight at once over all calls of one engine, at least 1.
        retries: Further attempts, each in a fresh environment, for an episode that failed.
        max_prompt_chars: Most characters of a prompt; an episode whose next prompt would be
            longer is cut there.
        give_up_after: Failures in a row after which the engine is taken to be down.
        max_failure_share: It is also where more than this share of the latest episodes failed, in
            [0, 1]; see `skillwright.rollout.local`.

    Raises:
        ConfigError: A bound is out of its range.
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
        """Return the bounds that can change a reward, for the episode key.

        How many episodes run at once, how often a fault is retried and how long an attempt may
        take decide whether there is a reward, never which.
        """
        return {"max_turns": self.max_turns, "max_prompt_chars": self.max_prompt_chars}
