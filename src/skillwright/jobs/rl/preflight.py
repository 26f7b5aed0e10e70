"""What can be known to be wrong with a run of the recipe, found before anything is written."""

from collections.abc import Awaitable

from skillwright.core import ConfigError, SkillwrightError
from skillwright.core.together import together
from skillwright.envs.drive import open_env
from skillwright.jobs.bank_source import opened_embedder
from skillwright.jobs.doctor import Finding, Health
from skillwright.jobs.money import priced_mind
from skillwright.jobs.preflight import ask_if_ready, build_first
from skillwright.jobs.rl.config import RlConfig
from skillwright.jobs.rl.first_bank import starting_bank
from skillwright.jobs.rl.policies import PolicyMaker
from skillwright.jobs.rl.tasks import RlTasks, find_rl_tasks
from skillwright.jobs.tau_user import user_mind
from skillwright.models import HttpClient, ModelConfig


async def preflight_rl(config: RlConfig) -> PolicyMaker:
    """Check tasks, environment, bank, policy and endpoints; each endpoint gets a small question.

    Returns:
        What builds the policy; a language model that was loaded is used by the run.

    Raises:
        UsageError: Something that the configuration names is missing or wrong.
        ModelRefused: An endpoint refuses the key or the model.
        ModelError: An endpoint does not answer.
    """
    _refuse_unpriced(config)
    await _look_at_tasks(config)
    starting_bank(config)
    with opened_embedder(config.bank.embedder):
        pass
    maker = PolicyMaker(config)
    maker.check()
    minds = [*config.minds.values()]
    if (user := user_mind(config.env)) is not None:
        minds.append(user)
    asked = {mind.model_dump_json(): mind for mind in minds}
    async with HttpClient() as client:
        await together(ask_if_ready(mind, client) for mind in asked.values())
    return maker


async def examine_rl(config: RlConfig) -> list[Finding]:
    """Look at all that a run of the recipe needs, also behind the first thing that is wrong.

    Args:
        config: What would be run; each endpoint in it is asked one small question.
    """
    findings = [
        await _found("budget", _money(config)),
        await _found("tasks", _tasks(config)),
        await _found("bank", _bank(config)),
        await _found("policy", _policy(config)),
    ]
    minds: dict[str, ModelConfig] = dict(config.minds)
    try:
        if (user := user_mind(config.env)) is not None:
            minds["simulated user"] = user
    except SkillwrightError as error:
        findings.append(Finding("simulated user", Health.BAD, str(error)))
    async with HttpClient() as client:
        asked = (_found(role, _mind(mind, client)) for role, mind in minds.items())
        return [*findings, *await together(asked)]


async def _found(name: str, look: Awaitable[str]) -> Finding:
    try:
        return Finding(name, Health.OK, await look)
    except SkillwrightError as error:
        return Finding(name, Health.BAD, str(error))


async def _money(config: RlConfig) -> str:
    _refuse_unpriced(config)
    return "it can be held" if config.budget.is_set else "no bound is set"


async def _tasks(config: RlConfig) -> str:
    tasks = await _look_at_tasks(config)
    return (
        f"{len(tasks.practice)} to practise, {len(tasks.val)} val, "
        f"{len(tasks.splits.test)} sealed test"
    )


async def _bank(config: RlConfig) -> str:
    bank = starting_bank(config)
    with opened_embedder(config.bank.embedder) as embedder:
        return f"it begins with {len(bank.active)} skills; {embedder.identity} says what is similar"


async def _policy(config: RlConfig) -> str:
    PolicyMaker(config).check()
    return str(getattr(config.policy, "model", "a command scorer, built anew"))


async def _mind(mind: ModelConfig, client: HttpClient) -> str:
    return f"{mind.backend}: {await ask_if_ready(mind, client)} answers"


async def _look_at_tasks(config: RlConfig) -> RlTasks:
    tasks = find_rl_tasks(config)
    env = build_first(config.env, tasks.val[0])
    try:
        opening = await open_env(env) if config.policy.kind == "scorer" else None
    finally:
        env.close()
    if opening is not None and not opening.metadata.get("admissible_commands"):
        raise ConfigError(
            f"a scorer chooses from a list, and environment {config.env.name!r} offers none "
            "('admissible_commands' in its metadata); use policy.kind 'hf', which writes text"
        )
    if problem := config.why_hopeless(len(tasks.val)):
        raise ConfigError(problem)
    return tasks


def _refuse_unpriced(config: RlConfig) -> None:
    """Refuse a budget in money that could not be held."""
    minds = [priced_mind(role, mind) for role, mind in config.minds.items()]
    unpriced = [mind for mind in minds if not mind.is_priced]
    if config.budget.usd is not None and unpriced:
        raise ConfigError(
            f"budget.usd = {config.budget.usd:g} cannot be held: no prices are known for "
            f"{unpriced[0].model!r} (models.{unpriced[0].role}). Set models.{unpriced[0].role}"
            ".prices.input_usd_per_mtok and output_usd_per_mtok, or bound budget.tokens instead"
        )
