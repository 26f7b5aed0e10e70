"""A generator for SkyRL's trainer that plays episodes with our engine.

It implements ``GeneratorInterface`` and returns step-wise rows: one per turn, with the sampled
tokens. Errors that SkyRL's own generator scores as zero are retried in a fresh environment, and
then left out.

Importing this module loads torch. Source: SkyRL 0.3, ``skyrl/train/generators`` (NovaSky-AI/SkyRL).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from skillwright.core import (
    Act,
    ConfigError,
    ContractError,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    ModelError,
    SkillContext,
    SkillwrightError,
    Task,
    TurnContext,
    Usage,
)
from skillwright.core.concurrency import together
from skillwright.core.seeds import derive_seed, evaluation_seed
from skillwright.envs import TextEnv, spec
from skillwright.models import ContextOverflow
from skillwright.plugins.skyrl.rows import RowSkills, read_row
from skillwright.policy import KeptRows, Row, TokenContext, outcome_of
from skillwright.policy.hf.tokens import Speech
from skillwright.rollout import Limits, LocalEngine, PromptStyle, refuse_no_score, write_rollouts

__all__ = ["GeneratorOptions", "ScriptedEngine", "SkyRLGenerator"]

_COLUMNS: Final = ("prompts", "env_classes", "env_extras", "trajectory_ids")

logger = logging.getLogger(__name__)


class SkyRLGenerator:
    """Plays the trainer's batches; requires ``generator.step_wise_trajectories=true``.

    A row of the data set is one group, whose episodes all get the skills in its prompt. With
    ``generator.merge_stepwise_output=true`` the trainer joins turns whose prompts continue the
    previous one.

    In training, an episode that reached a limit has reward 0, and a failed episode leaves its
    group; if all of a group failed, one masked row replaces it. In evaluation, failures are in no
    mean. They are logged, and counted in the metric ``environment/failures``.

    Args:
        generator_cfg: SkyRL's ``generator`` section.
        skyrl_gym_cfg: Its ``environment.skyrl_gym``: settings by environment.
        inference_engine_client: Samples the answers.
        tokenizer: The policy's, with its chat template.
        policy_model_name: Name of the policy at the engine.
        options: Settings that SkyRL does not have.
    """

    def __init__(
        self,
        generator_cfg: Any,
        skyrl_gym_cfg: Any,
        inference_engine_client: Any,
        tokenizer: Any,
        policy_model_name: str | None = None,
        *,
        options: "GeneratorOptions | None" = None,
    ) -> None:
        _refuse_other_shape(generator_cfg)
        self.generator_cfg = generator_cfg
        self.skyrl_gym_cfg = skyrl_gym_cfg
        self.options = options or GeneratorOptions()
        self._client = inference_engine_client
        self._model = policy_model_name
        self._speech = Speech(tokenizer, (), dict(generator_cfg.chat_template_kwargs))

    async def generate(self, input_batch: Mapping[str, Any], disable_tqdm: bool = False) -> Any:
        """Play an episode per prompt of a ``GeneratorInput``.

        Return a ``GeneratorOutput``: one entry per turn, grouped by episode in the order of the
        prompts, with the reward at the last token of an episode. If several groups have no
        reward at all, an `EngineDown` is raised.
        """
        batch = _Batch.read(input_batch, self.options.seed)
        agent = _EngineAgent(self._client, self._model, self._speech, self._sampling(input_batch))
        engine = LocalEngine(
            agent,
            self._make_env,
            limits=Limits.of(self.options.limits, max_turns=self.generator_cfg.max_turns),
            prompt=self.options.prompt,
        )
        try:
            results = await engine.run(batch.specs, RowSkills(batch.skills))
        finally:
            await agent.finish()
        if not batch.trains or batch.groups > 1:
            refuse_no_score(results)
        _tell_failures(results)
        if self.options.rollouts is not None:
            write_rollouts(results, self.options.rollouts / batch.file_name)
        return _output(batch, results, agent, self._speech.end_id)

    def _sampling(self, given: Mapping[str, Any]) -> "_Sampling":
        params, config = given.get("sampling_params"), self.generator_cfg
        temperature = (params or {}).get("temperature", config.sampling_params.temperature)
        return _Sampling(params, float(temperature), int(config.max_input_length))

    def _make_env(self, task: Task) -> TextEnv:
        found = spec(task.env)
        config = getattr(self.skyrl_gym_cfg, task.env, None)
        return found.load()(found.env_config if config is None else config, dict(task.extras))


@dataclass(frozen=True, slots=True)
class GeneratorOptions:
    """Settings of `SkyRLGenerator` in addition to SkyRL's own.

    Attributes:
        limits: Limits of an episode and of concurrency; ``max_turns`` is SkyRL's.
        prompt: Format of the conversation.
        rollouts: Folder for the episodes (`write_rollouts`), a file per training step or
            evaluation, for ``skillwright bank evolve``; ``None`` for none.
        seed: Base of all episode seeds.
    """

    limits: Limits = field(default_factory=lambda: Limits(max_concurrent=1024))
    prompt: PromptStyle = field(default_factory=PromptStyle)
    rollouts: Path | None = None
    seed: int = 0


def _refuse_other_shape(config: Any) -> None:
    if not config.step_wise_trajectories:
        raise ConfigError(
            "SkyRLGenerator gives a row per turn: set generator.step_wise_trajectories=true (and "
            "generator.merge_stepwise_output=true, so that turns are joined where they continue)"
        )
    if config.batched or config.vision_language_generator:
        raise ConfigError(
            "SkyRLGenerator plays episodes of texts one by one; leave generator.batched and "
            "generator.vision_language_generator false"
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """The episodes of a trainer's batch, with SkyRL's ``TrajectoryID`` and skills of each."""

    specs: tuple[EpisodeSpec, ...]
    ids: tuple[Any, ...]
    skills: Mapping[str, SkillContext]
    trains: bool

    @property
    def file_name(self) -> str:
        """File of its episodes: one per training step or evaluation."""
        step = self.specs[0].step
        number = "" if step is None else f"_{step:06}"
        return f"{'step' if self.trains else 'eval'}{number}.jsonl"

    @property
    def groups(self) -> int:
        """Number of rows of the data set in it."""
        return len({one.instance_id for one in self.ids})

    @classmethod
    def read(cls, given: Mapping[str, Any], seed: int) -> "_Batch":
        columns = [given.get(name) for name in _COLUMNS]
        lengths = {len(one) if one is not None else 0 for one in columns}
        if len(lengths) != 1 or 0 in lengths:
            sizes = ", ".join(
                f"{name} {'missing' if one is None else len(one)}"
                for name, one in zip(_COLUMNS, columns, strict=True)
            )
            raise DataError(f"a batch needs as many of each, and at least one: {sizes}")
        about = given.get("batch_metadata")
        phase = about.training_phase if about is not None else "train"
        step = about.global_step if about is not None else None
        skills: dict[str, SkillContext] = {}
        specs = []
        for prompt, env_class, extras, one in zip(*columns, strict=True):
            task, skill = read_row(
                env_class, prompt, extras or {}, f"{env_class}:{one.instance_id}"
            )
            spec(task.env)
            if skills.setdefault(task.id, skill) != skill:
                raise DataError(
                    f"two rows of task {task.id!r} have different skills in their prompts; a group "
                    "is compared under the same skills, so give a task one row"
                )
            draw = int(one.repetition_id)
            episode_seed = evaluation_seed(seed, task.id, draw)
            if phase == "train":
                episode_seed = derive_seed("skyrl", seed, step or 0, task.id, draw)
            specs.append(EpisodeSpec(task, episode_seed, draw, phase, step))
        return cls(tuple(specs), tuple(columns[3] or ()), skills, phase == "train")


@dataclass(frozen=True, slots=True)
class _Sampling:
    """Sampling settings: the engine's ``params``, temperature, and maximum prompt tokens."""

    params: dict[str, Any] | None
    temperature: float
    max_input: int


