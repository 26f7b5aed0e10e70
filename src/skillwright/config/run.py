"""What a training's configuration may say. Frozen; unknown keys are refused; every key is read.

The classes are the schema. What is no key of a file (`SkipJsonSchema`) is set by ``run.parity`` or
by code; see `removed`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.bank import BankSection, DistillSection, EvolveSection
from skillwright.config.env import EnvSection, GeneratedData, QaData, WebShopData
from skillwright.config.readers import fill_in
from skillwright.config.yaml_files import Section, validated_section
from skillwright.core import did_you_mean
from skillwright.entry_points import entry_points
from skillwright.evaluation import AlphaLedger, ExploreGate, Gate, power_text, why_hopeless
from skillwright.models import ModelConfig, Prices, ScriptedConfig, find_backend
from skillwright.models.validation import Share
from skillwright.rollout.workers import ENGINES, Cluster

# Sections that every job has: name and seed, models, how episodes are played, a budget.


_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _check_folder_name(name: str) -> str:
    if not _FOLDER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a run's folder; use letters, digits, '.', '_' and '-', and "
            "begin with a letter or digit"
        )
    return name


FolderName = Annotated[str, AfterValidator(_check_folder_name)]
"""A text that can name a run's folder."""

TRACKERS = "skillwright.trackers"
"""The entry points of experiment trackers."""


def _check_tracker(name: str) -> str:
    return _check_known(name, "tracker", entry_points(TRACKERS))


def _check_engine(name: str) -> str:
    return _check_known(name, "engine", ("local", *entry_points(ENGINES)))


def _check_known(name: str, kind: str, known: Collection[str]) -> str:
    if name not in known:
        raise ValueError(f"there is no {kind} {name!r}. {did_you_mean(name, known)}")
    return name


TrackerName = Annotated[str, AfterValidator(_check_tracker)]
"""The name of a tracker that is installed."""
EngineName = Annotated[str, AfterValidator(_check_engine)]
"""``local``, or the name of an engine that is installed."""


class NamedRun(Section):
    """What the run is called, where it is kept, and the seed that everything derives from."""

    name: FolderName = "run"
    """The run's folder below ``root``; a configuration file's own name where it says nothing."""
    seed: NonNegativeInt = 42
    """Splits, batches, environments, sampling and first weights all derive from it."""
    root: Annotated[str, Field(min_length=1)] = "runs"
    """The folder that holds runs, relative to the working directory."""
    trackers: list[TrackerName] = Field(default=[])
    """Experiment trackers that follow it: ``wandb``, ``mlflow``, ``trackio``, ``tensorboard``,
    ``otel``, or another installed one. They change nothing in the run; environment variables of
    their own hold their options."""


class PricedModels(Section):
    """Models by role, with one table of prices."""

    prices: dict[str, Prices] = Field(default_factory=dict)
    """What models cost, by name; where a model has ``prices`` of its own, those hold."""

    # Role -> the scripted models that can have it, the usual one first.
    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, values: Any) -> Any:
        """Give each model the prices that the table has under its name."""
        table = values.get("prices") if isinstance(values, Mapping) else None
        if not isinstance(table, Mapping):
            return values
        roles = {role: values[role] for role in cls.scripted if values.get(role)}
        return {**values, **{role: _with_prices(model, table) for role, model in roles.items()}}

    @model_validator(mode="after")
    def _scripted_models_know_their_role(self) -> Self:
        for role, known in self.scripted.items():
            model = getattr(self, role)
            if isinstance(model, ScriptedConfig) and model.model not in known:
                raise ValueError(
                    f"the scripted {model.model!r} cannot be the {role}; use {known[0]!r} there"
                )
        return self


def _with_prices(model: Any, table: Mapping[str, Any]) -> Any:
    if not isinstance(model, Mapping) or model.get("backend") == "scripted":
        return model
    listed = table.get(str(model.get("model")))
    return model if listed is None or model.get("prices") else {**model, "prices": listed}


def _check_head(address: str) -> str:
    if "://" in address:
        raise ValueError(
            f"{address!r} is no address of a head; write 'host:6379', or 'auto'. From a machine "
            "outside of the cluster, hand the whole command over: `ray job submit -- skillwright "
            "train ...`"
        )
    return address


class RaySection(Section):
    """Where the workers of an engine run."""

    address: Annotated[str, Field(min_length=1), AfterValidator(_check_head)] | None = None
    """The head, ``host:port``, or ``auto`` for the one on this machine; unset, ``$RAY_ADDRESS``, or
    else a Ray that is started for the run."""
    workers: PositiveInt | None = None
    """Processes that play, each with a CPU of its own; unset, one per CPU."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels that a node must have to play, such as ``{"pool": "rollouts"}``."""


