"""Trains the tiny policy: SFT on the expert's wins, then GRPO, on houses that only skills explain.

    python benchmarks/tiny_policy.py --seed 0 --split test

Prints what each phase cost in CPU seconds, and how often the policy wins games of homes that it
never trained in: told the home's skills, none, or another home's. All numbers of the recipe are
those of `TinyRecipe`; the skills are what a perfect teacher would have written (`habit_skills`),
chosen and shown as a bank does.
"""

import argparse
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import fmean

import torch

from skillwright.core import TurnContext
from skillwright.core.seeds import derive_seed
from skillwright.envs.alfworld import AlfworldEnv, household
from skillwright.envs.alfworld.categories import CATEGORIES
from skillwright.envs.alfworld.generate import HOUSEHOLD_TURNS, household_tasks
from skillwright.envs.alfworld.households import habit_skills
from skillwright.envs.alfworld.searcher import Searcher
from skillwright.policy.advantage import AdvantageSettings, group_advantages
from skillwright.policy.grpo import update
from skillwright.policy.loss import SftLoss
from skillwright.policy.scorer import ScorerPolicy, ScorerSettings
from skillwright.policy.scorer.recipe import TinyRecipe
from skillwright.policy.scorer.tokens import tokenise

FIRST_HOME = {"val": 10_000, "test": 20_000}
ANOTHER_HOME = 50_000
MOST_SKILLS = 6
GENERAL = """\
### General skills
- [g001] Search once: Visit each likely place once before going anywhere twice.
- [g002] Check first: Have what the task asks for in hand before you go to where it belongs."""
COMMON = frozenset({"in", "a", "and", "it", "the", "is", "on"})


@lru_cache(maxsize=100_000)
def skill_text(home, task_type, description):
    """Stand in for retrieval: the skills of the category that share most words with the task."""
    category = CATEGORIES[task_type]
    words = {token.word for token in tokenise(description)} - COMMON
    scored = []
    for skill in habit_skills(household(home)):
        named = [token.word for token in tokenise(skill.principle)]
        score = len(words & set(named)) / len(named) ** 0.5
        if skill.category == category and score:
            scored.append((-score, skill.id, skill))
    lines = [
        f"- [{skill.id}] {skill.name}: {skill.principle} (Apply when {skill.applicability}.)"
        for _, _, skill in sorted(scored)[:MOST_SKILLS]
    ]
    return "\n".join([GENERAL, f"### Skills for {category} tasks", *lines]) if lines else GENERAL


def told(task, mode):
    """Return what an episode is told: ``own``, ``none``, or ``wrong`` (another home's skills)."""
    home = task.extras["generated"]["household"]
    if mode == "none":
        return ""
    home += ANOTHER_HOME if mode == "wrong" else 0
    return skill_text(home, task.task_type, task.description)


class Episode:
    """A game, its conversation, and the rows that were sampled in it."""

    def __init__(self, task, seed, skill):
        self.task, self.seed, self.skill = task, seed, skill
        self.env = AlfworldEnv(None, dict(task.extras))
        self.messages, self.metadata = self.env.init([])
        self.rows, self.done, self.reward = [], False, 0.0

    @property
    def context(self):
        """What the policy sees next."""
        seed = derive_seed("turn", self.seed, len(self.rows))
        return TurnContext(self.messages, seed, self.metadata, self.skill)

    def advance(self, command, row):
        """Give a command."""
        self.rows.append(row)
        out = self.env.step(command)
        answer = {"role": "assistant", "content": command}
        self.messages = [*self.messages, answer, *out["observations"]]
        self.metadata, self.done = out["metadata"], out["done"]
        self.reward += out["reward"]


def play(policy, episodes, temperature):
    """Step all live episodes together."""
    while live := [episode for episode in episodes if not episode.done]:
        sampled = policy.sample([one.context for one in live], temperature=temperature)
        for episode, one in zip(live, sampled, strict=True):
            episode.advance(one.act.text, one.row)
    return episodes


def demonstrate(recipe, tasks, mode, seed):
    """Return (context, command) per turn of each game that the expert wins, told or untold."""
    wins = []
    for index, task in enumerate(tasks):
        luck = random.Random(derive_seed("untold", seed, index)).random()
        skill = told(task, "none" if luck < recipe.untold else mode)
        episode, expert, turns = Episode(task, 0, skill), Searcher(skill), []
        while not episode.done:
            offered = episode.metadata
            command = expert.act(offered["observation"], offered["admissible_commands"])
            turns.append((episode.context, command))
            episode.advance(command, None)
        if episode.reward:
            wins.append(turns)
    return wins


def cold_start(recipe, policy, wins, seed):
    """Learn from the expert's wins; episodes are dealt out whole."""
    episodes = [[policy.target(*turn) for turn in turns] for turns in wins]
    rng = random.Random(derive_seed("cold start", seed))
    waiting, sft = [], recipe.sft
    for step in range(sft.steps):
        while len(waiting) < sft.batch_rows:
            rng.shuffle(episodes)
            waiting += [row for episode in episodes for row in episode]
        batch, waiting = waiting[: sft.batch_rows], waiting[sft.batch_rows :]
        policy.forward_backward(batch, SftLoss.over(batch))
        policy.optim_step(sft.schedule.rate(sft.learning_rate, step, sft.steps))


