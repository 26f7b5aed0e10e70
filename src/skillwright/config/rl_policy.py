"""The policy and how its weights are trained, as a configuration says it."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.section import Section, kind_unless_given
from skillwright.models.frozen import Share


class ScorerPolicyConfig(Section):
    """A small network that scores the commands on offer, built anew; it learns on a laptop."""

    kind: Literal["scorer"] = "scorer"
    width: PositiveInt = 64
    """Size of every vector; a multiple of ``heads``."""
    layers: PositiveInt = 2
    """Convolutions over what was read."""
    hidden: PositiveInt = 128
    """Size of the last hidden layer."""
    threads: PositiveInt = 1
    """Processor threads. With one, a run's numbers hang on neither cores nor load, and so small a
    network is no slower."""

    @property
    def label(self) -> str:
        """What a run says of its policy."""
        return "a command scorer"


class LoraConfig(Section):
    """Train an adapter instead of all weights."""

    rank: PositiveInt = 16
    """Of the adapter's matrices."""
    alpha: PositiveInt = 32
    """Its output is scaled by ``alpha / rank``."""


class HfPolicyConfig(Section):
    """Any causal language model of the transformers library with a chat template."""

    kind: Literal["hf"] = "hf"
    model: Annotated[str, Field(min_length=1)]
    """A folder, or a name on the Hugging Face hub."""
    download: bool = False
    """Fetch it where it is not on this machine."""
    lora: LoraConfig | None = None
    """Unset, all weights are trained."""
    precision: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    """``auto`` is bfloat16 on a GPU and float32 elsewhere."""
    device: str = "auto"
    """``auto`` takes a GPU where there is one."""
    max_new_tokens: PositiveInt = 512
    """Bound on an answer, in tokens."""
    context_tokens: PositiveInt | None = None
    """Bound on prompt and answer together; unset, the model's."""
    sample_rows: PositiveInt = 128
    """Conversations that are sampled at once."""
    micro_tokens: PositiveInt = 16_384
    """Tokens of a forward and backward pass, padding included."""
    restrict: SkipJsonSchema[bool] = True
    """Hold answers to the commands on offer, where the environment lists them."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them."""
    template: dict[str, Any] = Field(default_factory=dict)
    """Handed to the chat template by name (``enable_thinking: false``)."""

    @property
    def label(self) -> str:
        """What a run says of its policy."""
        return self.model


PolicyConfig = Annotated[
    ScorerPolicyConfig | HfPolicyConfig,
    Field(discriminator="kind"),
    kind_unless_given("scorer"),
]


class ScheduleSection(Section):
    """How a learning rate rises and falls."""

    shape: Literal["cosine", "linear", "constant"] = "cosine"
    """How it falls after the rise."""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the steps in which it rises."""
    floor: Share = 0.0
    """Share of the highest rate that the last step ends at."""


class ColdStartSection(Section):
    """Supervised steps on what the expert won in the real environment, told skills."""

    tasks: PositiveInt | None = None
    """The first so many tasks to practise on; unset, all."""
    episodes: PositiveInt = 1
    """Episodes of the expert per task."""
    without_skills: Share = 0.2
    """Share of the tasks that are told nothing, so that the policy learns to do without as well."""
    steps: PositiveInt = 300
    """Optimiser steps."""
    batch_rows: PositiveInt = 128
    """Turns per step, about."""
    whole_episodes: bool = False
    """Deal turns out by episodes: a scorer reads the skill once for all turns of one."""
    learning_rate: PositiveFloat = 2e-5
    """The highest of the schedule; 4e-3 suits a scorer."""
    schedule: ScheduleSection = ScheduleSection()
    """How the rate rises and falls over the steps."""
    join_turns: bool = False
    """One row per episode where prompts go on where the last ended (``hf`` only)."""


class StepAdvantageSection(Section):
    """GiGPO's second advantage: a turn among those that saw the same."""

    weight: PositiveFloat = 1.0
    """What it is multiplied by before it is added."""
    discount: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Of what is still won, per turn."""


class GrpoSection(Section):
    """Reinforcement: groups of episodes of the same task, compared with each other."""

    iterations: PositiveInt = 100
    """Rollouts and updates, in turn."""
    tasks_per_iteration: PositiveInt = 16
    """Tasks of an iteration; without ``harder`` and ``again``, none comes twice in a pass."""
    group_size: Annotated[int, Field(ge=2)] = 8
    """Episodes per task, told the same skills."""
    harder: bool = False
    """Draw families that are lost more often more often, instead of all tasks in turn."""
    again: Share = 0.0
    """Share of an iteration's tasks that were sometimes won and sometimes lost when last played."""
    temperature: PositiveFloat = 1.0
    """What is sampled at."""
    skill_dropout: SkipJsonSchema[Share] = 0.0
    """Share of the groups that are told only a part of their skills."""
    learning_rate: PositiveFloat = 1e-6
    """The highest of the schedule; 5e-4 suits a scorer."""
    schedule: ScheduleSection = ScheduleSection(shape="constant", warmup=0.0)
    """How the rate rises and falls over the iterations."""
    clip_high: NonNegativeFloat = 0.2
    """And up to 1 and this."""
    kl_weight: NonNegativeFloat = 0.01
    """Weight of the divergence from the policy that the cold start ended with."""
    entropy_weight: NonNegativeFloat = 0.0
    """Weight of the entropy, which is a bonus."""
    rows: Literal["steps", "trajectories"] = "steps"
    """One row per turn, or per episode where prompts go on (``hf`` only)."""
    epochs: PositiveInt = 1
    """Passes over the rows of an iteration."""
    minibatch_rows: PositiveInt | None = 128
    """Rows per optimiser step, about; unset, all."""
    statistics: Literal["trajectories", "rows"] = "trajectories"
    """What the mean of a group runs over; ``rows`` is what SkillRL's code does."""
    scale_by_std: bool = True
    """Divide advantages by the deviation of their group."""
    step_advantage: StepAdvantageSection | None = None
    """GiGPO's second advantage; unset, none."""
    penalty: NonNegativeFloat = 0.01
    """Taken off the advantage of a turn whose action was none of those on offer."""
    checkpoint_every: PositiveInt = 10
    """Iterations between checkpoints; validation, evolution and the end make their own."""
    keep_rollouts: bool = False
    """Keep the episodes of training in the run's store too."""
