"""What a gate saves where a change of a bank reaches few tasks: equal prompts are played once.

100 val tasks, a bank of 12 skills of which each task is given its 3 most similar ones, and runs of
8 edits of one skill each. An edit rewrites the skill: half of the edits change nothing else, the
others help or harm the tasks that are given it. The agent succeeds by a chance drawn from task,
prompt and seed. The same runs are judged twice by the default gate, from the same seeds:

    reuse      duels as they are: stored episodes of equal prompts count, on both sides
    by key     only the memory for equal prompts and seeds, with seeds of their own after an accept
    no reuse   each side plays every draw of every task anew

    .venv/bin/python benchmarks/rollout_reuse.py [--seeds 50]

The targets: at most half of the new rollouts; and error rates that are no worse by more than two
standard errors: how often edits that change nothing and harmful ones are accepted, how often
helpful ones are refused, how often a run without any gain is released.
"""

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from measuring import Kind, at_least, at_most, report
from skillwright.bank import Bank, BankSource, LexicalEmbedder, RetrievalSettings
from skillwright.core import BankSkill, EpisodeResult, EpisodeSpec, SkillKind, SkillSource, Task
from skillwright.core.jsonio import text_digest
from skillwright.core.seeds import derive_seed
from skillwright.evaluation import RELEASE_DRAWS_FROM, Draws, ExploreGate, SkillDuel

TASKS, SKILLS, TOP, STEPS, SEEDS = 100, 12, 3, 8, 50
ALPHA = 0.05
MOST_OF_ROLLOUTS = 0.5
TOPICS = (
    "apple mug lamp desk shelf drawer fridge sink stove towel vase radio".split()  # noqa: SIM905
)
HELP, HARM = "surely", "hastily"
"""Words whose number in a task's skills decides how much they help or harm it."""


@dataclass
class ChanceEngine:
    """Succeeds by chance, drawn from task, prompt and seed; counts what it really plays."""

    rates: dict[str, float]  # success rates without any help, by task id
    remembers: bool  # whether an episode of an equal prompt and seed is played once
    played: int = 0
    _known: dict[tuple[str, str, int], float] = field(default_factory=dict)

    async def run(self, specs: Sequence[EpisodeSpec], skills: SkillSource) -> list[EpisodeResult]:
        """Play every episode."""
        contexts = skills.contexts([spec.task for spec in specs])
        return [
            EpisodeResult(spec, self._reward(spec, context.text))
            for spec, context in zip(specs, contexts, strict=True)
        ]

    def _reward(self, spec: EpisodeSpec, text: str) -> float:
        key = (spec.task.id, text_digest(text), spec.seed)
        if self.remembers and key in self._known:
            return self._known[key]
        self.played += 1
        salt = 0 if self.remembers else self.played  # without memory, each play is another one
        draw = random.Random(derive_seed("luck", spec.task.id, text, spec.seed, salt)).random()
        rate = self.rates[spec.task.id]
        rate += (1 - rate) * (1 - 0.5 ** text.count(HELP))
        rate *= 0.5 ** text.count(HARM)
        self._known[key] = float(draw < rate)
        return self._known[key]


class NumberedOn(SkillDuel):
    """A duel whose unaffected tasks meet fresh seeds after an accept, as all others do."""

    async def _first_draws(self) -> dict[str, int]:
        return dict.fromkeys(self.task_ids, self._draws.first)


DUELS: dict[str, tuple[type[SkillDuel], bool]] = {
    "reuse": (SkillDuel, True),
    "by_key": (NumberedOn, True),
    "no_reuse": (NumberedOn, False),
}
"""Kinds of duel, and whether what was played is remembered."""


def first_bank() -> Bank:
    """Return 12 skills, each about a topic of its own."""
    return Bank(
        1,
        tuple(
            BankSkill(
                id=f"sk_{number:03d}",
                kind=SkillKind.TASK_SPECIFIC,
                category="household",
                name=f"Handle the {topic}",
                principle=f"Look for the {topic}, take the {topic} and bring it.",
                applicability=f"The task names the {topic}.",
            )
            for number, topic in enumerate(TOPICS)
        ),
    )


def edited(bank: Bank, kind: str, number: int, step: int) -> Bank:
    """Return the bank with one skill rewritten; ``kind`` is null, help or harm."""
    word = {"null": "calmly", "help": HELP, "harm": HARM}[kind]
    old = bank.skills[number]
    principle = f"{old.principle} In version {step} do so {word}."
    skills = list(bank.skills)
    skills[number] = replace(old, principle=principle, version=old.version + 1)
    return Bank(bank.version + 1, tuple(skills))


