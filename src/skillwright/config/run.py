"""The schema of a training configuration: frozen sections that refuse unknown keys.

Keys that only ``run.parity`` changes are left out of the JSON schema (`SkipJsonSchema`).
"""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
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
from skillwright.config.yaml_files import validated_section
from skillwright.core import did_you_mean
from skillwright.core.settings import Settings
from skillwright.datasets.clusters import clusters_line, independent_tasks
from skillwright.entry_points import entry_points
from skillwright.evaluation import AlphaLedger, ExploreGate, Gate, power_text, why_hopeless
from skillwright.models import ModelConfig, Prices, ScriptedConfig, find_backend
from skillwright.rollout import PlayLimits
from skillwright.rollout.workers import ENGINES, Cluster
from skillwright.textopt import EditTerms, ReflectTerms

NO_CLUSTERS: Mapping[str, str] = MappingProxyType({})
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _check_folder_name(name: str) -> str:
    if not _FOLDER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot name a run's folder; use letters, digits, '.', '_' and '-', and "
            "begin with a letter or digit"
        )
    return name


FolderName = Annotated[str, AfterValidator(_check_folder_name)]
"""A valid name of a run's folder."""

TRACKERS = "skillwright.trackers"
"""Entry-point group of experiment trackers."""


def _check_tracker(name: str) -> str:
    return _check_known(name, "tracker", entry_points(TRACKERS))


def _check_engine(name: str) -> str:
    return _check_known(name, "engine", ("local", *entry_points(ENGINES)))


def _check_known(name: str, kind: str, known: Collection[str]) -> str:
    if name not in known:
        raise ValueError(f"there is no {kind} {name!r}. {did_you_mean(name, known)}")
    return name


TrackerName = Annotated[str, AfterValidator(_check_tracker)]
"""Name of an installed tracker."""
EngineName = Annotated[str, AfterValidator(_check_engine)]
"""``local``, or the name of an installed engine."""


class NamedRun(Settings):
    """Name, folder and seed of a run."""

    name: FolderName = "run"
    """Name of the run's folder; unset, the name of the configuration file."""
    seed: NonNegativeInt = 42
    """Seed of splits, batches, environments, sampling and initial weights."""
    root: Annotated[str, Field(min_length=1)] = "runs"
    """Folder that holds runs, relative to the working directory."""
    trackers: list[TrackerName] = Field(default=[])
    """Trackers, such as ``wandb``, ``mlflow``, ``trackio``, ``tensorboard``, ``otel``."""


class PricedModels(Settings):
    """Models by role, with one table of prices."""

    prices: dict[str, Prices] = Field(default_factory=dict)
    """Prices by model name; a model's own ``prices`` come first."""

    # Role -> the scripted models that can take it, the default one first.
    scripted: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, values: Any) -> Any:
        """Add the prices that the table lists for each model."""
        table = values.get("prices") if isinstance(values, Mapping) else None
        if not isinstance(table, Mapping):
            return values
        roles = {role: values[role] for role in cls.scripted if values.get(role)}
        return {**values, **{role: _with_prices(model, table) for role, model in roles.items()}}

    @model_validator(mode="after")
    def _check_scripted_roles(self) -> Self:
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


class PlayedEpisodes(PlayLimits):
    """How episodes are played."""

    engine: EngineName = "local"
    """``local`` plays in this process, ``ray`` on a cluster with equal results; policies always
    play locally."""
    ray: Cluster = Cluster()
    """Cluster for ``engine: ray``."""
    history_turns: PositiveInt | None = None
    """Latest turns in the prompt, after the opening; unset, all."""


class Reported(Settings):
    """The gate and the test."""

    gate: Gate = ExploreGate()
    """Gate that judges candidates on the val split: skills, bank changes, weights."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Maximum probability of a release without a real gain, for ``explore`` and ``paired``."""
    val_tasks: PositiveInt | None = None
    """Maximum val tasks for the gate; unset, all."""
    test: bool = True
    """Open the test split at the end."""
    test_tasks: PositiveInt | None = None
    """Maximum test tasks; unset, all."""


class BudgetSection(Settings):
    """Limits of a run, resumed sessions included; the first that is reached stops it, resumable.

    In a study of several seeds, each seed's run has the whole budget.
    """

    usd: PositiveFloat | None = None
    """US dollars; needs known prices."""
    tokens: PositiveInt | None = None
    """Tokens, input and output."""
    minutes: PositiveFloat | None = None
    """Working time."""
    rollouts: PositiveInt | None = None
    """Episodes of the target, those of the sealed test included."""

    @property
    def is_set(self) -> bool:
        """Whether any limit is set."""
        bounds = (self.usd, self.tokens, self.minutes, self.rollouts)
        return any(bound is not None for bound in bounds)


