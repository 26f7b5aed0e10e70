"""What can be known to be wrong with a training or an evaluation before it begins."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.config.readers import mode_of
from skillwright.config.run import RunConfig
from skillwright.core import (
    ConfigError,
    SkillwrightError,
)
from skillwright.core.concurrency import together
from skillwright.core.waits import waiting
from skillwright.jobs.run.bank_source import refuse_bank
from skillwright.jobs.run.launch import read_initial_skill
from skillwright.jobs.run.money import refuse_unpriced
from skillwright.jobs.run.preflight import (
    Finding,
    Found,
    Health,
    answers,
    ask_if_ready,
    examine_machine,
    finding,
    look_at_environment,
    users_of,
)
from skillwright.jobs.run.tasks import (
    is_adapter,
    refuse_unasked_data,
)
from skillwright.jobs.run.trackers import refuse_missing_trackers
from skillwright.jobs.text.adapters.bench import check_adapter
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.wiring import refuse_hopeless_gate
from skillwright.models import (
    HttpClient,
    ModelConfig,
)
from skillwright.runs import RunFolder


async def preflight(config: RunConfig, plan: EvalPlan | None = None) -> None:
    """Check tasks, environment and endpoints; one small question goes to each endpoint.

    Args:
        config: What will be run.
        plan: What an evaluation evaluates; ``None`` for training, which has two models.

    Raises:
        UsageError: Something that the configuration names is missing or wrong.
        ModelRefused: An endpoint refuses the key or the model.
        ModelError: An endpoint does not answer.
    """
    refuse_missing_trackers(config.run.trackers)
    refuse_unpriced(config, trains=plan is None)
    found = await look_at_tasks(config, trains=plan is None)
    if plan is not None and getattr(found.sizes, plan.split) == 0:
        there = ", ".join(f"{count} {name}" for name, count in found.sizes._asdict().items())
        raise ConfigError(f"there are no {plan.split} tasks to evaluate ({there})")
    llms = [*([config.models.optimizer] if plan is None else ()), *users_of(config.env).values()]
    # Two roles of one model are one question; the target's also has its tools.
    target = config.models.target
    others = {llm.model_dump_json(): llm for llm in llms if llm != target}
    async with HttpClient() as client:
        asked = [ask_if_ready(target, client, tools=found.tools)]
        await together([*asked, *(ask_if_ready(llm, client) for llm in others.values())])


async def look_at_tasks(config: RunConfig, *, trains: bool = True) -> Found:
    """Find what a run plays, and build it once: an environment, or the adapter with its splits.

    Nothing is played, and nothing is written where the run will be.
    """
    if is_adapter(config.env):
        for path in config.rollout.reuse:
            RunFolder.look(Path(path))
        refuse_bank(config)
        with waiting(f"setting up adapter {config.env.name}"):
            found = Found(await check_adapter(config))
    else:
        found = look_at_environment(config)
    if trains and found.sizes.val is not None:
        refuse_hopeless_gate(config, found.sizes.train, found.sizes.val)
    return found


async def examine(root: Path, config: RunConfig | None = None) -> list[Finding]:
    """Look at the machine, and where a configuration is given at all that it names.

    Args:
        root: The folder that holds runs.
        config: What would be run; each endpoint in it is asked one small question.
    """
    findings = examine_machine(root)
    if config is not None:
        if config.run.parity:
            findings.append(Finding("mode", Health.OK, mode_of(config).lines[0]))
        findings += _trackers(config.run.trackers)
        files, offered = await _files(config)
        findings += files
        llms = {"target": config.models.target, "optimizer": config.models.optimizer}
        async with HttpClient() as client:
            asked = {**llms, **_users(config)}
            tools = {"target": offered}
            findings += await together(
                finding(role, answers(llm, client, tools.get(role, ())))
                for role, llm in asked.items()
            )
        findings += _seeds(llms)
    return findings


def _trackers(names: Sequence[str]) -> list[Finding]:
    """Look for the libraries of trackers; nothing to say where no tracker is named."""
    try:
        refuse_missing_trackers(names)
    except ConfigError as error:
        return [Finding("trackers", Health.BAD, str(error))]
    return [Finding("trackers", Health.OK, ", ".join(names))] if names else []


async def _files(config: RunConfig) -> tuple[list[Finding], tuple[dict[str, Any], ...]]:
    """Look at skill and tasks; also returns the tools that the agent will be offered."""
    try:
        read_initial_skill(config)
        refuse_unasked_data(config.env)
        sizes, tools = await look_at_tasks(config)
    except SkillwrightError as error:
        return [Finding("tasks and skill", Health.BAD, str(error))], ()
    # How many an adapter without a loader has, only its first rollout tells.
    counts = ("as many as it plays" if count is None else str(count) for count in sizes)
    named = (f"{count} {split}" for count, split in zip(counts, sizes._fields, strict=True))
    found = [Finding("tasks and skill", Health.OK, ", ".join(named))]
    if sizes.val:
        found.append(Finding("proof", Health.OK, config.power(sizes.train, sizes.val)))
    return found, tools


def _seeds(llms: Mapping[str, ModelConfig]) -> list[Finding]:
    """Say whose answers cannot be drawn again; the seeds of their calls are left out."""
    without = [f"{role} ({llm.backend})" for role, llm in llms.items() if not llm.takes_seeds]
    if not without:
        return []
    detail = (
        f"{' and '.join(without)} take none: they are left out, and the same question may be "
        "answered differently next time"
    )
    return [Finding("seeds", Health.NOTE, detail)]


def _users(config: RunConfig) -> dict[str, ModelConfig]:
    try:
        return users_of(config.env)
    except SkillwrightError:  # wrong settings, of which `_files` tells
        return {}