class _EngineAgent(KeptRows):
    """Acts by SkyRL's inference engine: tokens in, tokens out."""

    def __init__(self, client: Any, model: str | None, speech: Speech, sampling: _Sampling) -> None:
        super().__init__()
        self.without_logprobs = False
        self._client = client
        self._model = model
        self._speech = speech
        self._sampling = sampling
        self._sessions: dict[str, None] = {}

    @property
    def identity(self) -> str:
        """The policy's name at the engine; its weights change from call to call."""
        return f"skyrl:{self._model or 'policy'} t={self._sampling.temperature:g}"

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Request one answer per context, all concurrently.

        A prompt above ``generator.max_input_length`` is a `ContextOverflow`.
        """
        return await together(self._act(context) for context in contexts)

    async def finish(self) -> None:
        """Release the episodes' sessions at the engine."""
        for session in self._sessions:
            try:
                await self._client.finish_session(session)
            except Exception:  # best effort, as SkyRL says; the episodes are complete
                logger.warning("the inference engine keeps session %s", session, exc_info=True)

    async def _act(self, context: TurnContext) -> Act:
        prompt = self._speech.prompt(context.messages)
        if len(prompt.ids) > self._sampling.max_input:
            raise ContextOverflow(
                f"a prompt has {len(prompt.ids)} tokens, over generator.max_input_length = "
                f"{self._sampling.max_input}; raise it, or shorten the skills"
            )
        # All prompts of an episode share one object as first message.
        session = f"skillwright-{id(context.messages[0])}"
        self._sessions[session] = None
        answer = await self._asked(prompt.ids, session)
        self._speech.remember(prompt, answer.ids, answer.text)
        row = Row(
            context=TokenContext(prompt.ids, (None,) * len(answer.ids)),
            token_ids=answer.ids,
            old_logprobs=answer.logprobs,
            loss_mask=(True,) * len(answer.ids),
            encoding=self._speech.encoding,
            temperature=self._sampling.temperature or 1.0,
        )
        self.keep(context, row)
        usage = Usage(calls=1, input_tokens=len(prompt.ids), output_tokens=len(answer.ids))
        return Act(answer.text, usage, answer.ids, answer.logprobs, answer.stop)

    async def _asked(self, prompt: tuple[int, ...], session: str) -> "_Answer":
        asked = {
            "prompt_token_ids": [list(prompt)],
            "session_ids": [session],
            "sampling_params": self._sampling.params,
        }
        try:
            given = await self._client.generate(asked, model=self._model)
            answer = _Answer.read(given, self._speech)
        except SkillwrightError:
            raise
        except Exception as error:
            why = str(error) or type(error).__name__
            raise ModelError(f"SkyRL's inference engine failed: {why}") from error
        self.without_logprobs |= not answer.has_logprobs
        return answer


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer: tokens, text and log-probabilities, all 0 without ``has_logprobs``."""

    ids: tuple[int, ...]
    text: str
    logprobs: tuple[float, ...]
    stop: str
    has_logprobs: bool

    @classmethod
    def read(cls, given: Mapping[str, Any], speech: Speech) -> "_Answer":
        ids = tuple(map(int, given["response_ids"][0]))
        stop = str(given["stop_reasons"][0])
        if not ids or stop == "abort":
            raise ModelError(f"SkyRL's inference engine gave no answer (stop reason {stop!r})")
        listed = given.get("response_logprobs")
        logprobs = None if listed is None else listed[0]
        if logprobs is not None and len(logprobs) != len(ids):
            raise ContractError(
                f"SkyRL's inference engine gave {len(ids)} tokens and {len(logprobs)} "
                "log-probabilities of them"
            )
        known = (0.0,) * len(ids) if logprobs is None else tuple(map(float, logprobs))
        return cls(ids, speech.text(ids), known, stop, logprobs is not None)


def _tell_failures(results: Sequence[EpisodeResult]) -> None:
    """Log failures, as SkyRL's step-wise evaluation ignores a generator's metrics."""
    failures = [one.failure for one in results if one.failure is not None]
    if failures:
        logger.warning(
            "%d of %d episodes failed and are left out; the latest: %s",
            len(failures),
            len(results),
            failures[-1].message,
        )


def _output(
    batch: _Batch, results: Sequence[EpisodeResult], agent: _EngineAgent, filler: int
) -> dict[str, Any]:
    """Return the rows in the trainer's format."""
    rows = _Rows()
    pairs = list(zip(batch.ids, results, strict=True))
    present = {one.instance_id for one, result in pairs if result.failure is None}
    for one, result in pairs:
        if result.reward is not None:
            reward = outcome_of(result) if batch.trains else result.reward
            rows.add(one, result, agent.rows(result), reward)
        elif batch.trains and one.instance_id not in present:
            present.add(one.instance_id)
            rows.add_placeholder(one, filler)
    return {
        **rows.columns,
        "rollout_logprobs": None if agent.without_logprobs else rows.logprobs,
        "rollout_metrics": _metrics(results, batch.trains),
        "rollout_expert_indices": None,
    }


