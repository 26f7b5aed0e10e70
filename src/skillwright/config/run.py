"""What a training's configuration may say. Frozen; unknown keys are refused; every key is read.

The classes are the schema. What is no key of a file (`SkipJsonSchema`) is set by ``run.parity`` or
by code; see `removed`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.bank import BankSection, DistilSection, EvolveSection
from skillwright.config.budget import BudgetSection
from skillwright.config.env import (
    EnvSection,
    GeneratedData,
    QaData,
    WebShopData,
)
from skillwright.config.gate import EvaluationSection
from skillwright.config.job import NamedRun, PlayedEpisodes, PricedModels
from skillwright.config.learning import (
    GradientSection,
    OptimizerSection,
    TrainSection,
)
from skillwright.config.parity import fill_in
from skillwright.config.section import Section, validated_section
from skillwright.evaluation import AlphaLedger, power_text, why_hopeless
from skillwright.models import ModelConfig


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
        "target": ("household", "retail", "reader", "shopper"),
        "optimizer": ("analyst", "retail_analyst", "reader_analyst", "shopper_analyst"),
        "teacher": ("household_teacher", "retail_teacher", "webshop_teacher"),
    }

    @model_validator(mode="after")
    def _an_optimizer_can_propose(self) -> "ModelsSection":
        if self.optimizer.backend == "claude_code_exec":
            raise ValueError(
                "backend 'claude_code_exec' only acts; as the optimizer use 'claude_chat' with "
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
