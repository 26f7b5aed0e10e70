"""The real release test on episodes that succeed by chance."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from skillwright.core import EpisodeResult, EpisodeSpec, PlainSkill, SkillSource, Task
from skillwright.evaluation import AlphaLedger, Draws, ReleaseTest, SkillDuel, Terms, Verdict

TASKS = 40

Rate = Callable[[int, str, int], float]
"""The chance of success by task, in ``0..TASKS - 1``, skill, and number of earlier episodes."""


@dataclass
class ChanceEngine:
    """Starts episodes in order; each succeeds with the chance that a rule gives it."""

    rate: Rate
    seed: int
    played: int = 0
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play episodes."""
        contexts = skills.contexts([spec.task for spec in specs])
        return [
            self._result(spec, context.text) for spec, context in zip(specs, contexts, strict=True)
        ]

    def _result(self, spec: EpisodeSpec, skill: str) -> EpisodeResult:
        rate = self.rate(int(spec.task.id[1:]), skill, self.played)
        self.played += 1
        return EpisodeResult(spec, reward=float(self.rng.random() < rate))


def release_test(
    rate: Rate,
    seed: int,
    alpha: float,
    *,
    kind: Callable[..., SkillDuel] = SkillDuel,
    clusters: Mapping[str, str] | None = None,
) -> Verdict:
    """Test the skill "new" against "old" on `TASKS` tasks, named t0, t1, ..., at a level."""
    tasks = [Task(f"t{number}", "world") for number in range(TASKS)]
    sides = PlainSkill("old"), PlainSkill("new")
    duel = kind(ChanceEngine(rate, seed), tasks, *sides, Draws(seed))
    terms = Terms(seed=seed, clusters=dict(clusters or {}))
    return asyncio.run(ReleaseTest().judge(duel, AlphaLedger(alpha, 1), terms))