class _Rows:
    """The columns of a ``GeneratorOutput``."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {
            name: []
            for name in (
                *("prompt_token_ids", "response_ids", "rewards", "loss_masks", "stop_reasons"),
                *("trajectory_ids", "trajectory_generation_times", "is_last_step", "env_metrics"),
            )
        }
        self.logprobs: list[list[float]] = []

    def add(self, name: Any, result: EpisodeResult, rows: Sequence[Row], reward: float) -> None:
        """Add an episode: a row per turn, with the reward at the last token."""
        for turn, row in zip(result.trajectory.turns, rows, strict=True):
            is_last = turn.index == len(rows) - 1
            rewards = [0.0] * len(row.token_ids)
            rewards[-1] = reward if is_last else 0.0
            self._append(
                prompt_token_ids=list(row.context.prompt_ids),
                response_ids=list(row.token_ids),
                rewards=rewards,
                loss_masks=[int(one) for one in row.loss_mask],
                stop_reasons=turn.act.finish_reason,
                trajectory_ids=name,
                trajectory_generation_times=result.wall_s,
                is_last_step=is_last,
                env_metrics=dict(result.metrics) if is_last else {},
            )
            self.logprobs.append(list(row.old_logprobs))

    def add_placeholder(self, name: Any, filler: int) -> None:
        """Add one masked token for a group without episodes."""
        self._append(
            prompt_token_ids=[filler],
            response_ids=[filler],
            rewards=[0.0],
            loss_masks=[0],
            stop_reasons="abort",
            trajectory_ids=name,
            trajectory_generation_times=0.0,
            is_last_step=True,
            env_metrics={},
        )
        self.logprobs.append([0.0])

    def _append(self, **row: Any) -> None:
        for name, column in self.columns.items():
            column.append(row[name])


def _metrics(results: Sequence[EpisodeResult], trains: bool) -> dict[str, float]:
    """Return metrics for SkyRL, which sums counts and averages means."""
    scored = [one for one in results if one.reward is not None]
    counts: dict[str, float] = {
        "environment/episodes": len(results),
        "environment/failures": len(results) - len(scored),
        "environment/retried": sum(one.attempts > 1 for one in results),
    }
    if not scored:
        return counts
    outcomes = [outcome_of(one) if trains else one.reward or 0.0 for one in scored]
    return {
        **counts,
        "environment/mean_reward": fmean(outcomes),
        "environment/mean_turns": fmean(len(one.trajectory.turns) for one in scored),
    }


class ScriptedEngine:
    """An inference engine without a model, for dry runs: it always returns the same answer."""

    model_name = "scripted"

    def __init__(self, tokenizer: Any, answer: str, logprob: float = -1.0) -> None:
        self.asked = 0
        self.finished: list[str] = []
        self._ids = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
        self._answer = answer
        self._logprob = logprob

    async def generate(self, input_batch: Mapping[str, Any], model: str | None = None) -> Any:
        """Answer every prompt."""
        count = len(input_batch["prompt_token_ids"])
        self.asked += count
        return {
            "responses": [self._answer] * count,
            "response_ids": [list(self._ids) for _ in range(count)],
            "stop_reasons": ["stop"] * count,
            "response_logprobs": [[self._logprob] * len(self._ids) for _ in range(count)],
        }

    async def finish_session(self, session_id: str) -> None:
        """Do nothing."""
        self.finished.append(session_id)
