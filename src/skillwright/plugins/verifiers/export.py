"""Export our environments to `verifiers`: tasks as data set, the reward as rubric."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any

from skillwright.core import DataError, SkillwrightError, Task, ToolCall
from skillwright.core.jsonio import canonical
from skillwright.envs import make
from skillwright.envs.drive import native_tools, open_env, step_env, step_env_native
from skillwright.plugins.verifiers.loading import quiet, theirs


def as_verifiers(
    name: str,
    tasks: Sequence[Task],
    *,
    eval_tasks: Sequence[Task] = (),
    env_config: object | None = None,
) -> Any:
    """Return one of our environments as a ``MultiTurnEnv`` of verifiers.

    A failure is stored as the rollout's error, which verifiers scores as 0: check
    ``state["error"]`` before averaging.

    Args:
        name: Our name of the environment.
        tasks: Tasks of its data set.
        eval_tasks: Tasks of its eval set; if empty, ``tasks``.
        env_config: Settings of the environment.

    Raises:
        DataError: verifiers is not installed, or there are no tasks.
    """
    theirs()
    if not tasks:
        raise DataError(f"{name!r} is given no tasks, and verifiers wants a data set")
    with closing(make(name, env_config, dict(tasks[0].extras))) as env:
        tools = [dict(one["function"]) for one in native_tools(env)]
    with quiet():
        rows = importlib.import_module("datasets").Dataset.from_list
        sets = {"dataset": rows([_row_of(one) for one in tasks])}
        if eval_tasks:
            sets["eval_dataset"] = rows([_row_of(one) for one in eval_tasks])
        rubric = importlib.import_module("verifiers").Rubric(funcs=[_reward])
        return _exported()(name, env_config, rubric=rubric, tool_defs=tools, **sets)


def _row_of(task: Task) -> dict[str, Any]:
    info = canonical({"id": task.id, "extras": dict(task.extras)})
    prompt = [{"role": "user", "content": task.description or task.id}]
    return {"prompt": prompt, "answer": "", "info": info}


def _reward(state: Mapping[str, Any]) -> float:
    return float(state.get("skillwright_reward", 0.0))


@cache
def _exported() -> Any:
    vf = importlib.import_module("verifiers")
    errors = importlib.import_module("verifiers.errors")

    @contextmanager
    def charged() -> Iterator[None]:
        try:
            yield
        except SkillwrightError as error:
            raise errors.InfraError(str(error)) from error

    async def setup_state(self: Any, state: Any) -> None:
        with charged():
            extras = state["info"]["extras"]
            state["skillwright_env"] = env = make(self.played, self.settings, dict(extras))
            opening = await open_env(env)
            state["prompt"] = [dict(one) for one in opening.messages]

    async def env_response(self: Any, messages: Any, state: Any, **_: Any) -> Any:
        env, last = state["skillwright_env"], messages[-1]
        said = last.content or ""
        calls = [ToolCall(one.id, one.name, one.arguments) for one in last.tool_calls or ()]
        with charged():
            native = bool(native_tools(env))
            reply = await (step_env_native(env, said, calls) if native else step_env(env, said))
        state["skillwright_reward"] = _reward(state) + reply.reward
        answer = [dict(one) for one in reply.messages]
        if reply.done:
            state["final_env_response"] = answer
        return answer

    async def close_env(self: Any, state: Any) -> None:
        if env := state.pop("skillwright_env", None):
            env.close()

    def build(self: Any, played: str, settings: object | None, **sets: Any) -> None:
        self.played, self.settings = played, settings
        vf.MultiTurnEnv.__init__(self, max_turns=-1, **sets)

    members = {
        "__init__": build,
        "setup_state": setup_state,
        "env_response": env_response,
        "close_env": vf.cleanup(close_env),
        "__module__": __name__,
    }
    return type("SkillwrightEnv", (vf.MultiTurnEnv,), members)
