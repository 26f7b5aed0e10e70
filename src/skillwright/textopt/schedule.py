"""The learning rate of a text optimiser: how many edits a step may make.

Source: SkillOpt (microsoft/SkillOpt), its edit-budget schedulers; values match it step for step,
Python's rounding of halves to even included.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from skillwright.core import did_you_mean

AUTONOMOUS_CEILING = 999
"""What `AutonomousScheduler` answers: no cap from the schedule, the optimiser model decides."""


class LRScheduler(ABC):
    """Gives each step its edit budget.

    `get_lr` is a pure function of the step, so a loop that asks by its own step number resumes
    exactly. `step` keeps a count of its own, for callers that were written against the documented
    API.

    Args:
        max_lr: Edits at full rate.
        min_lr: Edits that a decaying schedule never goes below.
        total_steps: Steps until a decaying schedule has come down to ``min_lr``.
    """

    def __init__(self, max_lr: int = 8, min_lr: int = 2, total_steps: int = 8) -> None:
        self.max_lr = max_lr
        self.min_lr = min_lr
        self.total_steps = total_steps
        self._current_step = 0

    @abstractmethod
    def get_lr(self, step: int) -> int:
        """Return the budget of a step, counted from 1; past the end it stays where it came to."""

    def step(self) -> int:
        """Advance by one step and return its budget."""
        self._current_step += 1
        return self.get_lr(self._current_step)

    def state_dict(self) -> dict[str, int]:
        """Return ``{"current_step": n}``, where ``n`` steps have been taken."""
        return {"current_step": self._current_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`; a missing count means that nothing was taken."""
        self._current_step = int(state.get("current_step", 0))


class ConstantScheduler(LRScheduler):
    """The full rate at every step."""

    def get_lr(self, step: int) -> int:
        """Return ``max_lr``."""
        del step
        return self.max_lr


class _Decaying(LRScheduler):
    """Comes down from ``max_lr`` to ``min_lr``; the first step is already one part down."""

    def get_lr(self, step: int) -> int:
        """Return the budget of a step, counted from 1; a one-step schedule does not decay."""
        if self.total_steps <= 1:
            return self.max_lr
        return max(self.min_lr, round(self._at(min(step, self.total_steps) / self.total_steps)))

    @abstractmethod
    def _at(self, progress: float) -> float:
        """Return the unrounded rate at ``progress`` in (0, 1]."""


class LinearScheduler(_Decaying):
    """Comes down in a straight line."""

    def _at(self, progress: float) -> float:
        return self.max_lr + (self.min_lr - self.max_lr) * progress


class CosineScheduler(_Decaying):
    """Comes down along half a cosine: slowly, then fast, then slowly."""

    def _at(self, progress: float) -> float:
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * progress))


class AutonomousScheduler(LRScheduler):
    """Sets no cap of its own: the optimiser model names the budget.

    Attributes:
        NO_LIMIT: What `get_lr` answers.
    """

    NO_LIMIT = AUTONOMOUS_CEILING

    def get_lr(self, step: int) -> int:
        """Return a number that no list of edits reaches."""
        del step
        return self.NO_LIMIT


_SCHEDULERS: dict[str, type[LRScheduler]] = {
    "constant": ConstantScheduler,
    "linear": LinearScheduler,
    "cosine": CosineScheduler,
    "autonomous": AutonomousScheduler,
}


def build_scheduler(
    mode: str = "constant", max_lr: int = 8, min_lr: int = 2, total_steps: int = 8
) -> LRScheduler:
    """Build a scheduler by name.

    Raises:
        ValueError: The name is unknown; the message names the nearest.
    """
    if mode not in _SCHEDULERS:
        raise ValueError(f"Unknown scheduler mode {mode!r}. {did_you_mean(mode, _SCHEDULERS)}")
    return _SCHEDULERS[mode](max_lr=max_lr, min_lr=min_lr, total_steps=total_steps)
