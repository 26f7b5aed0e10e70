"""A taskset whose tools are a server of its own, in another process."""

import verifiers.v1 as vf

STOCK = {"lamp": 4, "rug": 0, "vase": 9}

__all__ = ["ShelfTaskset"]


class ShelfData(vf.TaskData):
    item: str


class Shelf(vf.Toolset[vf.ToolsetConfig, vf.State]):
    @vf.tool
    async def in_stock(self, item: str) -> str:
        """Say how many of an item there are."""
        return str(STOCK[item])


class ShelfTask(vf.Task[ShelfData, vf.State, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Shelf(vf.ToolsetConfig())]

    @vf.reward
    async def told(self, task: ShelfData, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip() == str(STOCK[task.item]))


class ShelfTaskset(vf.Taskset[ShelfTask, vf.TasksetConfig]):
    def load(self):
        for number in range(9):
            item = list(STOCK)[number % 3]
            prompt = f"How many {item}s are there, asks customer {number}?"
            yield ShelfTask(ShelfData(idx=number, prompt=prompt, item=item), self.config.task)


if __name__ == "__main__":
    Shelf.run()
