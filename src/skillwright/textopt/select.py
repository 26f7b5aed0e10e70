"""Select the most valuable edits within a step's budget.

Source: SkillOpt (microsoft/SkillOpt), ranking under the edit budget, its learning rate.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import Purpose, did_you_mean
from skillwright.core.fence import json_block, one_line
from skillwright.core.jsonio import encode_fields
from skillwright.rollout.transcript import Transcript
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.optimizer import (
    BudgetReply,
    Call,
    Optimizer,
    RankReply,
    budget_section,
    notes_section,
    skill_section,
    user_message,
)
from skillwright.textopt.proposal import (
    AnalystFault,
    BudgetControl,
    Proposal,
    RankFallback,
    UpdateMode,
    item_form,
    listed,
)


@dataclass(frozen=True, slots=True)
class Selection:
    """The edits to make, in order.

    Attributes:
        ranked: A model chose; else all edits fit, or the fallback applied.
        notes: Corrections of its reply.
        repairs: What was done to read its reply.
    """

    proposals: tuple[Proposal, ...]
    ranked: bool = False
    reasoning: str = ""
    fault: AnalystFault | None = None
    notes: tuple[str, ...] = ()
    prompt_digest: str = ""
    repairs: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object, proposals by id."""
        return {**encode_fields(self), "proposals": [one.id for one in self.proposals]}


async def rank_and_select(
    optimizer: Optimizer,
    context: StepContext,
    proposals: Sequence[Proposal],
    mode: UpdateMode = UpdateMode.PATCH,
    fallback: RankFallback = RankFallback.SUPPORT,
) -> Selection:
    """Cut proposals to the step's budget; call the model only if they do not fit.

    ``fallback`` decides if the model's choice is unusable.
    """
    budget = context.budget
    if budget is None or len(proposals) <= budget:
        return Selection(tuple(proposals))
    if budget <= 0:
        return Selection(())
    form = item_form(mode)
    user = user_message(
        skill_section(context.skill),
        notes_section(context.meta_skill),
        budget_section("Select", budget, form.noun),
        (form.noun.capitalize(), json_block(listed(mode, proposals))),
    )
    call = Call(f"{context.name}.rank", f"ranking{form.suffix}", user, Purpose.RANK, context.seed)
    answer = await optimizer.ask(call, RankReply)
    if fallback is RankFallback.SUPPORT:
        proposed = sorted(proposals, key=lambda proposal: -proposal.support)
    else:
        proposed = list(proposals)
    first = tuple(proposed[:budget])
    if isinstance(answer.reply, AnalystFault):
        return Selection(first, fault=answer.reply, prompt_digest=answer.prompt_digest)
    reply, chosen = answer.reply, answer.reply.selected_indices
    if not optimizer.as_written and all(isinstance(one, str) for one in chosen):
        chosen = [int(one) for one in chosen if one.strip().isdecimal()]
    indices = _valid(chosen, len(proposals))[:budget]
    notes = () if indices else (f"no selected index names an edit; {fallback.value} decides",)
    return Selection(
        proposals=tuple(proposals[index] for index in indices) or first,
        ranked=bool(indices),
        reasoning=reply.reasoning,
        notes=notes,
        repairs=answer.repairs,
        prompt_digest=answer.prompt_digest,
    )


def _valid(indices: Sequence[object], count: int) -> list[int]:
    """Keep whole numbers that name an edit, each once, in the order given."""
    valid = [index for index in indices if type(index) is int and 0 <= index < count]
    return list(dict.fromkeys(valid))


# Source: SkillOpt (microsoft/SkillOpt), its edit-budget schedulers; values match it step for step,
# including Python's rounding of halves to even.


AUTONOMOUS_CEILING = 999
"""The budget of `AutonomousScheduler`: no cap, the optimizer model decides."""


