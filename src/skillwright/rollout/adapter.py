"""Play any text environment and its tasks through the adapter interface."""

import logging
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.core import EpisodeResult, EpisodeSpec, PlainSkill, SkillSource, StopReason, Task
from skillwright.core.seeds import derive_seed, evaluation_seed
from skillwright.datasets import SplitError, by_split, canonical_split
from skillwright.envs.adapter import EnvAdapter, Row
from skillwright.rollout.engine import Engine, EngineDown
from skillwright.rollout.loop_thread import LoopThread
from skillwright.rollout.transcript import write_json, write_predictions

FAILURES_FILE = "failures.json"

logger = logging.getLogger(__name__)


class TextEnvAdapter(EnvAdapter):
    """Plays the tasks of a text environment for a trainer that only supports adapters.

    An environment manager is a list of `EpisodeSpec`. An episode that failed after its retries has
    no row; it is logged and listed with its cause in ``<out_dir>/failures.json``.

    Args:
        engine: Plays the episodes. `rollout` uses it in a private event loop, so an engine that is
            used through `rollout` must not be used elsewhere.
        tasks: The tasks by split; aliases such as ``valid_seen`` are understood.
        success_threshold: The reward from which an episode is a success.

    Raises:
        SplitError: A split's name is unknown, or two names mean the same split.
    """

    def __init__(
        self, engine: Engine, tasks: Mapping[str, Sequence[Task]], *, success_threshold: float = 1.0
    ) -> None:
        self.engine = engine
        self.tasks = {split: tuple(of) for split, of in by_split(tasks).items()}
        self.success_threshold = success_threshold
        self._loop = LoopThread()

    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> list[EpisodeSpec]:
        """Choose the first ``batch_size`` tasks of a shuffle by ``seed``.

        Raises:
            SplitError: There are no train tasks.
        """
        order = list(self._tasks_of("train"))
        random.Random(seed).shuffle(order)
        return [
            EpisodeSpec(task, seed=derive_seed("training", seed, task.id), phase="train")
            for task in order[:batch_size]
        ]

    def build_eval_env(
        self, env_num: int, split: str, seed: int, **kwargs: Any
    ) -> list[EpisodeSpec]:
        """Choose the first ``env_num`` tasks of a split, in order; 0 chooses all.

        Raises:
            SplitError: The split is unknown or empty, or ``env_num`` is negative.
        """
        if env_num < 0:
            raise SplitError(f"env_num is {env_num}; give a number of tasks, or 0 for all")
        name = canonical_split(split)
        tasks = self._tasks_of(name)
        return [
            EpisodeSpec(task, seed=evaluation_seed(seed, task.id, draw=0), phase=name)
            for task in tasks[: env_num or len(tasks)]
        ]

    async def arollout(
        self, specs: Sequence[EpisodeSpec], skills: SkillSource
    ) -> list[EpisodeResult]:
        """Play episodes in the caller's event loop; results in the order of ``specs``."""
        return await self.engine.run(specs, skills)

    def rollout(
        self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row]:
        """Play a batch and write its conversations; blocks, inside a running loop or not.

        Returns:
            A row per scored episode, in the order of the specs, with ``id``, ``hard`` (0 or 1),
            ``soft`` (the reward, clipped to [0, 1]), ``n_turns``, ``task_type``,
            ``task_description`` and ``fail_reason``.

        Raises:
            EngineDown: Every episode failed.
        """
        results = self._loop.run(self.arollout(list(env_manager), PlainSkill(skill_content)))
        self._report_failures(results, Path(out_dir))
        scored = [result for result in results if result.failure is None]
        conversations = {_episode_id(result.spec): result.trajectory for result in scored}
        write_predictions(Path(out_dir) / "predictions", conversations)
        return [self._row(result) for result in scored]

    def get_task_types(self) -> list[str]:
        """Return the distinct task types over all splits, sorted."""
        types = {task.task_type for tasks in self.tasks.values() for task in tasks}
        return sorted(types - {""})

    def close(self) -> None:
        """End the private event loop, if `rollout` started one. Closing twice is allowed."""
        self._loop.close()

    def _tasks_of(self, split: str) -> tuple[Task, ...]:
        tasks = self.tasks.get(split, ())
        if not tasks:  # an empty batch would score zero
            given = ", ".join(name for name, some in self.tasks.items() if some) or "no split"
            raise SplitError(f"this adapter has no {split} tasks; it has tasks for: {given}")
        return tasks

    def _row(self, result: EpisodeResult) -> Row:
        passed = result.is_success(self.success_threshold)
        return {
            "id": _episode_id(result.spec),
            "hard": int(passed),
            "soft": min(max(result.reward or 0.0, 0.0), 1.0),
            "n_turns": len(result.trajectory.turns),
            "task_type": result.task_type,
            "task_description": result.spec.task.description,
            "fail_reason": "" if passed else _fail_reason(result),
        }

    def _report_failures(self, results: Sequence[EpisodeResult], out_dir: Path) -> None:
        failures = [
            {"id": _episode_id(result.spec), **result.failure.to_dict()}
            for result in results
            if result.failure is not None
        ]
        if not failures:
            (out_dir / FAILURES_FILE).unlink(missing_ok=True)  # left by an earlier rollout
            return
        write_json(out_dir / FAILURES_FILE, failures)
        latest = failures[-1]["message"]
        if len(failures) == len(results):
            raise EngineDown(
                f"all {len(failures)} episodes failed, and no rows would read as a score of zero; "
                f"mend the cause and roll out again. The latest: {latest}"
            )
        logger.warning(
            "%d of %d episodes failed and are left out of the scores (%s); the latest: %s",
            len(failures),
            len(results),
            out_dir / FAILURES_FILE,
            latest,
        )


def _episode_id(spec: EpisodeSpec) -> str:
    return spec.task.id if spec.draw == 0 else f"{spec.task.id}.{spec.draw}"


def _fail_reason(result: EpisodeResult) -> str:
    reason = {
        StopReason.MAX_TURNS: "the turn limit was reached",
        StopReason.CONTEXT: "the conversation outgrew the agent's context",
    }.get(result.stop_reason, "the episode ended without success")
    return f"{reason} (reward {result.reward:.2f} after {len(result.trajectory.turns)} turns)"
