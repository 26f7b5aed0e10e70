"""What a run of the recipe has to show; nothing is asked, played or loaded for it."""

from dataclasses import dataclass
from typing import Any

from skillwright.config.rl import RlConfig
from skillwright.evaluation import SplitReport
from skillwright.jobs.rl.state import RlState


@dataclass(frozen=True, slots=True)
class RlReport:
    """What a finished run has to show.

    Attributes:
        state: Where it stands.
        iteration: After which iteration the selected weights are.
    """

    state: RlState
    iteration: int

    @property
    def test(self) -> SplitReport | None:
        """Scores on test, or ``None`` where the run does not test."""
        return self.state.test

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "job": "rl",
            "selected_iteration": self.iteration,
            "released_iteration": self.released,
            **self.state.to_dict(),
        }

    @property
    def released(self) -> int:
        """After which iteration the weights are that are released; 0 is the cold start."""
        test = self.state.release
        return self.iteration if test is None or test.accepted else 0


def selected(config: RlConfig, state: RlState) -> int:
    """Return after which iteration the weights are that a run ends with."""
    if config.evaluation.select == "last" or state.best is None:
        return config.grpo.iterations
    return state.best.iteration
