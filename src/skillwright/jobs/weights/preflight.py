"""Checks before a run of the recipe; nothing is written yet."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from skillwright.config.rl import RlConfig
from skillwright.core import ConfigError
from skillwright.envs.drive import native_tools, open_env
from skillwright.jobs.run import opened_embedder, priced_model, refuse_unasked_data, refuse_unheld
from skillwright.jobs.run.preflight import (
    Finding,
    Health,
    ask_models,
    build_first,
    examine_models,
    finding,
)
from skillwright.jobs.run.trackers import refuse_missing_trackers
from skillwright.jobs.weights.bank import starting_bank
from skillwright.jobs.weights.demonstrations import CHATS, check_chats, episodes_of_run
from skillwright.jobs.weights.estimate import expected_lengths, retirement_text
from skillwright.jobs.weights.machine import refuse_too_large, slow_precision
from skillwright.jobs.weights.tasks import RlTasks, find_rl_tasks
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.rollout.episode import why_no_tools


async def preflight_rl(config: RlConfig) -> PolicyMaker:
    """Check budget, tasks, bank and policy, and ask each distinct model one small question.

    An embedding endpoint is not called; only its key is checked.
    """
    maker = PolicyMaker(config)
    for check in _checks(config, maker).values():
        await check()
    await ask_models(config.llms, config.env)
    return maker


async def examine_rl(config: RlConfig) -> list[Finding]:
    """Check all that `preflight_rl` checks, and report every finding, not only the first."""
    checks = _checks(config, PolicyMaker(config))
    found = [await finding(name, check()) for name, check in checks.items()]
    # All checks that need tasks fail with one message where they are missing: report it once.
    first = {one.detail: one for one in reversed(found) if one.health is Health.BAD}
    findings = [one for one in found if first.get(one.detail, one) is one]
    return [*findings, *await examine_models(config.llms, config.env)]


def _checks(config: RlConfig, maker: PolicyMaker) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return the checks by name; each returns what it found, or raises."""
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
