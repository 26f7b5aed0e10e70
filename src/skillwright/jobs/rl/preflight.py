"""What can be known to be wrong with a run of the recipe, found before anything is written."""

from skillwright.core import ConfigError
from skillwright.core.together import together
from skillwright.envs.drive import open_env
from skillwright.jobs.bank_source import opened_embedder
from skillwright.jobs.money import priced_mind
from skillwright.jobs.preflight import ask_if_ready, build_first
from skillwright.jobs.rl.config import RlConfig
from skillwright.jobs.rl.first_bank import starting_bank
from skillwright.jobs.rl.policies import PolicyMaker
from skillwright.jobs.rl.tasks import find_rl_tasks
from skillwright.jobs.tau_user import user_mind
from skillwright.models import HttpClient


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


async def _look_at_tasks(config: RlConfig) -> None:
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
