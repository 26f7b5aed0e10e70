"""A policy plays: the engine's agent, which keeps what it sampled until it is learned from."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillwright.core import (
    Act,
    ConfigError,
    ContractError,
    EpisodeResult,
    Message,
    SkillContext,
    SkillSource,
    Task,
    Turn,
    TurnContext,
)
from skillwright.core.seeds import derive_seed
from skillwright.policy.backend import PolicyBackend, Row


@dataclass(frozen=True, slots=True)
class _Kept:
    prompt: tuple[Message, ...]
    row: Row


class KeptRows:
    """What was sampled, until it is learned from: the rows behind the turns of an episode."""

    def __init__(self) -> None:
        self._kept: dict[int, list[_Kept]] = defaultdict(list)

    def keep(self, context: TurnContext, row: Row) -> None:
        """Keep what was sampled for a turn."""
        self._kept[context.seed].append(_Kept(tuple(context.messages), row))

    def rows(self, result: EpisodeResult) -> tuple[Row, ...]:
        """Return what was sampled in an episode: one row per turn, named after episode and task.

        Raises:
            ContractError: A turn was not sampled here since `forget`.
        """
        name = f"{result.task_id}#{result.spec.seed}"
        return tuple(
            replace(self._find(turn, name), episode=name, group=result.task_id, turn=turn.index)
            for turn in result.trajectory.turns
        )

    def forget(self) -> None:
        """Drop all rows: they are learned from, or no longer wanted."""
        self._kept.clear()

    def _find(self, turn: Turn, episode: str) -> Row:
        # Seeds have 31 bits, so in a large batch two turns may share one; prompts tell them apart.
        # The latest comes first: an episode that is played again meets its seeds again.
        for kept in reversed(self._kept.get(turn.seed, [])):
            if kept.prompt == turn.prompt and kept.row.token_ids == turn.act.token_ids:
                return kept.row
        raise ContractError(
            f"turn {turn.index} of episode {episode!r} was not sampled by this agent. Rows are "
            "kept from sampling to training and never made from text: play the episode again, "
            "without reusing stored results."
        )


@dataclass(eq=False)
class PolicyAgent(KeptRows):
    """Acts by a policy's weights; play it in lockstep, so that it is asked for whole batches.

    Sampling keeps the event loop to itself: nothing else has to be done meanwhile.

    Attributes:
        backend: The policy.
        temperature: At least 0; 0 takes the likeliest action.
        remembers: Keep the rows of what is sampled, for a trainer. Off for evaluation.

    Raises:
        ConfigError: The temperature is out of its range.
    """

    backend: PolicyBackend
    temperature: float = 1.0
    remembers: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; set it to 0 or above")
        super().__init__()

    @property
    def identity(self) -> str:
        """The backend's identity, which changes with its weights, and the temperature."""
        return f"{self.backend.identity} t={self.temperature:g}"

    async def act_batch(self, contexts: Sequence[TurnContext]) -> list[Act]:
        """Sample one action per context, in order.

        Raises:
            ContextOverflow: A prompt leaves no room for an answer; nothing was chosen for any.
        """
        sampled = self.backend.sample(contexts, temperature=self.temperature)
        if self.remembers:
            for context, one in zip(contexts, sampled, strict=True):
                self.keep(context, one.row)
        return [one.act for one in sampled]


# Groups that see fewer skills, so that a policy does not lean on any one of them.


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
        """Return the skills injected for a task."""
        return self.contexts([task])[0]

    def contexts(self, tasks: Sequence[Task]) -> list[SkillContext]:
        """Return the skills injected for each task."""
        whole = self.source.contexts(tasks)
        return [self._thinned(task, one) for task, one in zip(tasks, whole, strict=True)]

    def _thinned(self, task: Task, context: SkillContext) -> SkillContext:
        rng = random.Random(derive_seed("skill dropout", self.seed, task.id))
        if rng.random() >= self.share:
            return context
        dropped = {name for name in context.skill_ids if rng.random() >= self.keep}
        if not dropped:
            return context
        marks = tuple(f"- [{name}] " for name in dropped)
        lines = [line for line in context.text.splitlines() if not line.startswith(marks)]
        pairs = list(zip(context.skill_ids, context.scores, strict=False))
        return replace(
            context,
            text=_without_empty_sections(lines),
            skill_ids=tuple(name for name in context.skill_ids if name not in dropped),
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
