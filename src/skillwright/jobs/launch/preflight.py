"""What can be known to be wrong before a run begins, found before anything is written."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

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
from skillwright.envs import TextEnv, spec
from skillwright.envs.drive import native_tools
from skillwright.jobs.adapters.bench import check_adapter
from skillwright.jobs.parts.adapter_load import find_adapter
from skillwright.jobs.parts.bank_source import check_bank, refuse_bank
from skillwright.jobs.parts.bench import Sizes
from skillwright.jobs.parts.money import refuse_unpriced
from skillwright.jobs.parts.opened import MakeModel
from skillwright.jobs.parts.tasks import make_splits
from skillwright.jobs.parts.tau_user import user_mind
from skillwright.jobs.train.evaluate import EvalPlan
from skillwright.jobs.train.expected import refuse_hopeless_gate
from skillwright.jobs.train.wiring import make_env
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
    await look_at_tasks(config, trains=plan is None)
    minds: list[ModelConfig] = []
    if plan is None:
        minds.append(config.models.optimizer)
    if (user := user_mind(config.env)) is not None:
        minds.append(user)
    # Two roles of one mind are one question; the target's has its tools beside it.
    target, tools = config.models.target, tools_of(config)
    others = {mind.model_dump_json(): mind for mind in minds if mind != target}
    async with HttpClient() as client:
        asked = [ask_if_ready(target, client, tools=tools)]
        await together([*asked, *(ask_if_ready(mind, client) for mind in others.values())])


async def look_at_tasks(config: RunConfig, *, trains: bool = True) -> Sizes:
    """Find what a run plays, and build it once: an environment, or the adapter with its splits.

    Nothing is played, and nothing is written where the run will be.

    Args:
        config: What will be run.
        trains: There is a gate, which must be able to accept something.

    Returns:
        How many tasks there are.

    Raises:
        UsageError: Tasks, environment or adapter are missing or wrong, or no candidate could ever
            pass the gate.
    """
    for path in config.rollout.reuse:
        RunFolder.look(Path(path))
    if find_adapter(config.env) is None:
        splits = make_splits(config)
        build_first(config.env, splits.val.tasks[0]).close()
        if tools_of(config):
            refuse_without_tools(config.models.target, config.env.name)
        check_bank(config)
        sizes = Sizes(len(splits.train.tasks), len(splits.val.tasks), len(splits.test))
    else:
        refuse_bank(config)
        sizes = await check_adapter(config)
    if trains and sizes.val is not None:
        refuse_hopeless_gate(config, sizes.train, sizes.val)
    return sizes


def tools_of(config: RunConfig) -> tuple[dict[str, Any], ...]:
    """Return the tools that the agent is offered natively; none in most environments.

    Raises:
        UsageError: Tasks or environment are missing or wrong.
    """
    if find_adapter(config.env) is not None:
        return ()
    offered = getattr(spec(config.env.name).load(), "native_tools", TextEnv.native_tools)
    if offered is TextEnv.native_tools:
        return ()
    with closing(build_first(config.env, make_splits(config).val.tasks[0])) as env:
        return native_tools(env)


def refuse_without_tools(target: ModelConfig, env: str) -> None:
    """Refuse a program at a command line where tools are called natively.

    Raises:
        ConfigError: The target is one.
    """
    if not isinstance(target, EndpointConfig | ScriptedConfig | PythonConfig) or (
        getattr(target, "transport", "") == "cli"
    ):
        raise ConfigError(f"models.target is {target.backend!r}: {why_no_tools(env)}")


def build_first(env: EnvSection, task: Task) -> TextEnv:
    """Build the first environment of a run, before which any fault is one of the settings.

    Args:
        env: Which environment, with its settings.
        task: What it is given.

    Raises:
        DataError: It is not found, or cannot be imported.
        ConfigError: Its constructor raised.
    """
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

    Args:
        mind: Who is asked.
        client: Asks.
        make: Makes the model.
        tools: What it will be offered; a server that takes none refuses the question.

    Returns:
        The model's name, as the endpoint reports it.

    Raises:
        ModelError: It does not, after a few attempts.
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
