"""What is in a bank, and how much shorter it is than what it was learnt from."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillwright.bank.bank import Bank
from skillwright.bank.render import CountTokens, approximate_tokens, skill_line
from skillwright.core import Message, SkillKind, SkillStatus, Trajectory


@dataclass(frozen=True, slots=True)
class BankCounts:
    """How many active skills there are.

    Attributes:
        general: General skills.
        task_specific: Task-specific skills.
        lessons: Lessons.
        by_category: (task-specific skills, lessons) by category, sorted; ``""`` for every one.
        retired: Skills that were taken out.
        quarantined: Skills that have not been let in.
    """

    general: int
    task_specific: int
    lessons: int
    by_category: Mapping[str, tuple[int, int]]
    retired: int
    quarantined: int

    @property
    def total(self) -> int:
        """All active skills."""
        return self.general + self.task_specific + self.lessons

    @property
    def headline(self) -> str:
        """As SkillRL counts, lessons being task-specific, with the split beside it."""
        return (
            f"{self.general} + {self.task_specific + self.lessons} = {self.total} "
            f"({self.general} general, {self.task_specific} task-specific, {self.lessons} lessons)"
        )


def count_skills(bank: Bank) -> BankCounts:
    """Count the skills of a bank by kind and category."""
    kinds = Counter(skill.kind for skill in bank.active)
    pairs = Counter((skill.category, skill.kind) for skill in bank.active)
    categories = sorted({category for category, kind in pairs if kind != SkillKind.GENERAL})
    statuses = Counter(skill.status for skill in bank.skills)
    return BankCounts(
        general=kinds[SkillKind.GENERAL],
        task_specific=kinds[SkillKind.TASK_SPECIFIC],
        lessons=kinds[SkillKind.LESSON],
        by_category={
            one: (pairs[one, SkillKind.TASK_SPECIFIC], pairs[one, SkillKind.LESSON])
            for one in categories
        },
        retired=statuses[SkillStatus.RETIRED],
        quarantined=statuses[SkillStatus.QUARANTINED],
    )


def active_by_category(bank: Bank) -> dict[str, int]:
    """Count the active skills of a bank by category, lessons included; ``""`` is every one."""
    return dict(sorted(Counter(skill.category for skill in bank.active).items()))


@dataclass(frozen=True, slots=True)
class Compression:
    """How much shorter skills are, in tokens as the given rule counts them.

    Attributes:
        skills: Active skills whose evidence is among the trajectories.
        episodes: Trajectories that these were learnt from.
        missing: Episodes that are named as evidence and are not among the trajectories.
        skill_tokens: Length of those skills, written as agents read them.
        raw_tokens: Length of those trajectories, everything that was said and seen.
        summary_tokens: Length of their summaries.
        with_tokens: Length of the given prompts as they were shown.
        without_tokens: The same without the skills in them.
    """

    skills: int
    episodes: int
    missing: int
    skill_tokens: int
    raw_tokens: int
    summary_tokens: int
    with_tokens: int
    without_tokens: int

    @property
    def raw_ratio(self) -> float | None:
        """Trajectories over skills: SkillRL claims 10 to 20. ``None`` without evidence."""
        return self.raw_tokens / self.skill_tokens if self.skill_tokens else None

    @property
    def summary_ratio(self) -> float | None:
        """Summaries over skills; ``None`` without evidence."""
        return self.summary_tokens / self.skill_tokens if self.skill_tokens else None

    @property
    def prompt_ratio(self) -> float | None:
        """Prompts with skills over the same without; ``None`` without prompts."""
        return self.with_tokens / self.without_tokens if self.without_tokens else None


def raw_text(trajectory: Trajectory) -> str:
    """Write everything that an agent said and saw in an episode."""
    parts = [trajectory.opening]
    for turn in trajectory.turns:
        parts += [turn.act.written, turn.observation]
    return "\n".join(parts)


def acts_of(trajectory: Trajectory) -> str:
    """Summarise an episode without a model: how it opened, and what the agent did."""
    return "\n".join([trajectory.opening, *(turn.act.written for turn in trajectory.turns)])


def compression(
    bank: Bank,
    trajectories: Mapping[str, Trajectory],
    prompts: Iterable[tuple[Sequence[Message], str]] = (),
    *,
    count: CountTokens = approximate_tokens,
    summarise: Callable[[Trajectory], str] = acts_of,
) -> Compression:
    """Measure how much shorter the skills of a bank are than what they were learnt from.

    Args:
        bank: The bank; its skills name their episodes.
        trajectories: What happened, by the key of the episode.
        prompts: Prompts that agents were shown, each with the text of the skills in it.
        count: Counts the tokens of a text.
        summarise: Writes the summary of an episode.

    Source: SkillRL (arXiv 2602.08234), which compares with raw trajectories in the text and with
    memories in a figure.
    """
    named = {skill.id: set(skill.provenance.episodes) for skill in bank.active}
    learnt = [skill for skill in bank.active if named[skill.id] & trajectories.keys()]
    episodes = sorted(set().union(*named.values()))
    known = [trajectories[key] for key in episodes if key in trajectories]
    shown = [("".join(one["content"] for one in messages), told) for messages, told in prompts]
    with_tokens = sum(count(text) for text, _ in shown)
    return Compression(
        skills=len(learnt),
        episodes=len(known),
        missing=len(episodes) - len(known),
        skill_tokens=sum(count(skill_line(skill)) for skill in learnt),
        raw_tokens=sum(count(raw_text(one)) for one in known),
        summary_tokens=sum(count(summarise(one)) for one in known),
        with_tokens=with_tokens,
        without_tokens=with_tokens - sum(count(told) for _, told in shown),
    )
