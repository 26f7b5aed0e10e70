"""What a run's configuration may say. Frozen; unknown keys are refused; every key has a reader.

The classes are the schema: `skillwright.jobs.config_load` reads files into them.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from skillwright.core import ConfigError
from skillwright.datasets import parse_ratio
from skillwright.evaluation import GateMetric, tasks_needed
from skillwright.models import ModelConfig, ScriptedConfig, explain_validation_error

_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

Share = Annotated[float, Field(ge=0, le=1)]


class _Section(BaseModel):
    # Inputs are hidden because pydantic would print them, and one of them may be a key.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


def _check_folder_name(name: str) -> str:
    if not _FOLDER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} names a folder; use letters, digits, '.', '_' and '-', and begin with a "
            "letter or digit"
        )
    return name


def _check_ratio(text: str) -> str:
    parse_ratio(text)
    return text


def _kind_unless_given(kind: str) -> BeforeValidator:
    def fill(value: Any) -> Any:
        return {"kind": kind, **value} if isinstance(value, Mapping) else value

    return BeforeValidator(fill)


class RunSection(_Section):
    """What the run is called, where it is kept, and the seed that everything derives from."""

    name: Annotated[str, AfterValidator(_check_folder_name)] = "run"
    """The run's folder below ``root``; a configuration file's own name where it says nothing."""
    seed: NonNegativeInt = 42
    """Splits, batches, environments and sampling all derive from it."""
    root: Annotated[str, Field(min_length=1)] = "runs"
    """The folder that holds runs, relative to the working directory."""


class GeneratedData(_Section):
    """Houses of our own: seeded, winnable, and never the same in two splits."""

    kind: Literal["generated"] = "generated"
    train: PositiveInt = 40
    """Games to practise on."""
    val: PositiveInt = 40
    """Games that the gate decides on."""
    test: PositiveInt = 60
    """Games that are opened once, at the end."""
    seed: NonNegativeInt = 0
    """Another seed gives other games."""
    household: NonNegativeInt | None = None
    """The home that all games share, with habits to be learnt; unset, every game has its own."""


class AlfworldData(_Section):
    """The official ALFWorld games: ``train``, ``valid_seen`` as val, ``valid_unseen`` as test."""

    kind: Literal["alfworld_data"] = "alfworld_data"
    root: str | None = None
    """The folder ``json_2.1.1`` or one that holds it; unset, ``$ALFWORLD_DATA``."""
    train: PositiveInt | None = None
    """At most so many games, the first in order of their ids; unset, all."""
    val: PositiveInt | None = None
    """At most so many games; unset, all."""
    test: PositiveInt | None = None
    """At most so many games; unset, all."""


class SplitDirData(_Section):
    """Items that are split already: a folder with ``train``, ``val`` and ``test``."""

    kind: Literal["split_dir"] = "split_dir"
    path: Annotated[str, Field(min_length=1)]
    """The folder that holds the three."""


class RatioData(_Section):
    """Items in one file, shuffled and cut into three splits."""

    kind: Literal["ratio"] = "ratio"
    path: Annotated[str, Field(min_length=1)]
    """A JSON or JSONL file, or a folder that holds exactly one."""
    ratio: Annotated[str, AfterValidator(_check_ratio)] = "2:1:7"
    """Shares of train, val and test."""
    seed: NonNegativeInt = 42
    """Shuffles the items before they are cut."""


DataConfig = Annotated[
    GeneratedData | AlfworldData | SplitDirData | RatioData,
    Field(discriminator="kind"),
    _kind_unless_given("generated"),
]


class EnvSection(_Section):
    """The environment and its tasks."""

    name: Annotated[str, Field(min_length=1)] = "alfworld"
    """A registered name, ``package.module:Class``, or ``path/to/file.py:Class``."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment, which checks them itself."""
    max_turns: PositiveInt = 50
    """Most actions in an episode."""
    success_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The reward from which an episode is a success."""
    data: DataConfig = GeneratedData()
    """Where the tasks come from."""

    @model_validator(mode="after")
    def _data_fits(self) -> "EnvSection":
        if self.data.kind in ("generated", "alfworld_data") and self.name != "alfworld":
            raise ValueError(
                f"data.kind {self.data.kind!r} gives games of 'alfworld', and the environment is "
                f"{self.name!r}; use data.kind 'split_dir' or 'ratio'"
            )
        return self


class ModelsSection(_Section):
    """The two minds; each is chosen on purpose, so neither has a default."""

    target: ModelConfig
    """Acts in the environment; the skill is trained for it."""
    optimizer: ModelConfig
    """Reads trajectories and proposes edits."""

    @model_validator(mode="after")
    def _scripted_minds_know_their_part(self) -> "ModelsSection":
        for role, own in (("target", "household"), ("optimizer", "analyst")):
            mind = getattr(self, role)
            if isinstance(mind, ScriptedConfig) and mind.model != own:
                raise ValueError(
                    f"the scripted {mind.model!r} cannot be the {role}; use {own!r} there"
                )
        return self


class TrainSection(_Section):
    """How much is practised, and in what portions."""

    epochs: PositiveInt = 4
    """Times through the train split."""
    batch_size: PositiveInt = 40
    """Rollouts per micro-batch."""
    accumulation: PositiveInt = 1
    """Micro-batches per step."""

    def steps_per_epoch(self, train_tasks: int) -> int:
        """Return the steps of an epoch over ``train_tasks`` tasks; the last may be a short one."""
        return -(-train_tasks // (self.batch_size * self.accumulation))


class GradientSection(_Section):
    """How trajectories become proposals."""

    minibatch_size: PositiveInt = 8
    """Trajectories per analyst call."""
    merge_batch_size: Annotated[int, Field(ge=2)] = 8
    """Proposals per merge call."""
    failure_only: bool = False
    """Analyse failures only."""


class OptimizerSection(_Section):
    """How proposals change the skill, how many a step may make, and what an epoch ends with."""

    learning_rate: PositiveInt = 4
    """Most edits per step, at the start."""
    min_learning_rate: PositiveInt = 2
    """Most edits per step, at the end of a schedule that decays."""
    lr_scheduler: Literal["constant", "linear", "cosine"] = "cosine"
    """How the one becomes the other."""
    lr_control_mode: Literal["fixed", "autonomous", "none"] = "fixed"
    """``fixed`` keeps the schedule, ``autonomous`` asks; ``none`` and full rewrites have no cap."""
    skill_update_mode: Literal["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] = (
        "patch"
    )
    """``patch`` applies edits, the others rewrite: by merged suggestions, or per analyst."""
    rewrite_max_tokens: PositiveInt | None = None
    """Room for a reply that holds a whole skill; unset, as much as for any other reply."""
    repair_anchors: bool = True
    """Edits whose anchor is not in the document go back to the optimiser once."""
    insert_after_fallback: bool = False
    """An ``insert_after`` without its anchor appends, as in SkillOpt."""
    use_slow_update: bool = True
    """From the second epoch on, guidance over epochs is written, and judged by the gate."""
    slow_update_samples: PositiveInt = 20
    """Train tasks that are compared under the old and the new skill at an epoch's end."""
    longitudinal_pair_policy: Literal["mixed", "changed", "unchanged"] = "mixed"
    """Which of them are looked at: all, those that changed, or those that did not."""
    use_meta_skill: bool = True
    """From the second epoch on, the optimiser keeps notes of its own for the next epoch."""

    @property
    def looks_back(self) -> bool:
        """Whether an epoch ends with a look back over it."""
        return self.use_slow_update or self.use_meta_skill

    @model_validator(mode="after")
    def _decays(self) -> "OptimizerSection":
        if self.lr_scheduler != "constant" and self.min_learning_rate > self.learning_rate:
            raise ValueError(
                f"min_learning_rate ({self.min_learning_rate}) exceeds learning_rate "
                f"({self.learning_rate}); swap them, or use lr_scheduler 'constant'"
            )
        return self


