"""What can be known to be wrong with a run of the recipe, found before anything is written."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from skillwright.config.rl import RlConfig
from skillwright.core import ConfigError, SkillwrightError
from skillwright.core.concurrency import together
from skillwright.envs.drive import native_tools, open_env
from skillwright.jobs.run.bank_source import opened_embedder
from skillwright.jobs.run.money import priced_model, refuse_unheld
from skillwright.jobs.run.preflight import Finding, Health, answers, build_first, finding, users_of
from skillwright.jobs.run.tasks import refuse_unasked_data
from skillwright.jobs.run.trackers import refuse_missing_trackers
from skillwright.jobs.weights.bank import starting_bank
from skillwright.jobs.weights.demonstrations import CHATS, check_chats, episodes_of_run
from skillwright.jobs.weights.estimate import expected_lengths, retirement_text
from skillwright.jobs.weights.machine import refuse_too_large, slow_precision
from skillwright.jobs.weights.tasks import RlTasks, find_rl_tasks
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.models import HttpClient, ModelConfig
from skillwright.rollout.episode import why_no_tools


async def preflight_rl(config: RlConfig) -> PolicyMaker:
    """Check budget, tasks, bank and policy, and ask each distinct model one small question.

    An endpoint that embeds is asked nothing; its key has to be there.
    """
    maker = PolicyMaker(config)
    for look in _looks(config, maker).values():
        await look()
    llms = {**config.llms, **users_of(config.env)}
    async with HttpClient() as client:
        await together(answers(llm, client) for llm in _distinct(llms).values())
    return maker


async def examine_rl(config: RlConfig) -> list[Finding]:
    """Look at all that `preflight_rl` looks at, also behind the first thing that is wrong."""
    looks = _looks(config, PolicyMaker(config))
    found = [await finding(name, look()) for name, look in looks.items()]
    # Where tasks cannot be found, whatever needs them fails by the same words: they are said once.
    first = {one.detail: one for one in reversed(found) if one.health is Health.BAD}
    findings = [one for one in found if first.get(one.detail, one) is one]
    llms = dict(config.llms)
    try:
        llms |= users_of(config.env)
    except SkillwrightError as error:
        findings.append(Finding("simulated user", Health.BAD, str(error)))
    async with HttpClient() as client:
        asked = (finding(roles, answers(llm, client)) for roles, llm in _distinct(llms).items())
        return [*findings, *await together(asked)]


def _looks(config: RlConfig, maker: PolicyMaker) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return the checks that need no request; each returns findings or raises."""
    return {
        "trackers": partial(_trackers, config),
        "budget": partial(_money, config),
        "tasks": partial(_tasks, config),
        "bank": partial(_bank, config),
        "demonstrations": partial(_demonstrations, config),
        "memory": partial(_memory, config),
        "policy": partial(_policy, config, maker),
        **({"internalize": partial(_internalize, config)} if config.internalize else {}),
    }


async def _trackers(config: RlConfig) -> str:
    refuse_missing_trackers(config.run.trackers)
    return ", ".join(config.run.trackers) or "none follows the run"


async def _money(config: RlConfig) -> str:
    llms = [priced_model(role, llm) for role, llm in config.llms.items()]
    # Only skills are embedded; raw trajectories, and no skills at all, need no embedder.
    refuse_unheld(config.budget, llms, config.bank.embedder if config.has_bank else "")
    return "it can be held" if config.budget.is_set else "no bound is set"


async def _tasks(config: RlConfig) -> str:
    tasks = await _look_at_tasks(config)
    return (
        f"{len(tasks.training)} to train on, {len(tasks.val)} val, "
        f"{len(tasks.splits.test)} sealed test"
    )


async def _bank(config: RlConfig) -> str:
    bank = starting_bank(config)
    with opened_embedder(config.bank.embedder) as embedder:
        return f"it begins with {len(bank.active)} skills; {embedder.identity} says what is similar"


async def _demonstrations(config: RlConfig) -> str:
    section = config.cold_start
    if section is None:
        return "nothing is learned from any"
    name = section.demonstrations
    if not name:
        return "models.expert plays them"
    if name.endswith(CHATS):
        return f"{check_chats(Path(name))} chats"
    tasks = find_rl_tasks(config).training[: section.tasks]
    found = episodes_of_run(name, config.run.root, tasks, config.env.success_threshold)
    return f"{len(found)} solved episodes of run {name!r}"


async def _memory(config: RlConfig) -> str:
    if config.policy.kind == "scorer":
        return "a command scorer takes megabytes"
    tasks = find_rl_tasks(config)
    return refuse_too_large(config, tasks, await expected_lengths(config, tasks))


async def _policy(config: RlConfig, maker: PolicyMaker) -> str:
    maker.check()
    slow = slow_precision(config)
    return f"{config.policy.label}; {slow}" if slow else config.policy.label


async def _internalize(config: RlConfig) -> str:
    return retirement_text(config, len(find_rl_tasks(config).val))


def _distinct(llms: Mapping[str, ModelConfig]) -> dict[str, ModelConfig]:
    """Return each model once, by all of its roles: two roles of one model are one question."""
    roles: dict[str, list[str]] = {}
    for role, llm in llms.items():
        roles.setdefault(llm.model_dump_json(), []).append(role)
    return {" and ".join(named): llms[named[0]] for named in roles.values()}


async def _look_at_tasks(config: RlConfig) -> RlTasks:
    refuse_unasked_data(config.env)
    tasks = find_rl_tasks(config)
    env = build_first(config.env, tasks.val[0])
    try:
        if native_tools(env):
            raise ConfigError(
                f"policy.kind {config.policy.kind!r}: {why_no_tools(config.env.name)}"
            )
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
