"""How much is trained, and how proposals change the skill."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from pydantic.json_schema import SkipJsonSchema

from skillwright.config.section import Section


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
    """Analyse failures only."""
    success_threshold: SkipJsonSchema[Annotated[float, Field(gt=0, le=1)] | None] = None
    """The reward from which analysts are shown a success; unset, ``env.success_threshold``."""
    analyst_budget: SkipJsonSchema[Literal["scheduled", "initial"]] = "scheduled"
    """Edits that one analyst may propose: the step's budget, or ``optimizer.learning_rate``."""
    analyst_workers: PositiveInt = 16
    """Analyst calls in flight at once."""


class SkillAwareSection(Section):
    """Slips of the agent are told from gaps in the skill; reminders go into an appendix."""

    appendix_source: Literal["both", "failure_only"] = "both"
    """Whose reminders are taken: those of both kinds of analyst, or of failures only."""
    consolidate_threshold: NonNegativeInt = 0
    """With more reminders than this the optimiser makes them fewer; 0 never asks."""
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
    """Edits whose anchor is not in the document go back to the optimiser once."""
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
    """From the second epoch on, the optimiser keeps notes of its own for the next epoch."""
    skill_aware: SkillAwareSection | None = None
    """How slips of the agent are told from gaps in the skill; unset, they are not."""
    memory_steps: SkipJsonSchema[PositiveInt] = 64
    """Steps that analysts are told about, the latest ones: what was tried, what came of it."""
    memory_across_epochs: SkipJsonSchema[bool] = True
    """A new epoch still knows the old one's steps."""

    @property
    def looks_back(self) -> bool:
        """Whether an epoch ends with a look back over it."""
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