class TrainSection(Settings):
    """Epochs and batch sizes."""

    epochs: PositiveInt = 4
    """Passes over the training split."""
    batch_size: PositiveInt = 40
    """Rollouts per micro-batch."""
    accumulation: PositiveInt = 1
    """Micro-batches per step."""
    patience: PositiveInt | None = None
    """Steps without an accepted change before training stops; unset, no limit."""

    def steps_per_epoch(self, train_tasks: int) -> int:
        """Return the steps per epoch over ``train_tasks`` tasks; the last step may be smaller."""
        return -(-train_tasks // (self.batch_size * self.accumulation))


class GradientSection(ReflectTerms):
    """How trajectories become proposed edits."""

    success_threshold: SkipJsonSchema[Annotated[float, Field(gt=0, le=1)] | None] = None
    """Minimum reward of a success for analysts; unset, ``env.success_threshold``."""
    analyst_budget: SkipJsonSchema[Literal["scheduled", "initial"]] = "scheduled"
    """Maximum edits per analyst: the step's budget, or ``optimizer.learning_rate``."""


class OptimizerSection(EditTerms):
    """How edits change the skill, how many per step, and the epoch update."""

    learning_rate: PositiveInt = 4
    """Maximum edits per step at the start."""
    min_learning_rate: PositiveInt = 2
    """Maximum edits per step at the end of a decaying schedule."""
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"
    """Shape of the schedule."""
    lr_control_mode: Literal["fixed", "autonomous", "none"] = "fixed"
    """``fixed`` follows the schedule, ``autonomous`` asks the optimizer; ``none`` and full
    rewrites have no limit."""
    rank_fallback: SkipJsonSchema[Literal["support", "order"]] = "support"
    """Which edits to keep if ranking fails: those most trajectories support, or the first ones."""
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = (
        "patch"
    )
    """``patch`` applies edits; the others rewrite the document, from merged suggestions or per
    analyst."""
    use_slow_update: bool = True
    """Write slow-update guidance at the end of each epoch from the second on."""
    slow_update_samples: PositiveInt = 20
    """Training tasks on which the skills of two epochs are compared."""
    gate_slow_update: bool = True
    """Gate the guidance; if false, it enters the current skill unmeasured."""
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = "mixed"
    """Which pairs to analyze: all, or those with changed or unchanged results."""
    use_meta_skill: bool = True
    """Keep the optimizer's notes for the next epoch, from the second epoch on."""
    memory_across_epochs: SkipJsonSchema[bool] = True
    """Show analysts the steps of earlier epochs, too."""

    @property
    def updates_epoch(self) -> bool:
        """Whether epochs end with an epoch update."""
        return self.use_slow_update or self.use_meta_skill

    @property
    def has_ungated_changes(self) -> bool:
        """Whether text can enter the current skill without the gate."""
        ungated_slow_update = self.use_slow_update and not self.gate_slow_update
        return ungated_slow_update or (self.skill_aware is not None and not self.skill_aware.gated)

    @model_validator(mode="after")
    def _check_decay(self) -> "OptimizerSection":
        if self.lr_scheduler != "constant" and self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate ({self.min_learning_rate}) exceeds learning_rate "
                f"({self.learning_rate}); swap them, or use lr_scheduler 'constant'"
            )
        return self


class EvaluationSection(Reported):
    """Gate and final test."""

    empty_baseline: bool = True
    """Also test the empty skill, if the initial skill is not empty."""
    inherit_scores: SkipJsonSchema[bool] = False
    """Give ungated changes the score of the text before them, as in SkillOpt, until the end; if
    false, measure them. For gates without fresh draws."""
    placebo: bool = False
    """Also test an irrelevant text of equal length."""
    confirm_tasks: NonNegativeInt = 0
    """Val tasks held out from the gate to confirm the best skill once."""


class RunSection(NamedRun):
    """Name, folder and seed of a run, and SkillOpt's defaults."""

    parity: bool = False
    """Use SkillOpt's defaults for all keys that are not given."""


