"""A taskset with an Env of its own, which answers each turn of the player."""

import verifiers.v1 as vf

__all__ = ["HigherLowerEnv", "HigherLowerTaskset"]


class NumberData(vf.TaskData):
    number: int


class NumberTask(vf.Task[NumberData, vf.State, vf.TaskConfig]):
    pass


class HigherLowerTaskset(vf.Taskset[NumberTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        number = 0
        while True:
            prompt = f"Guess my number from 0 to {15 + number}."
            data = NumberData(idx=number, prompt=prompt, number=number % 16)
            yield NumberTask(data, self.config.task)
            number += 1


class HigherLowerConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    plays: int = 1


class HigherLowerEnv(vf.Env[HigherLowerConfig]):
    async def run(self, task, agents):
        for _ in range(self.config.plays):
            found = False
            async with agents.player.interaction(task) as interaction:
                segment = await interaction.turn()
                while not (segment.terminated or found):
                    said = segment.last_reply
                    guess = int(said) if said.isdecimal() else -1
                    found = guess == task.data.number
                    if not found:
                        hint = "higher" if guess < task.data.number else "lower"
                        segment = await interaction.turn(hint)
            interaction.trace.record_reward("found", float(found))
