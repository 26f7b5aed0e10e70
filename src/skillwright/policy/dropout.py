"""Groups that see fewer skills, so that a policy does not lean on any one of them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillwright.core import ConfigError, SkillContext, SkillSource, Task
from skillwright.core.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class SkillDropout:
    """A skill source that leaves skills out for a share of the tasks.

    All episodes of a task meet the same choice, because a group is compared under the same skills.
    A skill is a line that begins with ``- [its id]``, as the bank renders it.

    Attributes:
        source: What retrieves.
        share: Of the tasks that see fewer skills, in [0, 1].
        keep: Chance of each skill to stay there, in [0, 1]; 0 leaves none.
        seed: Of the choice; another one per iteration.

    Raises:
        ConfigError: A share is out of its range.
    """

    source: SkillSource
    share: float
    keep: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or not 0 <= self.keep <= 1:
            raise ConfigError(
                f"skill_dropout.share is {self.share} and keep {self.keep}; set both in [0, 1]"
            )

    @property
    def waits(self) -> bool:
        """Whether the source may take long."""
        return self.source.waits

    def context(self, task: Task) -> SkillContext:
        """Return what the agent is told for a task."""
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return what the agent is told for each task."""
        whole = self.source.contexts(tasks)
        return [self._thinned(task, told) for task, told in zip(tasks, whole, strict=True)]

    def _thinned(self, task: Task, told: SkillContext) -> SkillContext:
        luck = random.Random(derive_seed("skill dropout", self.seed, task.id))
        if luck.random() >= self.share:
            return told
        dropped = {name for name in told.skill_ids if luck.random() >= self.keep}
        if not dropped:
            return told
        marks = tuple(f"- [{name}] " for name in dropped)
        lines = [line for line in told.text.splitlines() if not line.startswith(marks)]
        pairs = list(zip(told.skill_ids, told.scores, strict=False))
        return replace(
            told,
            text=_without_empty_sections(lines),
            skill_ids=tuple(name for name in told.skill_ids if name not in dropped),
            scores=tuple(score for name, score in pairs if name not in dropped),
        )


def _without_empty_sections(lines: Sequence[str]) -> str:
    """Join lines, without headings that nothing stands under any more."""
    kept: list[str] = []
    for line in reversed(lines):
        heads = line.startswith("### ")
        if heads and (not kept or kept[-1].startswith("### ")):
            continue
        kept.append(line)
    return "\n".join(reversed(kept))
