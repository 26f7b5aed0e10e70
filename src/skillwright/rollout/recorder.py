"""Store finished episodes under the content address of what determines them."""

from collections.abc import Mapping
from typing import Any, Protocol

from skillwright.core import DataError, EpisodeResult, EpisodeSpec
from skillwright.core.jsonio import digest, text_digest
from skillwright.rollout.limits import Limits
from skillwright.rollout.prompt import PromptStyle


class EpisodeRecorder(Protocol):
    """Stores finished episodes; a run's store provides one."""

    def find(self, key: str) -> EpisodeResult | None:
        """Return the result recorded under a key, or ``None``."""

    def known_to_fail(self, key: str) -> bool:
        """Tell whether an episode failed and a later one did not: then the engine was not down."""

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Store a finished episode under ``result.key``, durably, and return it as `find` will."""

    def abandon(self, result: EpisodeResult) -> None:
        """Store the usage of an episode that was stopped and has no result."""


class MemoryRecorder:
    """Keeps episodes in memory, for notebooks and tests."""

    def __init__(self) -> None:
        self.results: list[EpisodeResult] = []
        self.abandoned: list[EpisodeResult] = []
        self._by_key: dict[str, EpisodeResult] = {}

    def find(self, key: str) -> EpisodeResult | None:
        """Return the latest result recorded under a key, or ``None``."""
        return self._by_key.get(key)

    def known_to_fail(self, key: str) -> bool:
        """Tell whether an episode failed and a later one did not."""
        by_time = iter(self.results)
        failed = any(one.key == key and one.reward is None for one in by_time)
        return failed and any(one.reward is not None for one in by_time)

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Keep a result; ``results`` lists all in the order in which they finished."""
        self.results.append(result)
        self._by_key[result.key] = result
        return result

    def abandon(self, result: EpisodeResult) -> None:
        """Keep it in ``abandoned``."""
        self.abandoned.append(result)


def episode_key(
    spec: EpisodeSpec,
    skill_text: str,
    *,
    agent_identity: str,
    env_identity: Mapping[str, Any],
    limits: Limits,
    prompt: PromptStyle,
) -> str:
    """Return the content address of an episode, 64 hexadecimal digits.

    It covers everything that can change a reward: environment, task, seed, agent, skill, limits
    and prompt style. It does not cover the purpose of the episode (``spec.phase``).

    Raises:
        DataError: The task's extras or the environment's identity are not JSON values.
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
