"""Export our environments to `verifiers`: as a taskset with its Env, or as a ``MultiTurnEnv``."""

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, Literal

from skillwright.core import DataError, SkillwrightError, Task, ToolCall
from skillwright.core.jsonio import canonical
from skillwright.envs import make
from skillwright.envs.drive import native_tools, open_env, step_env, step_env_native
from skillwright.plugins.verifiers.loading import require_verifiers
from skillwright.plugins.verifiers.words import quiet


def as_verifiers(
    name: str,
    tasks: Sequence[Task],
    *,
    eval_tasks: Sequence[Task] = (),
    env_config: object | None = None,
) -> Any:
    """Return one of our environments as a ``MultiTurnEnv`` of verifiers before 0.4.

    A failure is stored as the rollout's error, which verifiers scores as 0: check
    ``state["error"]`` before averaging.

    Args:
        name: Our name of the environment.
        tasks: Tasks of its data set.
        eval_tasks: Tasks of its eval set; if empty, ``tasks``.
        env_config: Settings of the environment.

    Raises:
        DataError: verifiers is not installed or too new, or there are no tasks.
    """
    if not hasattr(require_verifiers(), "MultiTurnEnv"):
        raise DataError("verifiers 0.4 has no MultiTurnEnv; as_taskset() exports to it")
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


def as_taskset(
    name: str,
    tasks: Sequence[Task],
    *,
    eval_tasks: Sequence[Task] = (),
    env_config: object | None = None,
) -> tuple[type[Any], type[Any]]:
    """Return one of our environments as a ``Taskset`` and an ``Env`` of verifiers 0.3.1 and later.

    A package that exports both in its ``__all__`` is a taskset of its own name. A failure ends the
    episode with an error, without a reward.

    Args:
        name: Our name of the environment.
        tasks: Tasks of the taskset.
        eval_tasks: Tasks of the taskset with the setting ``split: eval``; if empty, ``tasks``.
        env_config: Settings of the environment.

    Raises:
        DataError: verifiers is not installed or too old, there are no tasks, or the environment's
            tools are called natively.
    """
    require_verifiers()
    if importlib.util.find_spec("verifiers.v1") is None:
        raise DataError("verifiers has tasksets from 0.3.1 on: pip install 'verifiers>=0.3.1'")
    if not tasks:
        raise DataError(f"{name!r} is given no tasks, and a taskset has some")
    with closing(make(name, env_config, dict(tasks[0].extras))) as env:
        if native_tools(env):
            raise DataError(f"{name!r} has tools that are called natively; a taskset takes text")
    v1: Any = importlib.import_module("verifiers.v1")

    class Data(v1.TaskData):  # type: ignore[misc]
        extras: dict[str, Any]

    class Played(v1.Task[Data, v1.State, v1.TaskConfig]):  # type: ignore[misc]
        """A task of ours."""

    class Config(v1.TasksetConfig):  # type: ignore[misc]
        split: Literal["train", "eval"] = "train"

    class SkillwrightTaskset(v1.Taskset[Played, Config]):  # type: ignore[misc]
        def load(self) -> Iterator[Any]:
            chosen = (eval_tasks or tasks) if self.config.split == "eval" else tasks
            for number, one in enumerate(chosen):
                prompt = one.description or one.id
                data = Data(idx=number, name=one.id, prompt=prompt, extras=dict(one.extras))
                yield Played(data, self.config.task)

    class SkillwrightEnv(v1.Env[v1.SingleAgentEnvConfig]):  # type: ignore[misc]
        async def run(self, task: Any, agents: Any) -> None:
            with closing(make(name, env_config, dict(task.data.extras))) as env:
                opened = (await open_env(env)).messages
                rules = "\n\n".join(one["content"] for one in opened if one["role"] == "system")
                asked = {"system_prompt": rules or None, "prompt": _texts(opened)}
                shown = Played(task.data.model_copy(update=asked), task.config)
                async with agents.agent.interaction(shown) as talk:
                    reward = await _played(env, talk)
                talk.trace.record_reward("skillwright", reward)

    return SkillwrightTaskset, SkillwrightEnv


async def _played(env: Any, talk: Any) -> float:
    """Let the agent of an interaction act until the end, and return the sum of the rewards."""
    reward, segment = 0.0, await talk.turn()
    while not segment.terminated:
        reply = await step_env(env, segment.last_reply)
        reward += reply.reward
        if reply.done:
            break
        segment = await talk.turn(_texts(reply.messages))
    return reward


def _texts(messages: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(str(one["content"]) for one in messages if one["role"] != "system")