class PlayedEpisodes(Section):
    """How episodes are played."""

    engine: EngineName = "local"
    """``local`` plays in this process, ``ray`` on the machines of a cluster: the same episodes.
    Policies, whose weights are in this process, play in it in any case."""
    ray: RaySection = RaySection()
    """Where its workers run, with ``engine: ray``."""
    max_concurrent: PositiveInt = 64
    """Episodes in flight at once."""
    retries: NonNegativeInt = 2
    """Further attempts, each in a fresh environment, for an episode that failed."""
    give_up_after: PositiveInt | None = 20
    """Failed episodes in a row that stop the run, to be resumed; unset, no number does."""
    max_failure_share: Share | None = 0.5
    """A larger share of failures among the last 40 episodes, or 20 at first, stops it as well."""
    episode_timeout_s: PositiveFloat | None = None
    """Seconds that one attempt may take (of a policy, a batch of choices); unset, no bound but the
    model's own."""
    history_turns: PositiveInt | None = None
    """Exchanges that the agent is shown after the opening; unset, all."""

    @property
    def cluster(self) -> Cluster:
        """Where the workers of an engine run."""
        return Cluster(self.ray.address, self.ray.workers, self.ray.labels)


class Reported(Section):
    """What decides, and what is reported."""

    gate: Gate = ExploreGate()
    """Judges every candidate on the val split: a skill, a change of a bank, weights."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The chance that a run whose changes do nothing releases one, for gates that know of noise."""
    val_tasks: PositiveInt | None = None
    """Judge on the first so many val tasks only; unset, on all."""
    test: bool = True
    """Open the test split at the end."""
    test_tasks: PositiveInt | None = None
    """Report on the first so many test tasks only; unset, on all."""


# What a run may use up, as a configuration says it.


class BudgetSection(Section):
    """Bounds of the whole run, over all its resumes; what is reached first stops it, resumable.

    In a study of several seeds each seed's run has the whole budget.
    """

    usd: PositiveFloat | None = None
    """Money, in US dollars; every model needs known prices."""
    tokens: PositiveInt | None = None
    """Tokens, prompts and answers together."""
    minutes: PositiveFloat | None = None
    """Time in which processes worked on the run."""

    @property
    def is_set(self) -> bool:
        """Whether there is any bound."""
        return any(bound is not None for bound in (self.usd, self.tokens, self.minutes))


# How much is trained, and how proposals change the skill.