class PairedGateConfig(_Section):
    """Accept a gain that luck does not explain; alpha is spent over the whole run."""

    kind: Literal["paired"] = "paired"
    draws: PositiveInt = 1
    """Draws per task and side; more of them find smaller gains."""
    family_veto: Share | None = None
    """Reject what makes a task family worse by more than this, with confidence."""


class StrictGateConfig(_Section):
    """Accept any gain in one measurement, noise or not, as SkillOpt does."""

    kind: Literal["strict"] = "strict"
    margin: NonNegativeFloat = 0.0
    """What the gain must exceed."""
    metric: GateMetric = "hard"
    """``hard`` compares success rates, ``soft`` mean rewards, ``mixed`` a blend."""
    mixed_weight: Share = 0.5
    """Weight of ``soft`` in ``mixed``."""


GateConfig = Annotated[
    PairedGateConfig | StrictGateConfig,
    Field(discriminator="kind"),
    _kind_unless_given("paired"),
]


class EvaluationSection(_Section):
    """What decides, and what is reported."""

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """The chance that a run accepts even one useless edit, for gates that know of noise."""
    gate: GateConfig = PairedGateConfig()
    """Judges every candidate on the val split."""
    val_tasks: PositiveInt | None = None
    """Judge on the first so many val tasks only; unset, on all."""
    test: bool = True
    """Open the test split at the end."""
    test_tasks: PositiveInt | None = None
    """Report on the first so many test tasks only; unset, on all."""
    placebo: bool = False
    """Also test a text of the same length that says nothing about the job."""


