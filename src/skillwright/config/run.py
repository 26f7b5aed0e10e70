"""What a run's configuration may say. Frozen; unknown keys are refused; every key has a reader.

The classes are the schema: `skillwright.config.load` reads files into them. The larger
sections have files of their own, and all can be imported from here.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from skillwright.config.bank import BankSection, DistilSection, EvolveSection
from skillwright.config.budget import BudgetSection
from skillwright.config.env import (
    AdapterData,
    AlfworldData,
    EnvSection,
    GeneratedData,
    HouseholdsData,
    QaData,
    RatioData,
    SplitDirData,
    TauBenchData,
    WebShopData,
)
from skillwright.config.gate import EvaluationSection
from skillwright.config.learning import (
    GradientSection,
    OptimizerSection,
    SkillAwareSection,
    TrainSection,
)
from skillwright.config.parity import fill_in
from skillwright.config.section import Section, validated_section
from skillwright.evaluation import AlphaLedger, power_text, why_hopeless
from skillwright.models import (
    ModelConfig,
    Prices,
    ScriptedConfig,
)
from skillwright.models.frozen import Share

__all__ = [
    "AdapterData",
    "AlfworldData",
    "BankSection",
    "BudgetSection",
    "DistilSection",
    "EnvSection",
    "EvaluationSection",
    "EvolveSection",
    "GeneratedData",
    "GradientSection",
    "HouseholdsData",
    "ModelsSection",
    "OptimizerSection",
    "QaData",
    "RatioData",
    "RolloutSection",
    "RunConfig",
    "RunSection",
    "SkillAwareSection",
    "SkillSection",
    "SplitDirData",
    "TauBenchData",
    "TrainSection",
    "WebShopData",
    "validated",
]


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


class RunSection(Section):
    """What the run is called, where it is kept, and the seed that everything derives from."""

    name: FolderName = "run"
    """The run's folder below ``root``; a configuration file's own name where it says nothing."""
    seed: NonNegativeInt = 42
    """Splits, batches, environments and sampling all derive from it."""
    parity: bool = False
    """Start from SkillOpt's defaults instead of ours, to compare; a key that is given holds."""
    root: Annotated[str, Field(min_length=1)] = "runs"
    """The folder that holds runs, relative to the working directory."""


def _with_prices(mind: Any, table: Mapping[str, Any]) -> Any:
    if not isinstance(mind, Mapping) or mind.get("backend") == "scripted":
        return mind
    listed = table.get(str(mind.get("model")))
    return mind if listed is None or mind.get("prices") else {**mind, "prices": listed}


_ROLES = {
    "target": ("household", "retail", "reader", "shopper"),
    "optimizer": ("analyst", "retail_analyst", "reader_analyst", "shopper_analyst"),
    "teacher": ("household_teacher", "retail_teacher", "webshop_teacher"),
}


class ModelsSection(Section):
    """The two minds of a training, each chosen on purpose, and the teacher of a bank."""

    target: ModelConfig
    """Acts in the environment; the skill is trained for it."""
    optimizer: ModelConfig
    """Reads trajectories and proposes edits."""
    teacher: ModelConfig | None = None
    """Writes the skills of a bank; unset, the optimizer's model does."""
    prices: dict[str, Prices] = Field(default_factory=dict)
    """What models cost, by name; where a model has ``prices`` of its own, those hold."""

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, values: Any) -> Any:
        """Give each mind the prices that stand under its name."""
        table = values.get("prices") if isinstance(values, Mapping) else None
        if not isinstance(table, Mapping):
            return values
        minds = {role: values[role] for role in _ROLES if values.get(role)}
        return {**values, **{role: _with_prices(mind, table) for role, mind in minds.items()}}

    @model_validator(mode="after")
    def _scripted_minds_know_their_part(self) -> "ModelsSection":
        for role, own in _ROLES.items():
            mind = getattr(self, role)
            if isinstance(mind, ScriptedConfig) and mind.model not in own:
                raise ValueError(
                    f"the scripted {mind.model!r} cannot be the {role}; use {own[0]!r} there"
                )
        return self

    @model_validator(mode="after")
    def _an_optimizer_can_propose(self) -> "ModelsSection":
        if self.optimizer.backend == "claude_code_exec":
            raise ValueError(
                "backend 'claude_code_exec' only acts; as the optimizer use 'claude_chat' with "
                "transport: cli, or 'codex_exec'"
            )
        return self


class RolloutSection(Section):
    """How episodes are played."""

    max_concurrent: PositiveInt = 64
    """Episodes in flight at once."""
    retries: NonNegativeInt = 2
    """Further attempts, each in a fresh environment, for an episode that failed."""
    give_up_after: PositiveInt | None = 20
    """Failed episodes in a row that stop the run, to be resumed; unset, no number does."""
    max_failure_share: Share | None = 0.5
    """A larger share of failures among the last 40 episodes, or 20 at first, stops it as well."""
    episode_timeout_s: PositiveFloat | None = None
    """Seconds that one attempt may take; unset, no bound but the model's own."""
    history_turns: PositiveInt | None = None
    """Exchanges that the agent is shown after the opening; unset, all."""
    reuse: list[str] = Field(default=[])
    """Folders of other runs: what they played under equal prompts and seeds is not played again."""
    mode: Literal["free", "lockstep"] = "free"
    """``free`` for agents behind endpoints, ``lockstep`` for policies that answer in batches."""


class SkillSection(Section):
    """The document that is trained, and a bank beside it."""

    init: str = ""
    """A file to begin with, relative to the working directory; blank begins with nothing."""
    bank: str = ""
    """A bank that is told below it: its file, JSON (ours, SkillRL's), or ``seed:alfworld``."""


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
    distil: DistilSection = DistilSection()
    evolve: EvolveSection = EvolveSection()
    budget: BudgetSection = BudgetSection()

    def decisions(self, train_tasks: int) -> int:
        """Return how often a training on ``train_tasks`` >= 1 tasks may ask the gate."""
        steps = self.train.epochs * self.train.steps_per_epoch(train_tasks)
        judges = self.optimizer.use_slow_update and self.optimizer.gate_slow_update
        candidates = steps + (self.train.epochs - 1 if judges else 0)
        gate = self.evaluation.gate
        if gate.admits_all:
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
        return gate.admits_all or gate.release is not None or self.optimizer.lets_in_unmeasured

    def why_hopeless(self, train_tasks: int, val_tasks: int) -> str:
        """Say why no candidate could ever pass the gate, or return "".

        Args:
            train_tasks: Tasks to practise on, at least so many, from 1.
            val_tasks: Tasks that the gate may draw.
        """
        return why_hopeless(self.evaluation.gate, self.ledger(train_tasks), val_tasks)

    @model_validator(mode="before")
    @classmethod
    def _parity(cls, values: Any) -> Any:
        """Lay SkillOpt's defaults under what is given, where ``run.parity`` asks for them."""
        return fill_in(values) if isinstance(values, Mapping) else values

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
