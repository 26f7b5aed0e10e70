"""Our episodes in TRL's `GRPOTrainer`: a ``rollout_func``, and the reward that goes with it.

    rollouts = TrlRollouts(tasks, skills)
    trainer = GRPOTrainer(
        model,
        reward_funcs=rollouts.reward,
        rollout_func=rollouts,
        train_dataset=Dataset.from_list(rollouts.dataset_rows()),
        args=GRPOConfig(num_generations=8, loss_type="dapo", ...),
    )

Importing this module loads torch. Source: TRL 1.16, ``trl/trainer/grpo_trainer.py``.
"""

import importlib.metadata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from skillwright.core import (
    ConfigError,
    ContractError,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    PlainSkill,
    SkillSource,
    Task,
    did_you_mean,
)
from skillwright.core.seeds import derive_seed
from skillwright.envs import make
from skillwright.policy import PolicyAgent, Row, joined, outcome_of
from skillwright.policy.hf import HfPolicy, HfSettings
from skillwright.rollout import Limits, LocalEngine, PromptStyle, refuse_no_score
from skillwright.rollout.loop_thread import LoopThread

__all__ = ["TrlEpisode", "TrlRollouts", "refuse_unfit"]

INSTALL: Final = "pip install 'skillwright[trl]'"
OLDEST: Final = (1, 16)
"""The TRL that this was written for; before it, a reward of ``None`` was a reward of 0."""

_PLAIN: Final = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
_ONE_COPY: Final = ("NO", "MULTI_CPU", "MULTI_GPU")


@dataclass(frozen=True, slots=True)
class TrlEpisode:
    """An episode for TRL: its result, a row per turn, and the turns joined; none for a failure."""

    result: EpisodeResult
    turns: tuple[Row, ...]
    whole: Row | None

    @property
    def reward(self) -> float | None:
        """Reward in training; ``None`` for a failure."""
        return None if self.whole is None else outcome_of(self.result)


