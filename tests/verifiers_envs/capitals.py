"""A taskset: one question, and rewards that can be told to go wrong."""

import verifiers.v1 as vf

CITIES = {"France": "Paris", "Peru": "Lima", "Kenya": "Nairobi", "Japan": "Tokyo"}

__all__ = ["CapitalsTaskset"]


class CapitalData(vf.TaskData):
    answer: str


class CapitalsConfig(vf.TasksetConfig):
    copies: int = 3
    broken: str = ""


class CapitalTask(vf.Task[CapitalData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.8)
    async def right(self, task: CapitalData, trace: vf.Trace) -> float:
        if task.name == "raises":
            raise ZeroDivisionError("the reward divides by nothing")
        return float("nan") if task.name == "nan" else float(task.answer in trace.last_reply)

    @vf.reward(weight=0.2)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 20)

    @vf.metric
    async def letters(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class CapitalsTaskset(vf.Taskset[CapitalTask, CapitalsConfig]):
    def load(self):
        for copy in range(self.config.copies):
            for number, (country, city) in enumerate(CITIES.items()):
                yield CapitalTask(
                    CapitalData(
                        idx=copy * len(CITIES) + number,
                        name=self.config.broken or None,
                        prompt=f"What is the capital of {country}, asks traveler {copy}?",
                        system_prompt="Answer with a name.",
                        answer=city,
                    ),
                    self.config.task,
                )