@dataclass
class Curriculum:
    """Chooses tasks: lost families more often, and undecided tasks again."""

    recipe: TinyRecipe
    seed: int
    wins: dict = field(default_factory=lambda: dict.fromkeys(HOUSEHOLD_TURNS, 0.5))
    met: Counter = field(default_factory=Counter)
    undecided: dict = field(default_factory=dict)

    def choose(self, iteration):
        """Return the tasks of an iteration."""
        rng, recipe = random.Random(derive_seed("choose", self.seed, iteration)), self.recipe
        most = min(len(self.undecided), int(recipe.tasks * recipe.again))
        tasks = [self.undecided.pop(name) for name in rng.sample(sorted(self.undecided), most)]
        weights = [max(recipe.least_weight, 1 - win) for win in self.wins.values()]
        for family in rng.choices(range(len(weights)), weights, k=recipe.tasks - len(tasks)):
            start = len(weights) * self.met[family] + family
            self.met[family] += 1
            homes = range(recipe.homes)
            tasks += household_tasks("train", 1, homes=homes, seed=1 + self.seed, start=start)
        return tasks

    def note(self, task, rewards):
        """Remember how a group ended."""
        self.wins[task.task_type] += 0.1 * (fmean(rewards) - self.wins[task.task_type])
        if min(rewards) != max(rewards):
            self.undecided[task.id] = task


def reinforce(recipe, policy, mode, seed):
    """Run GRPO; prints every tenth iteration."""
    curriculum, spent = Curriculum(recipe, seed), Counter()
    for iteration in range(recipe.iterations):
        began = time.process_time()
        tasks = curriculum.choose(iteration)
        episodes = [
            Episode(task, derive_seed("grpo", seed, iteration, task.id, draw), told(task, mode))
            for task in tasks
            for draw in range(recipe.group)
        ]
        play(policy, episodes, 1.0)
        played, rows = time.process_time(), []
        for index, task in enumerate(tasks):
            group = episodes[index * recipe.group :][: recipe.group]
            rewards = [episode.reward for episode in group]
            curriculum.note(task, rewards)
            advantages = group_advantages(rewards, AdvantageSettings())
            for episode, advantage in zip(group, advantages, strict=True):
                rows += [replace(row, advantage=advantage) for row in episode.rows if advantage]
        rate = recipe.grpo_rate(iteration)
        done = update(
            policy, rows, recipe.grpo, seed=derive_seed(seed, iteration), learning_rate=rate
        )
        spent.update(rollout=played - began, training=time.process_time() - played)
        if iteration % 10 == 9:
            won, loss = fmean(episode.reward for episode in episodes), done.total()
            lately = fmean(curriculum.wins.values())
            print(
                f"  iteration {iteration + 1}: {sum(spent.values()):.0f} CPU-s, won {won:.2f}, "
                f"families lately {lately:.2f}, rows {len(rows)}, kl {loss.kl:.2f}, entropy "
                f"{loss.entropy:.2f}, clipped {loss.clip_fraction:.3f}",
                flush=True,
            )
    return spent


def measure(policy, tasks, label):
    """Print success by what is told, sampled at temperature 1 and greedy."""
    for mode in ("own", "none", "wrong"):
        began, rates, families = time.process_time(), [], defaultdict(list)
        for temperature in (1.0, 0.0):
            episodes = [
                Episode(task, derive_seed("measure", task.id), told(task, mode)) for task in tasks
            ]
            play(policy, episodes, temperature)
            rates.append(fmean(episode.reward for episode in episodes))
            if temperature:
                for episode in episodes:
                    families[CATEGORIES[episode.task.task_type]].append(episode.reward)
        shares = ", ".join(f"{name} {fmean(wins):.2f}" for name, wins in families.items())
        print(
            f"{label} {mode:5}: sampled {rates[0]:.3f}, greedy {rates[1]:.3f} (n={len(tasks)}; "
            f"{shares}; {time.process_time() - began:.1f} CPU-s)",
            flush=True,
        )


def main():
    """Train and measure one seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--split", choices=sorted(FIRST_HOME), default="val")
    parser.add_argument("--games", type=int, default=180)
    parser.add_argument("--told", choices=("own", "none"), default="own")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe, seed, mode = TinyRecipe(), arguments.seed, arguments.told
    first, began = FIRST_HOME[arguments.split], time.process_time()
    homes = range(first, first + max(1, arguments.games // 6))
    held_out = household_tasks(arguments.split, arguments.games, homes=homes)
    shown = household_tasks("train", recipe.demonstrations, homes=range(recipe.homes))
    wins = demonstrate(recipe, shown, mode, seed)
    contexts = [context for turns in wins for context, _ in turns]
    policy = ScorerPolicy.for_turns(contexts, ScorerSettings(seed=seed))
    print(
        f"seed {seed}, {arguments.split}, told {mode}: {len(wins)} of {len(shown)} demonstrations "
        f"won, {len(contexts)} turns, {policy.parameters} parameters, "
        f"{time.process_time() - began:.1f} CPU-s",
        flush=True,
    )
    began = time.process_time()
    cold_start(recipe, policy, wins, seed)
    print(f"SFT: {time.process_time() - began:.1f} CPU-s", flush=True)
    measure(policy, held_out, "SFT ")
    policy.freeze_reference()
    spent = reinforce(recipe, policy, mode, seed)
    print(f"GRPO: {dict(spent)} CPU-s", flush=True)
    measure(policy, held_out, "GRPO")


if __name__ == "__main__":
    main()
