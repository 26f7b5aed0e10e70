"""What a run of the recipe will take, before it begins, stage by stage.

Nothing is asked and nothing is played: stages are counted from the configuration and the tasks, and
first prompts are measured as for every job. The policy plays on this machine, and makes no calls.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from statistics import fmean
from typing import Any

from skillwright.bank import category_of, scope_of
from skillwright.config.rl import RlConfig, RlDistillSection
from skillwright.core import Task
from skillwright.jobs.run.estimate import (
    MEASURED_TASKS,
    SUCCESS_RATE,
    Assumptions,
    Stage,
    Stages,
    episode_prompts,
    expected_turns,
    judge_stage,
    make_stage,
    measured_opening,
    sum_of,
    users_stage,
)
from skillwright.jobs.run.money import PricedModel, priced_model, side_llms
from skillwright.jobs.weights.machine import SKILL_TOKENS, Lengths, PolicyEstimate, estimate_policy
from skillwright.jobs.weights.tasks import RlTasks, find_rl_tasks

POLICY = "policy"
POWER = 0.8
"""Below this share of runs that retire what is not missed, a run begins with a warning."""


@dataclass(frozen=True, slots=True)
class RlEstimate(Stages):
    """The expected cost of a run of the recipe, and the most where the bank evolves.

    Attributes:
        stages: The stages that do something, in order.
        turns: Turns of an episode.
        base_turns: Turns of a base episode.
        opening_tokens: The measured length of a first prompt, without skills.
        llms: The models, with prices and their age.
        weights: The needs of the policy's weights, or why they are unknown; ``None`` for a scorer.
    """

    stages: tuple[Stage, ...]
    turns: int
    base_turns: int
    opening_tokens: int
    llms: tuple[PricedModel, ...]
    weights: PolicyEstimate | str | None = None

    def calls(self, role: str) -> int:
        """Return all calls of a role."""
        return sum(stage.calls for stage in self.stages if stage.role == role)

    def lines(self) -> list[str]:
        """Describe the basis of the estimate, for people."""
        assumed = Assumptions(self.turns)
        return [
            f"an episode takes {self.turns} turns, a base episode {self.base_turns}; each turn of "
            "a model is a call; the policy plays on this machine",
            f"the first prompt has {self.opening_tokens:,} tokens (measured), injected skills up "
            f"to {SKILL_TOKENS}; each turn adds {assumed.turn_tokens}",
            f"a teacher's question has {assumed.instructions_tokens:,} tokens besides episodes, "
            f"its answer {assumed.proposal_tokens:,}",
            f"{SUCCESS_RATE:.0%} of the base episodes succeed, and nothing fails",
            "every evolution finds a weak category, and its proposal goes to the gate",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        roles = sorted({stage.role for stage in self.stages} - {POLICY})
        return {
            "job": "rl",
            "stages": [asdict(stage) for stage in self.stages],
            "total": asdict(self.total),
            "known_cost_usd": self.known_cost_usd,
            "episodes": self.total.episodes,
            "calls": {role: self.calls(role) for role in roles},
            "turns": self.turns,
            "base_turns": self.base_turns,
            "opening_tokens": self.opening_tokens,
            "prices": [llm.line() for llm in self.llms],
            "weights": (
                self.weights.to_dict() if isinstance(self.weights, PolicyEstimate) else self.weights
            ),
        }

    def weights_lines(self) -> list[str]:
        """Describe the cost of the weights, for people; "" for a command scorer."""
        if self.weights is None:
            return []
        return [self.weights] if isinstance(self.weights, str) else self.weights.lines()


async def estimate_rl(config: RlConfig, turns: int | None = None) -> RlEstimate:
    """Estimate a run of the recipe; ``turns`` are those of an episode, where a person knows better.

    Raises:
        ConfigError: Nothing is left to train on.
        DataError: Tasks are missing or malformed.
    """
    tasks = find_rl_tasks(config)
    usual = turns or expected_turns(_limit(config, tasks.training))
    longer = config.distill.max_turns if config.distill else None
    base_turns = turns or expected_turns(longer or _limit(config, tasks.base))
    first = tasks.training[:MEASURED_TASKS]
    assumed, blank = Assumptions(usual), [""] * len(first)
    opening = await measured_opening(config.env, config.run.seed, first, blank, assumed)
    llms = {role: priced_model(role, llm) for role, llm in config.llms.items()}
    work = _Work(config, tasks, llms, assumed, base_turns, opening)
    stages = [*work.before_rollouts(), *work.training()]
    played = tuple(stages)
    episodes = sum(one.episodes for one in played)
    for llm in side_llms(config.env):
        llms[llm.role] = llm
        stages.append(
            work.users(played, llm)
            if llm.role == "user"
            else judge_stage(config.env, llm, assumed, episodes, opening)
        )
    done = tuple(stage for stage in stages if stage.episodes or stage.calls)
    sampled = sum(stage.episodes for stage in played if stage.role == POLICY)
    weights = estimate_policy(config, tasks, Lengths.of(config, opening, usual), sampled)
    return RlEstimate(done, usual, base_turns, opening, tuple(llms.values()), weights)


async def expected_lengths(config: RlConfig, tasks: RlTasks) -> Lengths:
    """Return the tokens of what is played; first prompts are measured."""
    usual, first = expected_turns(_limit(config, tasks.training)), tasks.training[:MEASURED_TASKS]
    blank = [""] * len(first)
    opening = await measured_opening(config.env, config.run.seed, first, blank, Assumptions(usual))
    return Lengths.of(config, opening, usual)


def expected_episodes(config: RlConfig, tasks: RlTasks) -> int:
    """Count the episodes that a run is expected to need, where every evolution goes to the gate."""
    llms = {role: priced_model(role, llm) for role, llm in config.llms.items()}
    work = _Work(config, tasks, llms, Assumptions(1), 1, 0)
    return sum(stage.episodes for stage in (*work.before_rollouts(), *work.training()))


def retirement_text(config: RlConfig, val_tasks: int) -> str:
    """Describe the chance that useless skills are retired, with a warning if it is small."""
    if config.internalize is None:
        return "no skill is to be internalized"
    power = config.retirement_power(val_tasks)
    warning = "; more val tasks or a larger internalize.margin find more" if power < POWER else ""
    return (
        f"skills that the weights do without are retired in {power:.0%} of runs (a loss of "
        f"{config.internalize.margin:g} is to be ruled out on {val_tasks} val tasks){warning}"
    )


def _limit(config: RlConfig, tasks: Sequence[Task]) -> int:
    """Return after how many turns an episode ends, on average: a task may have its own limit."""
    most = config.env.max_turns
    return round(fmean(min(most, task.extras.get("max_turns", most)) for task in tasks))


@dataclass(frozen=True, slots=True)
class _Work:
    """The estimated stages of the recipe."""

    config: RlConfig
    tasks: RlTasks
    llms: dict[str, PricedModel]
    assumed: Assumptions
    base_turns: int
    opening_tokens: int

    def before_rollouts(self) -> Iterator[Stage]:
        """Count what the first bank and the cold start take."""
        distill, has_bank = self.config.distill, self.config.has_bank
        if distill is not None and (has_bank or self.config.bank.inject == "trajectories"):
            base = self.tasks.base[: distill.tasks]
            count = len(base) * distill.episodes
            if "base" in self.llms:
                yield self._played("base", "base", count, self.base_turns, 0)
            else:
                yield _on_this_machine("base", count)
            if has_bank:
                batch = distill.settings(1.0).batch_size
                yield self._asked("distill", _requests(base, distill), batch)
        cold = self.config.cold_start
        if cold is not None and not cold.demonstrations:
            count = len(self.tasks.training[: cold.tasks]) * cold.episodes
            reads = has_bank or self.config.bank.inject == "trajectories"
            injected = min(SKILL_TOKENS, self.config.bank.max_tokens) if reads else 0
            yield self._played("cold start", "expert", count, self.assumed.turns, injected)

    def training(self) -> Iterator[Stage]:
        """Count what rollouts, evolution, validation and test take."""
        config, tasks = self.config, self.tasks
        grpo, evaluation, val = config.grpo, config.evaluation, len(tasks.val)
        at_once = min(grpo.tasks_per_iteration, len(tasks.training))
        yield _on_this_machine("rollouts", grpo.iterations * at_once * grpo.group_size)
        if config.evolve is not None and tasks.evolution is not None:
            looked_at = len(tasks.evolution.tasks) * config.evolve.episodes
            yield _on_this_machine("evolution split", config.evolutions * looked_at)
            yield self._asked("evolve", config.evolutions, config.evolve.max_failures)
            judged = evaluation.gate.expected_rollouts(val)
            yield _on_this_machine("gate", config.evolutions * judged)
        weighed = config.policy_steps * evaluation.gate.expected_rollouts(val)
        yield _on_this_machine("policy gate", weighed)
        yield from self._internalizing()
        begins = evaluation.baseline == "start"
        if evaluation.gate.release is not None and (grpo.iterations or begins):
            yield _on_this_machine("release test", evaluation.gate.release.expected_rollouts(val))
        # At the start where that is the baseline, before the first iteration, every n-th, and after
        # the last.
        looks = 1 + begins + ceil(grpo.iterations / evaluation.val_every)
        yield _on_this_machine("val", looks * val)
        if evaluation.test:
            yield _on_this_machine("test", _tested(config) * len(tasks.splits.test))

    def _internalizing(self) -> Iterator[Stage]:
        """Count what it takes to distill skills into the weights, at most."""
        section, test = self.config.internalize, self.config.retirement
        if section is None or test is None:
            return
        count = len(self.tasks.training) * section.episodes
        if section.by == "expert":
            injected = min(SKILL_TOKENS, self.config.bank.max_tokens)
            yield self._played("internalize", "expert", count, self.assumed.turns, injected)
        else:
            yield _on_this_machine("internalize", count)
        yield _on_this_machine("retirement test", test.expected_rollouts(len(self.tasks.val)))

    def users(self, stages: Sequence[Stage], llm: PricedModel) -> Stage:
        """Count what simulated users say in all episodes; base episodes may be longer ones."""
        base = sum(stage.episodes for stage in stages if stage.name == "base")
        others = sum(stage.episodes for stage in stages) - base
        usual = users_stage(llm, self.assumed, others, self.assumed.turns)
        longer = users_stage(llm, self.assumed, base, self.base_turns)
        return replace(sum_of([usual, longer]), name=usual.name, role=usual.role)

    def _played(self, name: str, role: str, count: int, turns: int, injected: int) -> Stage:
        opening, history = self.opening_tokens + injected, self.config.rollout.history_turns
        prompts = episode_prompts(opening, turns, history, self.assumed)
        answer = self.assumed.action_tokens
        return make_stage(name, self.llms[role], count, prompts, answer, plays=count)

    def _asked(self, name: str, count: int, episodes: int) -> Stage:
        transcript = self.opening_tokens + self.base_turns * self.assumed.turn_tokens
        prompt = self.assumed.instructions_tokens + episodes * transcript
        answer = self.assumed.proposal_tokens
        return make_stage(name, self.llms["teacher"], count, [prompt], answer)


def _on_this_machine(name: str, episodes: int) -> Stage:
    return Stage(name, POLICY, episodes, 0, 0, 0, 0.0)


def _requests(base: Sequence[Task], section: RlDistillSection) -> int:
    """Count the teacher's requests: about all, each category's two outcomes, and each place."""
    batch = section.settings(1.0).batch_size
    categories = Counter(category_of(task) for task in base)
    places = Counter(scope for task in base if (scope := scope_of(task)))
    asked = 1
    for tasks in categories.values():
        episodes = tasks * section.episodes
        solved = round(episodes * SUCCESS_RATE)
        asked += ceil(solved / batch) + ceil((episodes - solved) / batch)
    return asked + sum(
        ceil(tasks * section.episodes / section.place_episodes) for tasks in places.values()
    )


def _tested(config: RlConfig) -> int:
    """Count what is tested: baseline and final, the cold start with the last bank, and controls."""
    inject = config.bank.inject
    controls = (inject != "none") + (inject in ("skills", "facts"))
    begins = config.evaluation.baseline == "start" and config.grpo.iterations > 0
    distilled = 2 if config.internalize is not None else 0
    return 2 + begins + bool(config.evolutions) + distilled + controls
