"""A tiny world and a tiny model: somebody thinks of a number, and somebody guesses it."""

import asyncio
import random

from skillwright.core import Act, EpisodeSpec, PlainSkill, Task, Usage
from skillwright.envs import TextEnv

NO_SKILL = PlainSkill("")


class Guess(TextEnv):
    """Draws a number from 1 to ``extras["upper"]`` by ``extras["seed"]`` and answers guesses."""

    def __init__(self, env_config=None, extras=None):
        super().__init__(env_config, extras)
        self.upper = int(self.extras.get("upper", 8))
        self.answer = random.Random(self.extras["seed"]).randint(1, self.upper)

    @staticmethod
    def gold_actions(extras):
        return [str(random.Random(extras["seed"]).randint(1, extras["upper"]))]

    def init(self, prompt):
        opening = f"I think of a number from 1 to {self.upper}."
        messages = [
            *prompt,
            {"role": "system", "content": "Guess the number."},
            {"role": "user", "content": f"{opening}\n\nYour guess?"},
        ]
        return messages, {"observation": opening, "low": 1, "high": self.upper}

    def step(self, action):
        self.turns += 1
        guess = int(action) if action.isascii() and action.isdecimal() and len(action) < 9 else None
        if guess == self.answer:
            return self.finish("Correct.", reward=1.0)
        if guess is None:
            return self.reply("That is no number.")
        return self.reply("Higher." if guess < self.answer else "Lower.")

    def get_metrics(self):
        return {"guesses": self.turns}


class Bisector:
    """Guesses from the conversation and the turn's seed alone; keeps the batches it was asked."""

    identity = "test:bisector"

    def __init__(self):
        self.batches = []

    async def act_batch(self, contexts):
        self.batches.append(list(contexts))
        return [Act(self.guess(context), usage=Usage(calls=1)) for context in contexts]

    def guess(self, context):
        said = [message["content"] for message in context.messages]
        opening = next(i for i, text in enumerate(said) if "I think of a number" in text)
        low, high = 1, int(said[opening].split(" to ")[1].split(".")[0])
        for guess, answer in zip(said[opening + 1 :: 2], said[opening + 2 :: 2], strict=True):
            if answer == "Higher.":
                low = max(low, int(guess) + 1)
            elif answer == "Lower.":
                high = min(high, int(guess) - 1)
        return str(random.Random(context.seed).randint(low, high))


class Worlds:
    """Builds environments of a class and remembers them; a task's id may pick another class."""

    def __init__(self, env_class=Guess, **by_task):
        self.env_class = env_class
        self.by_task = by_task
        self.built = []
        self.closed = []

    def __call__(self, task):
        env_class = self.by_task.get(task.id, self.env_class)
        env = env_class(extras=dict(task.extras))
        self.built.append(env)
        close = env.close

        def counted():
            self.closed.append(env)
            close()

        env.close = counted
        return env

    @property
    def all_closed(self):
        return len(self.closed) == len(self.built)


class Broken(Guess):
    """Breaks at the first step."""

    def step(self, action):
        raise KeyError("chair 7")


class Hanging(Guess):
    """Opens, then never answers."""

    async def astep(self, action):
        await asyncio.Event().wait()


def guess_task(task_id, upper=8, **extras):
    return Task(id=task_id, env="guess", extras={"upper": upper, **extras}, task_type="easy")


def guess_specs(count, **extras):
    return [EpisodeSpec(guess_task(f"t{i}", **extras), seed=i) for i in range(count)]
