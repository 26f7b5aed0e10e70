"""A world of a few commands, for policies: go where the errand says, twice."""

from skillwright.core import EpisodeSpec, PlainSkill, Task
from skillwright.envs import TextEnv
from skillwright.policy import PolicyAgent
from skillwright.rollout import Limits, LocalEngine, PromptStyle

PLACES = ("mug", "shelf", "microwave", "shelf 1")


class Errand(TextEnv):
    """Names a place; ``go to`` it wins once ``look`` was said; three turns at most."""

    def init(self, prompt):
        self.turns, self.looked = 0, False
        self.place = self.extras["place"]
        opening = f"go to {self.place}"
        return (
            [*prompt, {"role": "system", "content": "do it"}, {"role": "user", "content": opening}],
            self.seen(opening),
        )

    def step(self, action):
        self.turns += 1
        self.looked |= action == "look"
        if action == f"go to {self.place}":
            return self.finish("there", reward=1.0)
        reply = self.reply("you look" if action == "look" else "no")
        reply["metadata"] = self.seen(reply["observations"][0]["content"])
        return reply

    def seen(self, text):
        metadata = {"observation": text}
        if self.extras.get("listed", True):
            metadata["admissible_commands"] = ["look", *(f"go to {place}" for place in PLACES)]
        return metadata


def specs(tasks=2, draws=3, *, seed=0, **extras):
    return [
        EpisodeSpec(
            Task(f"t{number}", "errand", {"place": PLACES[number % 4], **extras}, "going"),
            seed=1000 * seed + 100 * number + draw,
            draw=draw,
        )
        for number in range(tasks)
        for draw in range(draws)
    ]


async def played(backend, wanted, *, skill="", history=None, turns=3, temperature=1.0):
    """Play in lockstep and return the results and the agent that has the rows."""
    agent = PolicyAgent(backend, temperature)
    engine = LocalEngine(
        agent,
        lambda task: Errand(extras=dict(task.extras)),
        limits=Limits(max_concurrent=64, max_turns=turns, retries=0),
        prompt=PromptStyle(history_turns=history),
        mode="lockstep",
    )
    return await engine.run(wanted, PlainSkill(skill)), agent