class RolloutSection(_Section):
    """How episodes are played."""

    max_concurrent: PositiveInt = 64
    """Episodes in flight at once."""
    retries: NonNegativeInt = 2
    """Further attempts, each in a fresh environment, for an episode that failed."""
    episode_timeout_s: PositiveFloat | None = None
    """Seconds that one attempt may take; unset, no bound but the model's own."""
    history_turns: PositiveInt | None = None
    """Exchanges that the agent is shown after the opening; unset, all."""
    mode: Literal["free", "lockstep"] = "free"
    """``free`` for agents behind endpoints, ``lockstep`` for policies that answer in batches."""


class SkillSection(_Section):
    """The document that is trained."""

    init: str = ""
    """A file to begin with, relative to the working directory; blank begins with nothing."""


class RunConfig(_Section):
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

    def decisions(self, train_tasks: int) -> int:
        """Return how often a training on ``train_tasks`` >= 1 tasks may ask the gate."""
        steps = self.train.epochs * self.train.steps_per_epoch(train_tasks)
        return steps + (self.train.epochs - 1 if self.optimizer.use_slow_update else 0)

    @model_validator(mode="after")
    def _gate_can_accept(self) -> "RunConfig":
        """Refuse a paired gate on so few games that no candidate could ever pass it."""
        data, evaluation = self.env.data, self.evaluation
        if isinstance(evaluation.gate, PairedGateConfig) and isinstance(data, GeneratedData):
            decisions = self.decisions(data.train)
            needed = tasks_needed(evaluation.alpha / decisions)
            have = min(data.val, evaluation.val_tasks or data.val)
            if have < needed:
                raise ValueError(
                    f"the paired gate cannot prove a gain on {have} val tasks: {decisions} "
                    f"decisions share alpha = {evaluation.alpha:g}, which takes at least "
                    f"{needed}. Raise "
                    "env.data.val (and evaluation.val_tasks), or use evaluation.gate.kind 'strict'"
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
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        problems = explain_validation_error(error, RunConfig).splitlines()
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems)) from None
