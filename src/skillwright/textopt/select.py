"""Select: a step makes as many edits as its budget allows, the most valuable first.

Source: SkillOpt (microsoft/SkillOpt), ranking under the edit budget, its learning rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skillwright.core import Purpose
from skillwright.core.codec import encode_fields
from skillwright.core.fence import json_block
from skillwright.textopt.context import StepContext
from skillwright.textopt.items import item_form, listed
from skillwright.textopt.optimizer import Call, Optimizer
from skillwright.textopt.prompts import budget_section, notes_section, skill_section, user_message
from skillwright.textopt.proposal import AnalystFault, Proposal
from skillwright.textopt.replies import RankReply
from skillwright.textopt.update_modes import RankFallback, UpdateMode


@dataclass(frozen=True, slots=True)
class Selection:
    """The edits to make, in order.

    Attributes:
        ranked: A model chose; else everything fitted, or the fallback decided.
        notes: What was put right in its reply.
    """

    proposals: tuple[Proposal, ...]
    ranked: bool = False
    reasoning: str = ""
    fault: AnalystFault | None = None
    notes: tuple[str, ...] = ()
    prompt_digest: str = ""

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
    """Cut proposals down to the step's budget.

    Nobody is asked where they fit. Where the model's choice cannot be used, ``fallback`` says
    which edits are taken.
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
    indices = _valid(answer.reply.selected_indices, len(proposals))[:budget]
    reply = answer.reply
    notes = () if indices else (f"no selected index names an edit; {fallback.value} decides",)
    return Selection(
        proposals=tuple(proposals[index] for index in indices) or first,
        ranked=bool(indices),
        reasoning=reply.reasoning,
        notes=notes,
        prompt_digest=answer.prompt_digest,
    )


def _valid(indices: Sequence[object], count: int) -> list[int]:
    """Keep whole numbers that name an edit, each once, in the order given."""
    valid = [
        index
        for index in indices
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < count
    ]
    return list(dict.fromkeys(valid))
