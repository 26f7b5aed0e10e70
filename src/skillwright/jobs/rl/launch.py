"""Begin a run of the recipe, find one again, and play it: for the command line and for scripts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from skillwright.config.load import dump_rl_config, is_rl_config, load_rl_config
from skillwright.config.rl import RlConfig
from skillwright.core import ConfigError, RunError, SkillwrightError
from skillwright.core.protocols import together
from skillwright.envs.drive import native_tools, open_env
from skillwright.jobs.launch.preflight import Finding, Health, ask_if_ready, build_first, users_of
from skillwright.jobs.launch.runs import OpenRun, find_run, make_run, reopen, secrets_of, session
from skillwright.jobs.parts.bank_source import opened_embedder
from skillwright.jobs.parts.money import priced_model, refuse_unheld
from skillwright.jobs.parts.opened import MakeModel
from skillwright.jobs.parts.resuming import refuse_all_but_budget
from skillwright.jobs.parts.tasks import refuse_unasked_data
from skillwright.jobs.rl.bank import starting_bank
from skillwright.jobs.rl.state import RlCallback, RlReport, RlState, restore, selected
from skillwright.jobs.rl.wiring import PolicyMaker, RlTasks, find_rl_tasks
from skillwright.models import HttpClient, ModelConfig, is_scripted_model, make_model
from skillwright.rollout.episode import why_no_tools
from skillwright.runs.folder import CONFIG_NAME

JOB = "rl"


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRun(OpenRun):
    """A run of the recipe that this process works on, until it is closed.

    Attributes:
        config: Its configuration.
    """

    config: RlConfig

    @property
    def state(self) -> RlState:
        """Where it stands."""
        return restore(self.config, self.store)


def refuse_without_torch() -> None:
    """Say what to install, where the libraries of the policy are not there.

    Raises:
        ConfigError: They are not.
    """
    if find_spec("torch") is None:
        raise ConfigError(
            "training a policy needs torch, which is not installed here. Run:  "
            "pip install 'skillwright[train]'"
        )


def start_rl(config: RlConfig) -> RlRun:
    """Make a run's folder and write down what it is for. Check the configuration before.

    Returns:
        The run. It has the configuration's name, with a number behind it where that is taken.

    Raises:
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
    """
    root, text, secrets = Path(config.run.root), dump_rl_config(config), _secrets(config)
    named = config.run.name
    folder, store = make_run(root, named, text, secrets, lambda path, store: {"job": JOB})
    return RlRun(config=config, folder=folder, store=store)


def is_rl_run(run: str | Path, root: str | Path = "runs") -> bool:
    """Tell whether a run is one of the recipe; ``False`` also where there is no such run."""
    try:
        # Not its store, which may be damaged: `open_rl` says so.
        return is_rl_config(find_run(run, root) / CONFIG_NAME)
    except (ConfigError, RunError):
        return False


def open_rl(run: str | Path, root: str | Path = "runs", overrides: Sequence[str] = ()) -> RlRun:
    """Open a run to resume it.

    Args:
        run: Its folder, or its name below ``root``.
        root: The folder that holds runs.
        overrides: ``budget.minutes=60`` and its like; nothing else of a run can change.

    Raises:
        RunError: There is no such run, another process works on it, or its store is damaged.
        ConfigError: Its configuration cannot be read, or was edited.
    """
    path = find_run(run, root)
    refuse_all_but_budget(overrides)
    config = load_rl_config(path / CONFIG_NAME, overrides)
    folder, store, _ = reopen(path, _secrets(config))
    return RlRun(config=config, folder=folder, store=store)


async def run_rl(
    run: RlRun,
    callback: RlCallback,
    make: MakeModel = make_model,
    maker: "PolicyMaker | None" = None,
) -> RlReport:
    """Run the recipe from the beginning, or from where the run was left.

    A finished run returns its report; nobody is asked, and nothing is loaded.

    Args:
        run: From `start_rl` or `open_rl`.
        callback: Is called with every event.
        make: Makes the models; a notebook or a test may hand in its own.
        maker: Builds the policy; the configuration's, by default.

    Raises:
        SkillwrightError: As `skillwright.jobs.rl.recipe.rl`.
    """
    state = run.state
    if state.finished:
        return RlReport(state, selected(run.config, state))
    refuse_without_torch()
    from skillwright.jobs.rl.recipe import rl
    from skillwright.jobs.rl.wiring import workshop

    with session(run.store):
        async with workshop(run.config, run.store, callback, make, maker) as parts:
            return await rl(parts, run.folder)


def rl_has_scripted_models(config: RlConfig) -> bool:
    """Tell whether a scripted model takes part; whoever shows the run's results must say so."""
    return any(is_scripted_model(llm) for llm in config.llms.values())


def _secrets(config: RlConfig) -> list[str]:
    return secrets_of(config.env, list(config.llms.values()))


# What can be known to be wrong with a run of the recipe, found before anything is written.


async def preflight_rl(config: RlConfig) -> PolicyMaker:
    """Check budget, tasks, bank and policy, and ask each distinct model one small question.

    An endpoint that embeds is asked nothing; its key has to be there.
    """
    maker = PolicyMaker(config)
    for look in _looks(config, maker).values():
        await look()
    llms = {**config.llms, **users_of(config.env)}
    async with HttpClient() as client:
        await together(_llm(llm, client) for llm in _distinct(llms).values())
    return maker


async def examine_rl(config: RlConfig) -> list[Finding]:
    """Look at all that `preflight_rl` looks at, also behind the first thing that is wrong."""
    looks = _looks(config, PolicyMaker(config))
    findings = [await _found(name, look()) for name, look in looks.items()]
    llms = dict(config.llms)
    try:
        llms |= users_of(config.env)
    except SkillwrightError as error:
        findings.append(Finding("simulated user", Health.BAD, str(error)))
    async with HttpClient() as client:
        asked = (_found(roles, _llm(llm, client)) for roles, llm in _distinct(llms).items())
        return [*findings, *await together(asked)]


def _looks(config: RlConfig, maker: PolicyMaker) -> dict[str, Callable[[], Awaitable[str]]]:
    """Return what is looked at before anybody is asked; each look says what it found, or raises."""
    return {
        "budget": partial(_money, config),
        "tasks": partial(_tasks, config),
        "bank": partial(_bank, config),
        "policy": partial(_policy, config, maker),
    }


async def _found(name: str, look: Awaitable[str]) -> Finding:
    try:
        return Finding(name, Health.OK, await look)
    except SkillwrightError as error:
        return Finding(name, Health.BAD, str(error))


async def _money(config: RlConfig) -> str:
    llms = [priced_model(role, llm) for role, llm in config.llms.items()]
    # Only skills are embedded; raw trajectories, and no skills at all, need no embedder.
    refuse_unheld(
        config.budget, llms, config.bank.embedder if config.bank.inject == "skills" else ""
    )
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


async def _policy(config: RlConfig, maker: PolicyMaker) -> str:
    maker.check()
    return config.policy.label


async def _llm(llm: ModelConfig, client: HttpClient) -> str:
    return f"{llm.backend}: {await ask_if_ready(llm, client)} answers"


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