class TrainSection(Section):
    """How much is trained, and in what portions."""

    epochs: PositiveInt = 4
    """Times through the train split."""
    batch_size: PositiveInt = 40
    """Rollouts per micro-batch."""
    accumulation: PositiveInt = 1
    """Micro-batches per step."""
    patience: PositiveInt | None = None
    """Stop after so many steps in a row without an accepted change; unset, never."""

    def steps_per_epoch(self, train_tasks: int) -> int:
        """Return the steps of an epoch over ``train_tasks`` tasks; the last may be a short one."""
        return -(-train_tasks // (self.batch_size * self.accumulation))


class GradientSection(Section):
    """How trajectories become proposals."""

    minibatch_size: PositiveInt = 8
    """Trajectories per analyst call."""
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    """Proposals per merge call."""
    failure_only: bool = False
    """Analyze failures only."""
    success_threshold: SkipJsonSchema[Annotated[float, Field(gt=0, le=1)] | None] = None
    """The reward from which analysts are shown a success; unset, ``env.success_threshold``."""
    analyst_budget: SkipJsonSchema[Literal["scheduled", "initial"]] = "scheduled"
    """Edits that one analyst may propose: the step's budget, or ``optimizer.learning_rate``."""
    analyst_workers: PositiveInt = 16
    """Analyst calls in flight at once."""


class SkillAwareSection(Section):
    """Slips of the agent are kept apart from gaps in the skill; reminders go into an appendix."""

    appendix_source: Literal["both", "failure_only"] = "both"
    """Whose reminders are taken: those of both kinds of analyst, or of failures only."""
    consolidate_threshold: NonNegativeInt = 0
    """With more reminders than this the optimizer makes them fewer; 0 never asks."""
    gated: SkipJsonSchema[bool] = True
    """Reminders are part of the candidate; else they enter after the gate, unmeasured."""


class OptimizerSection(Section):
    """How proposals change the skill, how many a step may make, and what an epoch ends with."""

    learning_rate: PositiveInt = 4
    """Most edits per step, at the start."""
    min_learning_rate: PositiveInt = 2
    """Most edits per step, at the end of a schedule that decays."""
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"
    """How the one becomes the other."""
    lr_control_mode: Literal["fixed", "autonomous", "none"] = "fixed"
    """``fixed`` keeps the schedule, ``autonomous`` asks; ``none`` and full rewrites have no cap."""
    none_means_fixed: SkipJsonSchema[bool] = False
    """``none`` keeps the schedule where edits are applied, as in SkillOpt."""
    rank_fallback: SkipJsonSchema[Literal["support", "order"]] = "support"
    """Where a ranking fails: the edits most trajectories speak for, or the first, as there."""
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = (
        "patch"
    )
    """``patch`` applies edits, the others rewrite: by merged suggestions, or per analyst."""
    rewrite_max_tokens: PositiveInt | None = None
    """Room for a reply that holds a whole skill; unset, as much as for any other reply."""
    repair_anchors: SkipJsonSchema[bool] = True
    """Edits whose anchor is not in the document go back to the optimizer once."""
    insert_after_fallback: SkipJsonSchema[bool] = False
    """An ``insert_after`` without its anchor appends, as in SkillOpt."""
    use_slow_update: bool = True
    """From the second epoch on, guidance over epochs is written, and judged by the gate."""
    slow_update_samples: PositiveInt = 20
    """Train tasks that are compared under the old and the new skill at an epoch's end."""
    gate_slow_update: bool = True
    """The gate judges it; else it enters the current skill unmeasured, and the best one stays."""
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = "mixed"
    """Which of them are looked at: all, those that changed, or those that did not."""
    use_meta_skill: bool = True
    """From the second epoch on, the optimizer keeps notes of its own for the next epoch."""
    skill_aware: SkillAwareSection | None = None
    """How slips of the agent are kept apart from gaps in the skill; unset, they are not."""
    memory_steps: SkipJsonSchema[PositiveInt] = 64
    """Steps that analysts are shown, the latest ones: what was tried, the outcome."""
    memory_across_epochs: SkipJsonSchema[bool] = True
    """A new epoch still knows the old one's steps."""

    @property
    def updates_epoch(self) -> bool:
        """Whether an epoch ends with an epoch update over it."""
        return self.use_slow_update or self.use_meta_skill

    @property
    def lets_in_unmeasured(self) -> bool:
        """Whether something enters the current skill that no gate has judged."""
        forces = self.use_slow_update and not self.gate_slow_update
        return forces or (self.skill_aware is not None and not self.skill_aware.gated)

    @model_validator(mode="after")
    def _decays(self) -> "OptimizerSection":
        if self.lr_scheduler != "constant" and self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate ({self.min_learning_rate}) exceeds learning_rate "
                f"({self.learning_rate}); swap them, or use lr_scheduler 'constant'"
            )
        return self


# What decides, and what is reported, as a configuration says it.


class EvaluationSection(Reported):
    """What decides, and what is reported."""

    empty_baseline: bool = True
    """Also test the empty skill, where the initial one is not blank: two baselines."""
    inherit_scores: SkipJsonSchema[bool] = False
    """What enters the current skill unmeasured has the score of the text before, as in SkillOpt,
    until the end; else it is played. For gates without fresh draws."""
    placebo: bool = False
    """Also test a text of the same length that says nothing about the job."""
    confirm_tasks: NonNegativeInt = 0
    """So many val tasks, the last ones, are kept from the gate and confirm the best skill once."""


class RunSection(NamedRun):
    """What the run is called, where it is kept, and the seed that everything derives from."""

    parity: bool = False
    """Start from SkillOpt's defaults instead of ours, to compare; a key that is given holds."""


class ModelsSection(PricedModels):
    """The two models of a training, each chosen on purpose, and the teacher of a bank."""

    target: ModelConfig
    """Acts in the environment; the skill is trained for it."""
    optimizer: ModelConfig
    """Reads trajectories and proposes edits."""
    teacher: ModelConfig | None = None
    """Writes the skills of a bank; unset, the optimizer's model does."""

    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "target": ("household", "retail", "reader", "shopper", "clerk", "seeker", "coder"),
        "optimizer": (
            *("analyst", "retail_analyst", "reader_analyst", "shopper_analyst", "clerk_analyst"),
            "seeker_analyst",
        ),
        "teacher": (
            *("household_teacher", "household_rewording_teacher", "retail_teacher"),
            *("webshop_teacher", "search_teacher", "coder_teacher"),
        ),
    }

    @model_validator(mode="after")
    def _an_optimizer_can_propose(self) -> "ModelsSection":
        backend = self.optimizer.backend
        if "optimizer" not in find_backend(backend).roles:
            raise ValueError(
                f"backend {backend!r} only acts; as the optimizer use 'claude_chat' with "
                "transport: cli, or 'codex_exec'"
            )
        return self


