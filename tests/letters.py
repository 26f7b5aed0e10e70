"""An environment that pays a random model differently each time, so that no group is equal."""

from skillwright.core import Task
from skillwright.envs import TextEnv

NAME = "tests_letters"


class Letters(TextEnv):
    """Two turns; the reward is a number made of what was said. Some seeds break it."""

    def init(self, prompt):
        word = self.extras["word"]
        opening = [
            {"role": "system", "content": "Say something."},
            {"role": "user", "content": f"The word is {word}."},
        ]
        self._said = 0
        return [*prompt, *opening], {"observation": word}

    def step(self, action):
        self.turns += 1
        if self.extras.get("seed", 0) % 1000 < self.extras.get("broken", 0):
            raise RuntimeError("the floor gave way")
        self._said += sum(map(ord, action))
        if self.turns == 2:
            return self.finish("Over.", reward=self._said % 97 / 96)
        return self.reply("Go on.")


def tasks(**extras):
    return [
        Task(word, NAME, {"word": word, **extras}, "noun", f"say {word}", "train")
        for word in ("mug", "shelf")
    ]
