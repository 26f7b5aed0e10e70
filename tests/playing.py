"""Play environments of verifiers by name with an agent that a function makes."""

from pathlib import Path

from skillwright.config.env import EnvSection
from skillwright.core import Act, EpisodeSpec, PlainSkill
from skillwright.envs import spec
from skillwright.jobs.run import find_tasks
from skillwright.rollout import Limits, LocalEngine

ENVS = Path(__file__).parent / "verifiers_envs"
LIMITS = Limits(max_turns=6, retries=0)


def tasks_of(name, config=None, **data):
    env = EnvSection.model_validate({"name": name, "config": config or {}, "data": data})
    return find_tasks(env)


class Acting:
    """Acts as a function of the context says."""

    identity = "scripted:acting"
    takes_tools = True

    def __init__(self, act):
        self._act = act
        self.shown = []

    async def act_batch(self, contexts):
        self.shown += contexts
        acts = [self._act(one) for one in contexts]
        return [one if isinstance(one, Act) else Act(one) for one in acts]


def builds(name, config=None):
    found = spec(name).load()
    return lambda task: found(config or {}, dict(task.extras))


async def played(name, act, task, config=None, limits=LIMITS):
    agent = act if isinstance(act, Acting) else Acting(act)
    engine = LocalEngine(agent, builds(name, config), limits=limits)
    (result,) = await engine.run([EpisodeSpec(task, 1)], PlainSkill("Be quick."))
    return result


class Bisecting(Acting):
    def __init__(self):
        super().__init__(self._guess)

    def _guess(self, context):
        if context.turn == 0:
            self._low, self._high = 0, 16
        hint = context.messages[-1]["content"]
        if hint == "higher":
            self._low = self._middle + 1
        elif hint == "lower":
            self._high = self._middle
        self._middle = (self._low + self._high) // 2
        return str(self._middle)
