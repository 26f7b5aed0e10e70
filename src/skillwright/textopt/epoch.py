"""What the stages at an epoch's end are given, and how they show it to the optimiser."""

from dataclasses import dataclass

from skillwright.core.fence import defuse
from skillwright.rollout.transcript_text import Cut
from skillwright.textopt.comparison import Comparison, render_comparison
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.prompts import skill_section, user_message


@dataclass(frozen=True, slots=True)
class EpochContext:
    """The situation at an epoch's end.

    Attributes:
        name: Names the epoch in records of calls (``e2``).
        previous_skill: The document that the epoch before ended with.
        skill: The document that this epoch ended with.
        comparison: How the same tasks fared under both.
        seed: Seeds the model's sampling; ``None`` leaves it to the endpoint.
    """

    name: str
    previous_skill: str
    skill: str
    comparison: Comparison
    seed: int | None = None


def epoch_message(
    optimizer: Optimizer, prompt: str, context: EpochContext, earlier: tuple[str, str]
) -> tuple[str, tuple[Cut, ...]]:
    """Write the user message of an epoch-end stage, within the optimiser's token budget.

    Returns:
        The message, and what it leaves out of the trajectories.
    """
    comparison = context.comparison
    before, after = comparison.means or (0.0, 0.0)
    facts = [f"{name}: {count}" for name, count in comparison.counts.items()]
    facts.append(f"mean reward: {before:.2f} -> {after:.2f}")
    heading, text = earlier
    head = user_message(
        skill_section(context.skill),
        ("Previous skill", skill_section(context.previous_skill)[1]),
        (heading, defuse(text).strip()),
        ("Outcomes", "\n".join(facts)),
    )
    head = f"{head}\n\n## Comparison\n"
    shown = render_comparison(comparison, optimizer.room(prompt, head))
    return head + shown.text, shown.cuts
