"""Count false releases where tasks are not independent, a level moves, or nothing can be learned.

    python benchmarks/false_releases.py [RUNS] [TRAININGS]

Skills that change nothing are tested for release. In the first worlds the level of the endpoint
rises, falls or switches while episodes are played; both sides of a pair start together, or, for
comparison, one side is played after the other, as an engine would that has no pairs. In the last
world val tasks are four near copies of ten questions, and each skill has a luck of its own at each
question; clusters are counted once, or, for comparison, their tasks are taken to be independent.

Then whole trainings run on rows with shuffled labels, so that an edit can only fit the rows that it
was written for, and val by chance: with answers that vary, and with an agent that answers alike.
"""

import asyncio
import csv
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

from measuring import Check, Kind, at_least, at_most, report  # noqa: E402
from measuring.chances import TASKS, ChanceEngine, Rate, release_test  # noqa: E402
from skillwright.config.run import validated  # noqa: E402
from skillwright.core import EpisodeResult, EpisodeSpec, SkillSource  # noqa: E402
from skillwright.core.seeds import derive_seed  # noqa: E402
from skillwright.evaluation import SkillDuel, wilson_interval  # noqa: E402
from skillwright.jobs.run import NullCallback  # noqa: E402
from skillwright.jobs.text import run_training, start_run  # noqa: E402

ALPHA = 0.05
FOOLED = ("level rising", "four copies")
"""Worlds in which a test without the remedy releases far too often."""

LEVELS: dict[str, Callable[[int], float]] = {
    "still": lambda call: 0.5,
    "rising": lambda call: 0.2 + 0.6 * min(1.0, call / 1200),
    "falling": lambda call: 0.8 - 0.6 * min(1.0, call / 1200),
    "switching": lambda call: 0.3 if (call // 150) % 2 else 0.7,
}
"""Success rate by number of episodes started since the test began."""


class OneAfterTheOther(SkillDuel):
    """Plays all episodes of one side, then those of the other."""

    def __init__(self, engine: ChanceEngine, *rest: Any) -> None:
        super().__init__(Sides(engine), *rest)


@dataclass
class Sides:
    """Reorders the episodes of a request by skill."""

    engine: ChanceEngine

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play the episodes of the incumbent first."""
        contexts = skills.contexts([spec.task for spec in specs])
        order = sorted(range(len(specs)), key=lambda at: (contexts[at].text != "old", at))
        played = await self.engine.run([specs[at] for at in order], skills)
        found = dict(zip(order, played, strict=True))
        return [found[at] for at in range(len(specs))]


def drift(level: str, runs: int, kind: type[SkillDuel] = SkillDuel) -> int:
    """Return the false releases among ``runs`` tests at an endpoint whose level moves."""

    def rate(task: int, skill: str, played: int) -> float:
        del task, skill
        return LEVELS[level](played)

    return sum(release_test(rate, seed, ALPHA, kind=kind).accepted for seed in range(runs))


def copies(runs: int, *, counted_once: bool, each: int = 4) -> int:
    """Return the false releases among ``runs`` tests on near copies.

    All copies of a question are solved with one chance, .1 or .9, by skill and question.
    """
    clusters = {f"t{at}": f"q{at // each}" for at in range(TASKS)} if counted_once else None

    def rate_of(seed: int) -> Rate:
        return lambda task, skill, _: (
            0.9 if derive_seed("luck", seed, skill, task // each) % 2 else 0.1
        )

    return sum(
        release_test(rate_of(seed), seed, ALPHA, clusters=clusters).accepted for seed in range(runs)
    )


DESIGNS = {"shuffled labels, answers vary": 0.3, "shuffled labels, answers alike": 0.0}
"""Noise of the agent by name of the design."""

_LABELS = ("food", "music", "sport")
_WORDS = "soup bread guitar song goal match today order number device team update blue page item"


def write_shuffled(path: Path, rng: random.Random, rows: int = 120) -> None:
    """Write rows whose labels say nothing about their texts."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for number in range(rows):
            words = " ".join(rng.sample(_WORDS.split(), 5))
            table.writerow([f"{words} {number}", rng.choice(_LABELS)])


def trains_nothing(design: str, seed: int) -> bool:
    """Train on rows with shuffled labels, 40 of them val, and tell whether a skill is released."""
    with tempfile.TemporaryDirectory() as root:
        write_shuffled(Path(root, "rows.csv"), random.Random(seed))
        columns = {"prompt": "{{ text }}\nAnswer with one of: food, music, sport"}
        env = {"config": {**columns, "answer": "label", "scorer": "exact"}, "name": "table"}
        models = {
            "target": {"backend": "scripted", "model": "clerk", "noise": DESIGNS[design]},
            "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
        }
        settings = {
            "run": {"name": "run", "root": root, "seed": seed},
            "env": {**env, "data": {"path": f"{root}/rows.csv", "ratio": "1:1:1"}},
            "models": models,
            "gradient": {"minibatch_size": 40},
            "evaluation": {"test": False},
        }
        with start_run(validated(settings, "false_releases"), "") as run:
            report = asyncio.run(run_training(run, NullCallback()))
        return report.best_skill != report.initial_skill


def checks_of(rows: Sequence[tuple[str, int, int]], runs: int) -> list[Check]:
    """Expect at most alpha, as far as the number of tests can tell, and more where it is known.

    Args:
        rows: World, false releases, and those without the remedy.
        runs: Tests of each.
    """
    error = (ALPHA * (1 - ALPHA) / runs) ** 0.5
    checks = [
        at_most(f"{world}: released", Kind.SHARE, [found / runs], ALPHA + 3 * error)
        for world, found, _ in rows
    ]
    return checks + [
        at_least(f"{world}: released without the remedy", Kind.SHARE, [without / runs], 2 * ALPHA)
        for world, _, without in rows
        if world in FOOLED
    ]


def main() -> int:
    """Print the share of false releases, with 95% intervals, and one JSON object."""
    runs, trainings = (int(one) for one in (*sys.argv[1:], *("200", "60")[len(sys.argv) - 1 :]))
    rows = [
        (f"level {level}", drift(level, runs), drift(level, runs, OneAfterTheOther))
        for level in LEVELS
    ]
    rows.append(("four copies", copies(runs, counted_once=True), copies(runs, counted_once=False)))
    print(f"{runs} tests of a skill without effect at alpha 5%: released, without the remedy")
    for name, found, without in rows:
        print(f"{_share(name, found, runs)} {without / runs:6.1%}")
    trained = {
        name: sum(trains_nothing(name, seed) for seed in range(trainings)) for name in DESIGNS
    }
    print(f"{trainings} trainings with the default settings: released")
    for name, found in trained.items():
        print(_share(name, found, trainings))
    return report(
        checks_of(rows, runs)
        + [
            at_most(f"{name}: released", Kind.SHARE, [found / trainings], 2 * ALPHA)
            for name, found in trained.items()
        ],
        runs=runs,
        trainings=trainings,
    )


def _share(name: str, found: int, runs: int) -> str:
    low, high = wilson_interval(found, runs)
    return f"{name:32} {found / runs:5.1%} ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    sys.exit(main())
