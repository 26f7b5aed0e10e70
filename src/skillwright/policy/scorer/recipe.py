"""The tiny recipe: numbers that take a scorer from nothing to its best in minutes, on one core.

The numbers were chosen on val games of homes that are in neither train nor test.
"""

from dataclasses import dataclass, field

from skillwright.policy.grpo import GrpoSettings
from skillwright.policy.loss import GrpoObjective
from skillwright.policy.schedule import Schedule
from skillwright.policy.sft import SftSettings


@dataclass(frozen=True, slots=True)
class TinyRecipe:
    """How the scoring policy is trained on games of `household_tasks`.

    Attributes:
        homes: Households that train games are set in, numbered from 0.
        demonstrations: Games that the expert plays; only its wins are learnt from.
        untold: Share of them that are played and learnt without a skill.
        sft: The cold start. Small steps and a high rate learn more in the same time than large
            and careful ones; rows are dealt out by whole episodes, whose skill is encoded once.
        iterations: Of GRPO.
        tasks: Per iteration.
        group: Episodes per task.
        again: Share of an iteration's tasks that come from those that were neither all won nor all
            lost before; a group of equals teaches nothing.
        least_weight: A family is drawn by how often it is lost, but by this at least.
        grpo: The update. The rate holds for half of the iterations and falls to a tenth; at 1e-3
            the policy collapses, at 3e-4 it is half as fast.
    """

    homes: int = 200
    demonstrations: int = 1200
    untold: float = 0.2
    sft: SftSettings = field(
        default_factory=lambda: SftSettings(
            steps=120,
            batch_rows=64,
            learning_rate=4e-3,
            schedule=Schedule("linear", warmup=0.25, floor=0.1),
        )
    )
    iterations: int = 60
    tasks: int = 16
    group: int = 8
    again: float = 0.5
    least_weight: float = 0.08
    grpo: GrpoSettings = field(
        default_factory=lambda: GrpoSettings(
            objective=GrpoObjective(kl_weight=0.01), learning_rate=5e-4, minibatch_rows=384
        )
    )

    def grpo_rate(self, iteration: int) -> float:
        """Return the learning rate of an iteration, from 0."""
        gone = iteration / self.iterations
        falling = 1.0 if gone < 0.5 else max(0.1, 2 * (1 - gone))
        return self.grpo.learning_rate * min(1.0, (iteration + 1) / 5) * falling
