"""Checks before a training or an evaluation of a skill document."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.config import RunConfig, mode_of
from skillwright.core import ConfigError, SkillwrightError
from skillwright.core.waits import waiting
from skillwright.jobs.run import read_initial_skill, refuse_unpriced
from skillwright.jobs.run.bank_source import refuse_bank
from skillwright.jobs.run.preflight import (
    Finding,
    Found,
    Health,
    ask_models,
    examine_machine,
    examine_models,
    look_at_environment,
)
from skillwright.jobs.run.tasks import is_adapter, refuse_unasked_data
from skillwright.jobs.run.trackers import refuse_missing_trackers
from skillwright.jobs.text.adapters.bench import check_adapter
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.wiring import refuse_hopeless_gate
from skillwright.models import ModelConfig
from skillwright.runs import RunFolder


async def preflight(config: RunConfig, plan: EvalPlan | None = None) -> None:
    """Check trackers, budget, tasks, environment and models; each model is asked one question.

    Args:
        config: The run's configuration.
        plan: The plan of an evaluation; ``None`` for training, which also asks the optimizer.

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
    optimizer = {"optimizer": config.models.optimizer} if plan is None else {}
    await ask_models({"target": config.models.target, **optimizer}, config.env, found.tools)


async def look_at_tasks(config: RunConfig, *, trains: bool = True) -> Found:
    """Build the environment, or the adapter, once, and count the tasks; no episode is played."""
    refuse_unasked_data(config.env)
    if is_adapter(config.env):
        for path in config.rollout.reuse:
            RunFolder.look(Path(path))
        refuse_bank(config)
        with waiting(f"setting up adapter {config.env.name}"):
            found = Found(await check_adapter(config))
    else:
        found = look_at_environment(config)
    if trains and found.sizes.val is not None:
        refuse_hopeless_gate(config, found.sizes.train, found.sizes.val, found.clusters)
    return found


async def examine(root: Path, config: RunConfig | None = None) -> list[Finding]:
    """Check the machine and, if given, all that a configuration names; report every finding.

    Args:
        root: The folder that holds runs.
        config: The configuration; each of its models is asked one small question.
    """
    findings = examine_machine(root)
    if config is None:
        return findings
    if config.run.parity:
        findings.append(Finding("mode", Health.OK, mode_of(config).lines[0]))
    findings += _trackers(config.run.trackers)
    files, tools = await _files(config)
    llms = {"target": config.models.target, "optimizer": config.models.optimizer}
    asked = await examine_models(llms, config.env, tools)
    return [*findings, *files, *asked, *_seeds(llms)]


def _trackers(names: Sequence[str]) -> list[Finding]:
    """Check that the libraries of the named trackers are installed."""
    try:
        refuse_missing_trackers(names)
    except ConfigError as error:
        return [Finding("trackers", Health.BAD, str(error))]
    return [Finding("trackers", Health.OK, ", ".join(names))] if names else []


async def _files(config: RunConfig) -> tuple[list[Finding], tuple[dict[str, Any], ...]]:
    """Check skill and tasks; also return the native tools of the agent."""
    try:
        read_initial_skill(config)
        sizes, tools, clusters = await look_at_tasks(config)
    except SkillwrightError as error:
        return [Finding("tasks and skill", Health.BAD, str(error))], ()
    # The size of an adapter without a loader is known after its first rollout.
    counts = ("as many as it plays" if count is None else str(count) for count in sizes)
    named = (f"{count} {split}" for count, split in zip(counts, sizes._fields, strict=True))
    found = [Finding("tasks and skill", Health.OK, ", ".join(named))]
    if sizes.val:
        proof = config.power(sizes.train, sizes.val, clusters)
        found.append(Finding("proof", Health.OK, proof))
    return found, tools


def _seeds(llms: Mapping[str, ModelConfig]) -> list[Finding]:
    """Report the models that take no seeds, whose answers cannot be reproduced."""
    without = [f"{role} ({llm.backend})" for role, llm in llms.items() if not llm.takes_seeds]
    if not without:
        return []
    detail = (
        f"{' and '.join(without)} take none: they are left out, and the same question may be "
        "answered differently next time"
    )
    return [Finding("seeds", Health.NOTE, detail)]