class LRScheduler(ABC):
    """Gives each step its edit budget, the learning rate of a text optimizer.

    `get_lr` is a pure function of the step, so a resumed loop gets the same budgets. `step` counts
    by itself, as in the documented API.

    Args:
        max_lr: Edits at full rate.
        min_lr: Minimum number of edits of a decaying schedule.
        total_steps: Number of steps until a decaying schedule reaches ``min_lr``.
    """

    def __init__(self, max_lr: int = 8, min_lr: int = 2, total_steps: int = 8) -> None:
        self.max_lr = max_lr
        self.min_lr = min_lr
        self.total_steps = total_steps
        self._current_step = 0

    @abstractmethod
    def get_lr(self, step: int) -> int:
        """Return the budget of a step, counted from 1; constant after the last."""

    def step(self) -> int:
        """Advance by one step and return its budget."""
        self._current_step += 1
        return self.get_lr(self._current_step)

    def state_dict(self) -> dict[str, int]:
        """Return ``{"current_step": n}`` after ``n`` steps."""
        return {"current_step": self._current_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from `state_dict`; a missing count is 0."""
        self._current_step = int(state.get("current_step", 0))


class ConstantScheduler(LRScheduler):
    """The full rate at every step."""

    def get_lr(self, step: int) -> int:
        """Return ``max_lr``."""
        return self.max_lr


class _Decaying(LRScheduler):
    """Decays from ``max_lr`` to ``min_lr``; the first step is already lower."""

    def get_lr(self, step: int) -> int:
        """Return the budget of a step, counted from 1; a one-step schedule does not decay."""
        if self.total_steps <= 1:
            return self.max_lr
        return max(self.min_lr, round(self._at(min(step, self.total_steps) / self.total_steps)))

    @abstractmethod
    def _at(self, progress: float) -> float:
        """Return the unrounded rate at ``progress`` in (0, 1]."""


class LinearScheduler(_Decaying):
    """Decays linearly."""

    def _at(self, progress: float) -> float:
        return self.max_lr + (self.min_lr - self.max_lr) * progress


class CosineScheduler(_Decaying):
    """Decays along half a cosine: slowly, then fast, then slowly."""

    def _at(self, progress: float) -> float:
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * progress))


class AutonomousScheduler(LRScheduler):
    """Sets no cap: the optimizer model names the budget."""

    NO_LIMIT = AUTONOMOUS_CEILING

    def get_lr(self, step: int) -> int:
        """Return a number that no list of edits reaches."""
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


# Source: SkillOpt (microsoft/SkillOpt), learning-rate control modes. There ``none`` still follows
# the schedule unless skills are rewritten; here it sets no limit.


_TASK_TYPE_CHARS = 80
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """The budget of a step.

    Attributes:
        budget: Maximum number of edits; ``None`` is no limit.
        fallback: The optimizer's answer was unusable, and the budget is 0.
        repairs: What was done to read its reply.
    """

    control: BudgetControl
    budget: int | None
    reasoning: str = ""
    fallback: bool = False
    fault: AnalystFault | None = None
    prompt_digest: str = ""
    repairs: tuple[str, ...] = ()


async def decide_budget(
    optimizer: Optimizer,
    settings: StepSettings,
    context: StepContext,
    rows: Sequence[Transcript],
    proposals: Sequence[Proposal],
) -> BudgetDecision:
    """Decide how many of the merged edits a step makes."""
    control = settings.control
    if control is BudgetControl.NONE:
        return BudgetDecision(control, None)
    if control is BudgetControl.FIXED or not proposals:
        return BudgetDecision(control, context.budget)
    user = user_message(
        skill_section(context.skill),
        ("Earlier steps", context.earlier_steps),
        notes_section(context.meta_skill),
        ("Rollouts", _statistics(rows)),
        ("Edits", json_block(listed(settings.update_mode, proposals))),
    )
    call = Call(f"{context.name}.lr", "lr_autonomous", user, Purpose.BUDGET, context.seed)
    answer = await optimizer.ask(call, BudgetReply)
    fallback = BudgetDecision(control, 0, fallback=True, prompt_digest=answer.prompt_digest)
    if isinstance(answer.reply, AnalystFault):
        return replace(fallback, fault=answer.reply)
    number = coerced(answer.reply.edit_budget)
    return BudgetDecision(
        control,
        0 if number is None else min(number, len(proposals)),
        reasoning=answer.reply.reasoning,
        fallback=number is None,
        prompt_digest=answer.prompt_digest,
        repairs=answer.repairs,
    )


def coerced(value: object) -> int | None:
    """Read a model's number of edits, at least 0, or ``None``.

    A number is truncated; of a text the first whole number counts; a boolean is not a number.
    """
    match value:
        case bool():
            return None
        case int():
            return max(value, 0)
        case float() if math.isfinite(value):
            return max(int(value), 0)
        case str():
            found = _NUMBER.search(value)
            return max(int(found.group()), 0) if found else None
        case _:
            return None


def _statistics(rows: Sequence[Transcript]) -> str:
    """Summarize a batch: number of rollouts and mean reward, in all and by task type."""
    by_type: dict[str, list[float]] = {}
    for row in rows:
        by_type.setdefault(row.task_type, []).append(row.reward)
    groups = {"all": [row.reward for row in rows], **dict(sorted(by_type.items()))}
    return "\n".join(
        f"{one_line(name or 'other', _TASK_TYPE_CHARS)}: {len(rewards)} rollouts, "
        f"mean reward {sum(rewards) / len(rewards):.2f}"
        for name, rewards in groups.items()
        if rewards
    )
