"""How many edits a step makes: what the schedule says, what the optimiser decides, or no limit.

Source: SkillOpt (microsoft/SkillOpt), its learning-rate control modes. There ``none`` still follows
the schedule unless skills are rewritten; ours sets no limit.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillwright.core import Purpose
from skillwright.core.fence import json_block, one_line
from skillwright.rollout.transcript import Transcript
from skillwright.textopt.context import StepContext, StepSettings
from skillwright.textopt.items import listed
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.prompts import notes_section, skill_section, user_message
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.replies import BudgetReply
from skillwright.textopt.update_modes import BudgetControl

_FAMILY_CHARS = 80
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """The budget of a step.

    Attributes:
        budget: Edits that the step may make; ``None`` sets no limit.
        fallback: The optimiser's answer could not be used, and the budget is 0.
    """

    control: BudgetControl
    budget: int | None
    reasoning: str = ""
    fallback: bool = False
    fault: AnalystFault | None = None
    prompt_digest: str = ""


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
    )


def coerced(value: object) -> int | None:
    """Read a model's number of edits: a whole number from 0, or ``None`` where there is none.

    A number is cut to a whole one, of a text the first whole number counts, and what is below 0
    is 0. A truth value is no number.
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
    """Tell how a batch went: how many rollouts, and the mean reward, of all and by family."""
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row.task_type, []).append(row.reward)
    groups = {"all": [row.reward for row in rows], **dict(sorted(families.items()))}
    return "\n".join(
        f"{one_line(name or 'other', _FAMILY_CHARS)}: {len(rewards)} rollouts, "
        f"mean reward {sum(rewards) / len(rewards):.2f}"
        for name, rewards in groups.items()
        if rewards
    )