class ModelsSection(PricedModels):
    """Target, optimizer and optional teacher."""

    target: ModelConfig
    """Model that acts in the environment."""
    optimizer: ModelConfig
    """Model that reads trajectories and proposes edits."""
    teacher: ModelConfig | None = None
    """Model that writes the skills of a bank; unset, the optimizer."""

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
    def _check_optimizer(self) -> "ModelsSection":
        backend = self.optimizer.backend
        if "optimizer" not in find_backend(backend).roles:
            raise ValueError(
                f"backend {backend!r} only acts; as the optimizer use 'claude_chat' with "
                "transport: cli, or 'codex_exec'"
            )
        return self


class RolloutSection(PlayedEpisodes):
    """Rollouts."""

    reuse: list[str] = Field(default=[])
    """Run folders whose episodes are reused for equal prompts and seeds."""


class SkillSection(Settings):
    """The skill document to train, and an optional bank."""

    init: str = ""
    """Initial skill: a text file, or a folder with a SKILL.md; empty, no skill."""
    train: Literal["body", "body+references"] = "body"
    """What of a SKILL.md is injected and trained; ``body+references``, also the files it links."""
    bank: str = ""
    """Bank injected after it: a file, JSON (ours or SkillRL's) or ``seed:alfworld``."""


class RunConfig(Settings):
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
        """Return the maximum number of gate decisions of a training on ``train_tasks`` >= 1."""
        steps = self.train.epochs * self.train.steps_per_epoch(train_tasks)
        gated_slow_update = self.optimizer.use_slow_update and self.optimizer.gate_slow_update
        candidates = steps + (self.train.epochs - 1 if gated_slow_update else 0)
        gate = self.evaluation.gate
        if gate.accepts_all:
            return candidates + 1  # every candidate, and the last skill, is compared to the best
        if gate.release is not None:
            return candidates
        # After an ungated change the current skill differs from the best one: a candidate may
        # then have to beat both, and so may the last skill.
        return 2 * candidates + 1 if self.optimizer.has_ungated_changes else candidates

    def ledger(self, train_tasks: int) -> AlphaLedger:
        """Return the alpha ledger of a training on ``train_tasks`` >= 1 tasks.

        A run with a budget chooses itself when to test, with all of its alpha; another run keeps a
        share for a second test of its release (``resume --prove``).
        """
        gate, alpha = self.evaluation.gate, self.evaluation.alpha
        again = not self.budget.is_set
        return gate.ledger(alpha, self.decisions(train_tasks), second_release=again)

    def power(self, train_tasks: int, val_tasks: int, clusters: Mapping[str, str]) -> str:
        """Describe the smallest gain that the gate can detect; arguments as of `why_hopeless`."""
        count = independent_tasks(val_tasks, clusters)
        copies = clusters_line(val_tasks, clusters)
        said = power_text(self.evaluation.gate, self.ledger(train_tasks), count)
        return f"{said}; {copies}" if copies else said

    @property
    def current_may_differ_from_best(self) -> bool:
        """Whether the current skill may differ from the best one."""
        gate = self.evaluation.gate
        return gate.accepts_all or gate.release is not None or self.optimizer.has_ungated_changes

    def why_hopeless(
        self, train_tasks: int, val_tasks: int, clusters: Mapping[str, str] = NO_CLUSTERS
    ) -> str:
        """Say why no candidate could ever pass the gate, or return "".

        Args:
            train_tasks: Training tasks, at least 1; the smallest number, where it is uncertain.
            val_tasks: Val tasks for the gate.
            clusters: Cluster by id of those that are in one; it counts as one task.
        """
        count = independent_tasks(val_tasks, clusters)
        said = why_hopeless(self.evaluation.gate, self.ledger(train_tasks), count)
        copies = clusters_line(val_tasks, clusters)
        return f"{said} ({copies})" if said and copies else said

    @model_validator(mode="before")
    @classmethod
    def _with_parity_defaults(cls, values: Any) -> Any:
        return fill_in(values) if isinstance(values, Mapping) else values

    @model_validator(mode="after")
    def _check_engine_of_target(self) -> "RunConfig":
        problem = self.models.target.why_here_only
        if problem and self.rollout.engine != "local":
            raise ValueError(
                f"rollout.engine is {self.rollout.engine!r}, and models.target cannot act on other "
                f"machines: {problem}, or use rollout.engine 'local'"
            )
        return self

    @model_validator(mode="after")
    def _check_gate_can_accept(self) -> "RunConfig":
        """Refuse a statistical gate with too few val tasks for any candidate to pass."""
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

    Raises:
        ConfigError: A key is unknown, missing or wrong; one line per problem.
    """
    return validated_section(RunConfig, values, where)
