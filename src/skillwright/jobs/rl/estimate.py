"""What a run of the recipe will take, before it begins: episodes and calls, stage by stage.

Nothing is asked and nothing is played: it is counted from the configuration and the tasks.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import fmean
from typing import Any

from skillwright.bank import category_of, scope_of
from skillwright.config.rl import RlConfig, RlDistilSection
from skillwright.core import Task
from skillwright.jobs.launch.assumptions import SUCCESS_RATE, Assumptions, expected_turns
from skillwright.jobs.parts.money import priced_mind
from skillwright.jobs.parts.tau_user import user_mind
from skillwright.jobs.rl.tasks import RlTasks, find_rl_tasks

POLICY = "policy"


@dataclass(frozen=True, slots=True)
class RlStage:
    """What one stage takes over the whole run.

    Attributes:
        name: What people call it.
        role: Who acts or is asked: ``policy``, ``base``, ``expert``, ``teacher`` or ``user``.
        episodes: Episodes, 0 where somebody is only asked.
        calls: Calls of a model; 0 for the policy, which plays on this machine.
    """

    name: str
    role: str
    episodes: int
    calls: int


@dataclass(frozen=True, slots=True)
class RlEstimate:
    """What a run of the recipe is expected to take, and at most where the bank evolves.

    Attributes:
        stages: In the order of the run; those that do nothing are left out.
        turns: Turns of an episode.
        base_turns: Turns of a base episode.
        prices: What the minds cost, a line each.
    """

    stages: tuple[RlStage, ...]
    turns: int
    base_turns: int
    prices: tuple[str, ...]

    def calls(self, role: str) -> int:
        """Return all calls of a role."""
        return sum(stage.calls for stage in self.stages if stage.role == role)

    def lines(self) -> list[str]:
        """Say what it rests on, for people."""
        return [
            f"an episode takes {self.turns} turns, a base episode {self.base_turns}; each turn of "
            "a mind is a call",
            f"{SUCCESS_RATE:.0%} of the base episodes succeed, and nothing fails",
            "every evolution finds a weak category, and its proposal goes to the gate",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        roles = sorted({stage.role for stage in self.stages} - {POLICY})
        return {
            "job": "rl",
            "stages": [asdict(stage) for stage in self.stages],
            "episodes": sum(stage.episodes for stage in self.stages),
            "calls": {role: self.calls(role) for role in roles},
            "turns": self.turns,
            "base_turns": self.base_turns,
            "prices": list(self.prices),
        }


def estimate_rl(config: RlConfig, turns: int | None = None) -> RlEstimate:
    """Estimate a run of the recipe.

    Args:
        config: The run.
        turns: Turns of an episode, where a person knows better.

    Raises:
        ConfigError: Nothing is left to practise on.
        DataError: Tasks are missing or malformed.
    """
    tasks = find_rl_tasks(config)
    usual = turns or expected_turns(_limit(config, tasks.practice))
    longer = config.distil.max_turns if config.distil else None
    base_turns = turns or expected_turns(longer or _limit(config, tasks.base))
    stages = [*_before_practice(config, tasks, usual, base_turns), *_practice(config, tasks)]
    minds = [priced_mind(role, mind) for role, mind in config.minds.items()]
    if (user := user_mind(config.env)) is not None:
        minds.append(priced_mind("user", user))
        stages.append(
            RlStage("simulated user", "user", 0, _said_by_users(stages, usual, base_turns))
        )
    return RlEstimate(
        tuple(stage for stage in stages if stage.episodes or stage.calls),
        usual,
        base_turns,
        tuple(mind.line() for mind in minds),
    )


def _said_by_users(stages: Sequence[RlStage], turns: int, base_turns: int) -> int:
    """Count what simulated users say in all episodes; base episodes may be longer ones."""
    share = Assumptions(turns).user_share
    return sum(
        stage.episodes * (1 + round((base_turns if stage.name == "base" else turns) * share))
        for stage in stages
    )


def _limit(config: RlConfig, tasks: Sequence[Task]) -> int:
    """Return after how many turns an episode ends, on average: a task may have its own limit."""
    most = config.env.max_turns
    return round(fmean(min(most, task.extras.get("max_turns", most)) for task in tasks))


def _before_practice(
    config: RlConfig, tasks: RlTasks, turns: int, base_turns: int
) -> Iterator[RlStage]:
    """Count what the first bank and the cold start take."""
    distil, told = config.distil, config.bank.told
    if distil is not None and told != "nothing":
        base = tasks.base[: distil.tasks]
        count = len(base) * distil.episodes
        by_mind = "base" in config.minds
        role = "base" if by_mind else POLICY
        yield RlStage("base", role, count, count * base_turns * by_mind)
        if told == "skills":
            yield RlStage("distil", "teacher", 0, _requests(base, distil))
    if config.cold_start is not None:
        count = len(tasks.practice[: config.cold_start.tasks]) * config.cold_start.episodes
        yield RlStage("cold start", "expert", count, count * turns)


def _requests(base: Sequence[Task], section: RlDistilSection) -> int:
    """Count what the teacher is asked: about all, each category won and lost, and each place."""
    batch = section.settings(1.0).batch_size
    categories = Counter(category_of(task) for task in base)
    places = Counter(scope for task in base if (scope := scope_of(task)))
    asked = 1
    for tasks in categories.values():
        episodes = tasks * section.episodes
        won = round(episodes * SUCCESS_RATE)
        asked += ceil(won / batch) + ceil((episodes - won) / batch)
    return asked + sum(
        ceil(tasks * section.episodes / section.place_episodes) for tasks in places.values()
    )


def _practice(config: RlConfig, tasks: RlTasks) -> Iterator[RlStage]:
    """Count what reinforcement, evolution, validation and test take."""
    grpo, evaluation, val = config.grpo, config.evaluation, len(tasks.val)
    at_once = min(grpo.tasks_per_iteration, len(tasks.practice))
    yield RlStage("practice", POLICY, grpo.iterations * at_once * grpo.group_size, 0)
    if config.evolve is not None and tasks.evolution is not None:
        looked_at = len(tasks.evolution.tasks) * config.evolve.episodes
        yield RlStage("evolution split", POLICY, config.evolutions * looked_at, 0)
        yield RlStage("evolve", "teacher", 0, config.evolutions)
        judged = evaluation.gate.expected_rollouts(val)
        yield RlStage("gate", POLICY, config.evolutions * judged, 0)
    if evaluation.gate.release is not None:
        played = evaluation.gate.release.expected_rollouts(val)
        yield RlStage("release test", POLICY, played, 0)
    # Before the first iteration, every so many, and after the last.
    looks = 1 + ceil(grpo.iterations / evaluation.val_every)
    yield RlStage("val", POLICY, looks * val, 0)
    if evaluation.test:
        yield RlStage("test", POLICY, _tested(config) * len(tasks.splits.test), 0)


def _tested(config: RlConfig) -> int:
    """Count what is tested: cold start and final, the former with the last bank, and controls."""
    told, controls = config.bank.told, config.evaluation.controls
    with_other_banks = {"no_skills": told != "nothing", "other_scope": told == "skills"}
    return 2 + bool(config.evolutions) + sum(with_other_banks[name] for name in set(controls))