class TrlRollouts:
    """A ``rollout_func`` that plays episodes with the trainer's current weights.

    TRL passes only the prompt of a row, so the prompt is a task id (`dataset_rows`). All episodes
    of a task get the same skills. An episode is one completion, in which the environment's tokens
    have a zero in ``env_mask``, so each turn's prompt must continue the previous one. A failure is
    retried (``limits.retries``), then its reward is ``None`` and its only token is masked.

    Answers are sampled from the whole vocabulary at the trainer's temperature, with
    `skillwright.policy.hf.HfPolicy` on the trainer's own model, whose dropout is set to 0.

    Args:
        tasks: Training tasks, with unique ids.
        skills: Skills per task; ``None`` for none.
        env_config: Settings shared by all episodes.
        limits: Limits of an episode.
        max_new_tokens: Maximum tokens of a turn; ``None``: ``max_completion_length``.
        template: Arguments of the chat template (``enable_thinking = false``).
        seed: Base of all episode seeds.

    Attributes:
        episodes: Episodes of the latest call, in order of its prompts.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        skills: SkillSource | None = None,
        *,
        env_config: object | None = None,
        limits: Limits | None = None,
        max_new_tokens: int | None = None,
        template: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.tasks = {task.id: task for task in tasks}
        if not tasks or len(self.tasks) < len(tasks):
            raise DataError("TrlRollouts needs at least one task, and each id once")
        self.episodes: tuple[TrlEpisode, ...] = ()
        self._skills = skills or PlainSkill("")
        self._env_config = env_config
        self._limits = limits or Limits()
        self._max_new_tokens = max_new_tokens
        self._template = template or {}
        self._seed = seed
        self._calls = 0
        self._loop = LoopThread()
        self._player: tuple[Any, PolicyAgent, LocalEngine] | None = None

    def dataset_rows(self) -> list[dict[str, str]]:
        """Return a row per task for the trainer's data set: its prompt is the task's id."""
        return [{"prompt": task_id} for task_id in self.tasks]

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        """Play an episode per prompt, a task id; return TRL's columns and ``episode_reward``.

        Raises:
            ConfigError: The trainer has unsupported settings.
            DataError: A prompt is no task id, or an environment cannot be built.
            EngineDown: No episode has a reward.
            ContractError: A prompt does not continue the previous one.
        """
        specs = self._specs(prompts, trainer)
        training = trainer.model.training
        model, agent, engine = self._playing(trainer)
        agent.backend.forget()
        try:
            results = self._loop.run(engine.run(specs, self._skills))
        finally:
            # TRL takes what it is doing from the mode of its model.
            model.train(training)
        refuse_no_score(results)
        self.episodes = tuple(_episode(one, agent) for one in results)
        agent.forget()
        filler = int(trainer.processing_class.eos_token_id)
        return _columns(self.episodes, filler)

    @staticmethod
    def reward(
        completions: Sequence[Any], episode_reward: Sequence[float | None], **_: Any
    ) -> list[float | None]:
        """Return the rewards of the episodes: TRL's ``reward_funcs``; ``None`` for a failure."""
        return list(episode_reward)

    def close(self) -> None:
        """End the thread that episodes are played in. Closing twice is allowed."""
        self._loop.close()

    def _specs(self, prompts: Sequence[Any], trainer: Any) -> list[EpisodeSpec]:
        self._calls += 1
        step, rank = int(trainer.state.global_step), int(trainer.accelerator.process_index)
        phase = "train" if trainer.model.training else "val"
        met: Counter[str] = Counter()
        specs = []
        for prompt in prompts:
            task = self._task(prompt)
            draw, met[task.id] = met[task.id], met[task.id] + 1
            seed = derive_seed("trl", self._seed, step, self._calls, rank, task.id, draw)
            specs.append(EpisodeSpec(task, seed, draw, phase, step))
        return specs

    def _task(self, prompt: Any) -> Task:
        if not isinstance(prompt, str):
            raise DataError(
                f"a prompt of the data set is {type(prompt).__name__}, and TrlRollouts needs the id"
                " of a task: make the data set of dataset_rows()"
            )
        if prompt not in self.tasks:
            near = did_you_mean(prompt, self.tasks)
            raise DataError(
                f"the prompt {prompt[:80]!r} is the id of no task. {near} Make the data set of "
                "dataset_rows()"
            )
        return self.tasks[prompt]

    def _playing(self, trainer: Any) -> tuple[Any, PolicyAgent, LocalEngine]:
        """Return the trainer's model, and what plays with it."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        if self._player is None or self._player[0] is not model:
            refuse_unfit(trainer)
            settings = HfSettings(
                precision=_precision(model),
                device=str(model.device),
                max_new_tokens=self._max_new_tokens or trainer.args.max_completion_length,
                restrict=False,
                template=self._template,
            )
            policy = _policy_over(model, trainer.processing_class, settings)
            agent = PolicyAgent(policy, float(trainer.args.temperature))
            engine = LocalEngine(
                agent,
                lambda task: make(task.env, self._env_config, dict(task.extras)),
                limits=self._limits,
                prompt=PromptStyle(),
                mode="lockstep",
            )
            self._player = model, agent, engine
        return self._player


def refuse_unfit(trainer: Any) -> None:
    """Raise a `ConfigError` for an old TRL, another sampler, sharded weights, or other sampling."""
    try:
        version = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError(f"TRL is not installed; {INSTALL}") from error
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise ConfigError(
            f"TRL is {version}, and TrlRollouts needs 1.16: older ones read a reward of None as 0. "
            f"{INSTALL}"
        )
    args = trainer.args
    if args.use_vllm:
        raise ConfigError(
            "use_vllm is set, and TrlRollouts samples with the trainer's own model; leave it out. "
            "Where one GPU is not enough, train with SkyRL (skillwright.plugins.skyrl.envs)"
        )
    kind = str(getattr(trainer.accelerator.distributed_type, "value", "NO"))
    if kind not in _ONE_COPY:
        raise ConfigError(
            f"weights are spread by {kind}, and TrlRollouts samples from whole ones: train on one "
            "device, or with plain data parallelism"
        )
    for name, usual in _PLAIN.items():
        given = getattr(args, name, usual)
        if given not in (usual, None):
            raise ConfigError(
                f"{name} is {given}, and TrlRollouts samples by temperature alone; leave it at "
                f"{usual}"
            )


def _policy_over(model: Any, tokenizer: Any, settings: HfSettings) -> HfPolicy:
    """Return a policy that samples from a model, without changing which weights train."""
    learns = {name: one.requires_grad for name, one in model.named_parameters()}
    policy = HfPolicy(model, tokenizer, settings)
    for name, one in model.named_parameters():
        one.requires_grad_(learns[name])
    return policy


def _precision(model: Any) -> Any:
    names = {torch.bfloat16: "bfloat16", torch.float64: "float64"}
    return names.get(model.dtype, "float32")


def _episode(result: EpisodeResult, agent: PolicyAgent) -> TrlEpisode:
    if result.failure is not None:
        return TrlEpisode(result, (), None)
    turns = agent.rows(result)
    whole = joined(turns)
    if len(whole) != 1:
        raise ContractError(
            f"an episode of task {result.task_id!r} comes to {len(whole)} rows, and TRL trains on "
            "one completion: the prompt of a turn does not continue the one before it. The chat "
            "template rewrites earlier turns (some drop what a model thought: template = "
            "{'enable_thinking': False}); take another one, or train with `skillwright rl`"
        )
    return TrlEpisode(result, turns, whole[0])


def _columns(episodes: Sequence[TrlEpisode], filler: int) -> dict[str, list[Any]]:
    """Return TRL's columns; a failure is one masked token."""
    rows = [one.whole for one in episodes]
    return {
        "prompt_ids": [list(row.context.prompt_ids) if row else [filler] for row in rows],
        "completion_ids": [list(row.token_ids) if row else [filler] for row in rows],
        "env_mask": [[int(one) for one in row.loss_mask] if row else [0] for row in rows],
        "logprobs": [list(row.old_logprobs) if row else [0.0] for row in rows],
        "episode_reward": [one.reward for one in episodes],
    }
