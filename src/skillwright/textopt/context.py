"""What a learning step is given: settings that hold for a run, and the situation of one step."""

from dataclasses import dataclass, field

from skillwright.core import ConfigError
from skillwright.textopt.lint import EditLimits

ANY_REWARD = 1e-9
"""The success threshold of SkillOpt: every reward above zero is a success."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How a run reflects and merges.

    Attributes:
        minibatch_size: Trajectories per analyst call, at least 1.
        merge_batch_size: Patches per merge call, at least 2.
        success_threshold: A trajectory with at least this reward is a success.
        failure_only: Successes are not analysed.
        analyst_workers: Analyst calls in flight at once, at least 1.
        analyst_budget: Edits that one analyst may propose; ``None`` is the step's own budget.
        limits: How long edits and skills may become.

    Raises:
        ConfigError: A size is below its least.
    """

    minibatch_size: int = 8
    merge_batch_size: int = 8
    success_threshold: float = 1.0
    failure_only: bool = False
    analyst_workers: int = 16
    analyst_budget: int | None = None
    limits: EditLimits = field(default_factory=EditLimits)

    def __post_init__(self) -> None:
        for name, least in (("minibatch_size", 1), ("merge_batch_size", 2), ("analyst_workers", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True, slots=True)
class StepContext:
    """The situation of one step.

    Attributes:
        name: Names the step in ids of proposals (``s3``).
        skill: The document that the rollouts were made with.
        budget: Edits that the step may make; ``None`` sets no limit.
        seed: Shuffles trajectories into minibatches and seeds the model's sampling; ``None`` keeps
            the input order.
        earlier_steps: What earlier steps tried (`StepMemory.render`), or ``""``.
        meta_skill: What the optimiser has learned about optimising, or ``""``.
    """

    name: str
    skill: str
    budget: int | None
    seed: int | None = None
    earlier_steps: str = ""
    meta_skill: str = ""
