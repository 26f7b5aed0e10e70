"""What can be known to be wrong before a run begins, found before anything is written."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from skillwright.config.env import EnvSection
from skillwright.config.run import RunConfig
from skillwright.core import (
    ChatModel,
    ConfigError,
    Message,
    Purpose,
    Sampling,
    SkillwrightError,
    Task,
)
from skillwright.core.together import together
from skillwright.envs import TextEnv
from skillwright.envs.drive import native_tools
from skillwright.jobs.adapters.bench import check_adapter
from skillwright.jobs.parts.adapter_load import is_adapter
from skillwright.jobs.parts.bank_source import check_bank, refuse_bank
from skillwright.jobs.parts.bench import Sizes
from skillwright.jobs.parts.engine import make_env
from skillwright.jobs.parts.environment import user_mind
from skillwright.jobs.parts.money import refuse_unpriced
from skillwright.jobs.parts.opened import MakeModel
from skillwright.jobs.parts.tasks import make_splits
from skillwright.jobs.train.evaluate import EvalPlan
from skillwright.jobs.train.expected import refuse_hopeless_gate
from skillwright.models import (
    EndpointConfig,
    EndpointFault,
    HttpClient,
    ModelConfig,
    PythonConfig,
    ScriptedConfig,
    is_stand_in,
    make_model,
)
from skillwright.rollout.episode import why_no_tools
from skillwright.runs import RunFolder

_QUESTION: Message = {"role": "user", "content": "Answer with the single word: ready"}
_ANSWER_TOKENS = 256  # a reasoning model needs room before it says one word
_ATTEMPTS = 2
_TOO_MANY = 429


async def preflight(config: RunConfig, plan: EvalPlan | None = None) -> None:
    """Check tasks, environment and endpoints; one small question goes to each endpoint.

    Args:
        config: What will be run.
        plan: What an evaluation evaluates; ``None`` for training, which has two minds.

    Raises:
        UsageError: Something that the configuration names is missing or wrong.
        ModelRefused: An endpoint refuses the key or the model.
        ModelError: An endpoint does not answer.
    """
    refuse_unpriced(config, trains=plan is None)
    found = await look_at_tasks(config, trains=plan is None)
    minds = [*([config.models.optimizer] if plan is None else ()), *users_of(config.env).values()]
    # Two roles of one mind are one question; the target's has its tools beside it.
    target = config.models.target
    others = {mind.model_dump_json(): mind for mind in minds if mind != target}
    async with HttpClient() as client:
        asked = [ask_if_ready(target, client, tools=found.tools)]
        await together([*asked, *(ask_if_ready(mind, client) for mind in others.values())])


class Found(NamedTuple):
    """What a run plays: how many tasks, and the tools that the agent is offered natively."""

    sizes: Sizes
    tools: tuple[dict[str, Any], ...] = ()


async def look_at_tasks(config: RunConfig, *, trains: bool = True) -> Found:
    """Find what a run plays, and build it once: an environment, or the adapter with its splits.

    Nothing is played, and nothing is written where the run will be.
    """
    for path in config.rollout.reuse:
        RunFolder.look(Path(path))
    if is_adapter(config.env):
        refuse_bank(config)
        found = Found(await check_adapter(config))
    else:
        found = _look_at_environment(config)
    if trains and found.sizes.val is not None:
        refuse_hopeless_gate(config, found.sizes.train, found.sizes.val)
    return found


def _look_at_environment(config: RunConfig) -> Found:
    splits = make_splits(config)
    with closing(build_first(config.env, splits.val.tasks[0])) as env:
        tools = tuple(native_tools(env))
    if tools:
        refuse_without_tools(config.models.target, config.env.name)
    check_bank(config)
    return Found(Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test)), tools)


def users_of(env: EnvSection) -> dict[str, ModelConfig]:
    """Return the model behind simulated users by its role, where one plays them."""
    user = user_mind(env)
    return {} if user is None else {"simulated user": user}


def refuse_without_tools(target: ModelConfig, env: str) -> None:
    """Refuse a program at a command line where tools are called natively."""
    if not isinstance(target, EndpointConfig | ScriptedConfig | PythonConfig) or (
        getattr(target, "transport", "") == "cli"
    ):
        raise ConfigError(f"models.target is {target.backend!r}: {why_no_tools(env)}")


def build_first(env: EnvSection, task: Task) -> TextEnv:
    """Build the first environment of a run, before which any fault is one of the settings."""
    build = make_env(env)
    try:
        return build(task)
    except SkillwrightError:
        raise
    except Exception as error:
        given = ", ".join(sorted(task.extras)) or "no extras"
        raise ConfigError(
            f"environment {env.name!r} cannot be built for task {task.id!r}: "
            f"{type(error).__name__}: {error}. It was given {given} as extras; its settings stand "
            "in env.config."
        ) from error


async def ask_if_ready(
    mind: ModelConfig,
    client: HttpClient,
    make: MakeModel = make_model,
    *,
    tools: Sequence[dict[str, Any]] = (),
) -> str:
    """Ask an endpoint whether it answers; a scripted mind always does.

    A rate limit is waited for as in a run, as it says that the endpoint is there.
    """
    if isinstance(mind, ScriptedConfig | PythonConfig):
        model = make(mind, client)
        return mind.model if is_stand_in(mind) else await _ask(mind, model, tools)
    impatient = mind.model_copy(update={"max_attempts": min(_ATTEMPTS, mind.max_attempts)})
    try:
        return await _ask(mind, make(impatient, client), tools)
    except EndpointFault as fault:
        if fault.status != _TOO_MANY or mind.max_attempts <= _ATTEMPTS:
            raise
    return await _ask(mind, make(mind, client), tools)


async def _ask(mind: ModelConfig, model: ChatModel, tools: Sequence[dict[str, Any]]) -> str:
    bound = min(_ANSWER_TOKENS, getattr(mind, "max_tokens", None) or _ANSWER_TOKENS)
    answer = await model.complete(
        [_QUESTION], tools=tools, sampling=Sampling(max_tokens=bound), purpose=Purpose.CHECK
    )
    return answer.model or mind.model
