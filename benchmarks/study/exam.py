"""What a finished run is measured on beside its own test: other homes, and other sentences."""

from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from skillwright.bank import Bank, approximate_tokens
from skillwright.config.env import HouseholdsData
from skillwright.core import BankSkill, Counterfactual, EpisodeSpec, SkillSource, Task
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import SplitReport
from skillwright.jobs.weights import RlState, open_rl, selected
from skillwright.jobs.weights.bank import make_first_bank
from skillwright.jobs.weights.validation import Checkpoints
from skillwright.jobs.weights.wiring import RlParts, rl_parts
from skillwright.policy import PolicyBackend
from skillwright.rollout import refuse_no_score
from skillwright.worlds.alfworld.generate import household_tasks
from skillwright.worlds.alfworld.scripted.rewording import reworded
from study.memory import Memory, with_memories

TRAINING, REWORDED, WARM = "training_homes", "reworded", "temperature_1"
"""Where else: in the homes of training, and in the new ones with the bank in other sentences, and
with actions sampled at temperature 1."""


class Silent:
    """Sees nothing."""

    def on_event(self, event: object) -> None:
        """Take no note of an event."""


class Examined:
    """A finished run whose weights play once more.

    Attributes:
        run: Its parts.
        state: Where it ended.
        policy: Its policy; the weights are those that were loaded last.
    """

    def __init__(self, run: RlParts, state: RlState) -> None:
        self.run, self.state = run, state
        self.policy: PolicyBackend = run.maker.make(state.policy or {})
        self.chosen = selected(run.config, state)
        self._checkpoints = Checkpoints(run.store.folder / "checkpoints", run.bank_store)

    def load(self, iteration: int) -> None:
        """Take the weights of an iteration: 0, or the one that is tested."""
        self._checkpoints.load(self.policy, iteration)

    def bank(self, iteration: int) -> Bank:
        """Return the bank that the weights of an iteration are tested with."""
        version = self.state.version_after(iteration) if iteration else self.state.first_version
        return self.run.bank_store.load(version)

    async def play(
        self, tasks: Sequence[Task], skills: SkillSource, temperature: float | None = None
    ) -> list[Any]:
        """Play each task once, as the run's own test does, or at another temperature."""
        config = self.run.config
        engine = self.run.measuring_engine(
            self.policy, config.evaluation.temperature if temperature is None else temperature
        )
        seed = config.run.seed
        specs = [EpisodeSpec(task, evaluation_seed(seed, task.id, 0), 0, "test") for task in tasks]
        results = await engine.run(specs, skills)
        refuse_no_score(results)
        return results


@asynccontextmanager
async def examined(folder: Path, memories: Sequence[Memory] | None = None) -> Any:
    """Open a finished run, and what its policy reads if not the bank."""
    with open_rl(folder) as opened:
        async with rl_parts(opened.config, opened.store, Silent()) as run:
            # Raw trajectories are no part of the bank: the base episodes are read again.
            run, state = await make_first_bank(run, opened.state)
            yield Examined(with_memories(run, memories) if memories is not None else run, state)


async def examine(
    folder: Path, artifacts: Sequence[str], memories: Sequence[Memory] | None = None
) -> dict[str, Any]:
    """Return a run's scores in games that its own test has not.

    Args:
        folder: The run's.
        artifacts: Of ``cold_start`` and ``final``.
        memories: What its policy reads, if not the bank.

    Returns:
        Score tables by artifact for `TRAINING` and `WARM`, and for `REWORDED` where a bank is
        injected.
    """
    async with examined(folder, memories) as one:
        config = one.run.config
        data, games = config.env.data, len(one.run.tasks.splits.test)
        homes = range(data.seed * data.homes, (data.seed + 1) * data.homes)
        known = household_tasks("test", games, homes=homes, seed=data.seed)
        new = household_tasks("test", games, homes=new_homes(data), seed=data.seed)
        has_bank = config.bank.inject not in ("none", "trajectories")
        found: dict[str, dict[str, Any]] = {TRAINING: {}, REWORDED: {}, WARM: {}}
        for name in artifacts:
            iteration = one.chosen if name == "final" else 0
            one.load(iteration)
            bank = one.bank(iteration)
            source = one.run.injector.source(bank)
            found[TRAINING][name] = await one.play(known, source)
            found[WARM][name] = await one.play(new, source, 1.0)
            if has_bank:
                found[REWORDED][name] = await one.play(
                    new, _reworded_source(one.run, memories, bank)
                )
        threshold = config.env.success_threshold
    return {
        where: SplitReport.of("test", played, threshold).to_dict()["tables"]
        for where, played in found.items()
        if played
    }


def _reworded_source(run: RlParts, memories: Sequence[Memory] | None, bank: Bank) -> SkillSource:
    if memories is not None:
        return with_memories(run, memories, lambda one: one.other_text).injector.source(bank)
    return run.injector.source(in_other_words(bank))


async def lengths(folder: Path, memories: Sequence[Memory]) -> dict[str, float]:
    """Return the mean tokens of memories, and of skills, over prompts of the test's games."""
    async with examined(folder, memories) as one:
        data, games = one.run.config.env.data, len(one.run.tasks.splits.test)
        tasks = household_tasks("test", games, homes=new_homes(data), seed=data.seed)
        bank, injector = one.bank(one.chosen), one.run.injector
        sources = {"memories": injector.source(bank), "skills": injector.whole(bank)}
        return {
            name: fmean(approximate_tokens(given.text) for given in source.contexts(tasks))
            for name, source in sources.items()
        }


def new_homes(data: HouseholdsData) -> range:
    """Return the numbers of the homes that no weights are trained on."""
    first = 100_000 + data.seed * data.new_homes
    return range(first, first + data.new_homes)


def in_other_words(bank: Bank) -> Bank:
    """Return a bank that says the same in the teacher's second grammar."""
    return replace(bank, skills=tuple(_reworded(skill) for skill in bank.skills))


def _reworded(skill: BankSkill) -> BankSkill:
    said = {
        "name": skill.name,
        "principle": skill.principle,
        "applicability": skill.applicability,
    }
    failure = skill.counterfactual
    if failure is None:
        return replace(skill, **reworded(said))
    said |= {
        "failure_point": failure.failure_point,
        "corrective_action": failure.corrective_action,
    }
    other = reworded(said)
    avoided = Counterfactual(
        other.pop("failure_point"), failure.flawed_reasoning, other.pop("corrective_action")
    )
    return replace(skill, **other, counterfactual=avoided)


def parts_of(bank: Bank, homes: Sequence[str]) -> Iterator[tuple[BankSkill, ...]]:
    """Yield the skills that hold everywhere, then those of each home."""
    for scope in ("", *homes):
        yield tuple(skill for skill in bank.active if skill.scope == scope)
