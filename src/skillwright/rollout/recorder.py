"""Store finished episodes under the content address of what determines them."""

from collections.abc import Mapping
from typing import Any, Protocol

from skillwright.core import (
    DataError,
    EpisodeResult,
    EpisodeSpec,
)
from skillwright.core.jsonio import digest, text_digest
from skillwright.rollout.limits import Limits
from skillwright.rollout.prompt import PromptStyle


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