def tasks(seed: int) -> list[Task]:
    """Return tasks that name three topics each."""
    rng = random.Random(derive_seed("tasks", seed))
    return [
        Task(f"t{i}", "toy", task_type="household", description=" ".join(rng.sample(TOPICS, TOP)))
        for i in range(TASKS)
    ]


async def run(
    seed: int, kind_of_duel: str, *, only_null: bool
) -> tuple[dict[str, list[bool]], bool, int]:
    """Judge the edits of a run; return what was accepted by kind, whether released, and cost."""
    rng = random.Random(derive_seed("run", seed))
    asked, (make_duel, remembers) = tasks(seed), DUELS[kind_of_duel]
    engine = ChanceEngine({task.id: rng.betavariate(0.6, 0.6) for task in asked}, remembers)
    embedder, gate = LexicalEmbedder(), ExploreGate()
    settings = RetrievalSettings(k_task=TOP, delta=0.0)

    def source(bank: Bank) -> SkillSource:
        return BankSource(
            bank,
            embedder,
            settings,
            categorize=lambda task: task.task_type,
            scope=lambda _: "",
            query=lambda task, _: task.description,
        )

    def duel(banks: tuple[Bank, Bank], draws: Draws) -> SkillDuel:
        return make_duel(engine, asked, source(banks[0]), source(banks[1]), draws)

    start = current = first_bank()
    ledger, accepts = gate.ledger(ALPHA, STEPS), 0
    decided: dict[str, list[bool]] = {"null": [], "help": [], "harm": []}
    for step in range(STEPS):
        kind = "null" if only_null else rng.choices(list(decided), (0.5, 0.3, 0.2))[0]
        candidate = edited(current, kind, rng.randrange(SKILLS), step)
        draws = Draws(seed, first=accepts * gate.draws)
        verdict = await gate.judge(duel((current, candidate), draws), ledger)
        decided[kind].append(verdict.accepted)
        if verdict.accepted:
            current, accepts = candidate, accepts + 1
    released = False
    if current is not start:
        last = duel((start, current), Draws(seed, first=RELEASE_DRAWS_FROM))
        released = (await gate.release.judge(last, ledger)).accepted
    return decided, released, engine.played


def rates(seeds: int, duel: str) -> dict[str, float]:
    """Return error rates and new rollouts per run, over all seeds."""
    mixed = [asyncio.run(run(seed, duel, only_null=False)) for seed in range(seeds)]
    null = [asyncio.run(run(1000 + seed, duel, only_null=True)) for seed in range(seeds)]
    shares = {kind: [one for row in mixed for one in row[0][kind]] for kind in mixed[0][0]}
    return {
        "null_accepted": fmean([*shares["null"], *(one for row in null for one in row[0]["null"])]),
        "help_refused": 1 - fmean(shares["help"]),
        "harm_accepted": fmean(shares["harm"]),
        "null_released": fmean(row[1] for row in null),
        "mixed_released": fmean(row[1] for row in mixed),
        "new_rollouts": fmean(row[2] for row in mixed),
    }


def no_worse(one: dict[str, float], other: dict[str, float], seeds: int) -> Iterator[bool]:
    """Tell of each error rate whether the first is no worse, within two standard errors."""
    counts = {
        "null_accepted": seeds * STEPS,
        "help_refused": 0.3 * seeds * STEPS,
        "harm_accepted": 0.2 * seeds * STEPS,
        "null_released": seeds,
    }
    for name, count in counts.items():
        p = min(max((one[name] + other[name]) / 2, 1 / count), 1 - 1 / count)
        yield one[name] - other[name] <= 2 * (2 * p * (1 - p) / count) ** 0.5


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=SEEDS)
    seeds = parser.parse_args().seeds
    found = {name: rates(seeds, name) for name in DUELS}
    share = found["reuse"]["new_rollouts"] / found["no_reuse"]["new_rollouts"]
    kept = list(no_worse(found["reuse"], found["no_reuse"], seeds))
    checks = [
        at_most("new rollouts, of those without reuse", Kind.SHARE, [share], MOST_OF_ROLLOUTS),
        at_least("error rates that are no worse", Kind.SHARE, [fmean(kept)], 1.0),
    ]
    by_key = found["reuse"]["new_rollouts"] / found["by_key"]["new_rollouts"]
    return report(checks, seeds=seeds, share_of_by_key=by_key, **found)


if __name__ == "__main__":
    sys.exit(main())