class RolloutSection(PlayedEpisodes):
    """How episodes are played."""

    reuse: list[str] = Field(default=[])
    """Folders of other runs: what they played under equal prompts and seeds is not played again."""
    mode: SkipJsonSchema[Literal["free", "lockstep"]] = "free"
    """``free`` for agents behind endpoints, ``lockstep`` for policies that answer in batches."""


class SkillSection(Section):
    """The document that is trained, and a bank beside it."""

    init: str = ""
    """A file to begin with, relative to the working directory; blank begins with nothing."""
    bank: str = ""
    """A bank that is injected below it: its file, JSON (ours, SkillRL's), or ``seed:alfworld``."""


class RunConfig(Section):
    """A training run. Only ``models`` must be given."""

    run: RunSection = RunSection()
    env: EnvSection = EnvSection()
    models: ModelsSection
    train: TrainSection = TrainSection()
    gradient: GradientSection = GradientSection()
    optimizer: OptimizerSection = OptimizerSection()
    evaluation: EvaluationSection = EvaluationSection()
    rollout: RolloutSection = RolloutSection()
    skill: SkillSection = SkillSection()
    bank: BankSection = BankSection()
    distill: DistillSection = DistillSection()
    evolve: EvolveSection = EvolveSection()
    budget: BudgetSection = BudgetSection()

    def decisions(self, train_tasks: int) -> int:
        """Return how often a training on ``train_tasks`` >= 1 tasks may ask the gate."""
        steps = self.train.epochs * self.train.steps_per_epoch(train_tasks)
        judges = self.optimizer.use_slow_update and self.optimizer.gate_slow_update
        candidates = steps + (self.train.epochs - 1 if judges else 0)
        gate = self.evaluation.gate
        if gate.accepts_all:
            return candidates + 1  # each meets the best skill only, and so does the last one
        if gate.release is not None:
            return candidates
        # What enters unmeasured parts the current skill from the best: then a candidate may have
        # to beat both, and so may the last skill.
        return 2 * candidates + 1 if self.optimizer.lets_in_unmeasured else candidates

    def ledger(self, train_tasks: int) -> AlphaLedger:
        """Return how alpha is shared in a training on ``train_tasks`` >= 1 tasks."""
        evaluation = self.evaluation
        return evaluation.gate.ledger(evaluation.alpha, self.decisions(train_tasks), again=True)

    def power(self, train_tasks: int, val_tasks: int) -> str:
        """Say which gain the gate finds, with tasks >= 1."""
        return power_text(self.evaluation.gate, self.ledger(train_tasks), val_tasks)

    @property
    def parts_skills(self) -> bool:
        """Whether the current skill may become another one than the best."""
        gate = self.evaluation.gate
        return gate.accepts_all or gate.release is not None or self.optimizer.lets_in_unmeasured

    def why_hopeless(self, train_tasks: int, val_tasks: int) -> str:
        """Say why no candidate could ever pass the gate, or return "".

        Args:
            train_tasks: The least number of tasks to train on, from 1.
            val_tasks: Tasks that the gate may draw.
        """
        return why_hopeless(self.evaluation.gate, self.ledger(train_tasks), val_tasks)

    @model_validator(mode="before")
    @classmethod
    def _parity(cls, values: Any) -> Any:
        """Lay SkillOpt's defaults under what is given, where ``run.parity`` asks for them."""
        return fill_in(values) if isinstance(values, Mapping) else values

    @model_validator(mode="after")
    def _can_be_played_elsewhere(self) -> "RunConfig":
        problem = self.models.target.why_here_only
        if self.rollout.mode == "lockstep":
            problem = "an agent that plays in lockstep stays in this process"
        if problem and self.rollout.engine != "local":
            raise ValueError(
                f"rollout.engine is {self.rollout.engine!r}, and models.target cannot act on other "
                f"machines: {problem}, or use rollout.engine 'local'"
            )
        return self

    @model_validator(mode="after")
    def _gate_can_accept(self) -> "RunConfig":
        """Refuse a gate that knows of noise on so few games that no candidate could pass it."""
        data, evaluation = self.env.data, self.evaluation
        if isinstance(data, GeneratedData | QaData | WebShopData):
            have = min(data.val, evaluation.val_tasks or data.val) - evaluation.confirm_tasks
            problem = self.why_hopeless(data.train, have)
            if problem:
                raise ValueError(
                    f"{problem}. Raise env.data.val (and evaluation.val_tasks), or use "
                    "evaluation.gate.kind 'strict'"
                )
        return self


def validated(values: Mapping[str, Any], where: str) -> RunConfig:
    """Check plain values against the schema.

    Args:
        values: Sections, as YAML gives them.
        where: What they come from, for messages.

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem.
    """
    return validated_section(RunConfig, values, where)
