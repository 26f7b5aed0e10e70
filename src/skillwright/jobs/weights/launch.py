"""Begin, open and run the recipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from skillwright.config import RlConfig, dump_rl_config, is_rl_config, load_rl_config
from skillwright.core import ConfigError, RunError
from skillwright.core.waits import waiting
from skillwright.jobs.kinds import RL
from skillwright.jobs.run import MakeModel, refuse_all_but_budget
from skillwright.jobs.run.launch import (
    MakeReport,
    OpenRun,
    find_run,
    make_run,
    refuse_unreadable,
    reopen,
    secrets_of,
)
from skillwright.jobs.run.tracking import tracked_session
from skillwright.jobs.weights.state import RlCallback, RlReport, RlState, restore, selected
from skillwright.jobs.weights.tracker_numbers import RlMeasures, past_events
from skillwright.models import make_model
from skillwright.runs.folder import CONFIG_NAME

if TYPE_CHECKING:
    from skillwright.jobs.weights.wiring import PolicyMaker


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRun(OpenRun):
    """A run of the recipe that this process works on, until it is closed."""

    config: RlConfig

    @property
    def state(self) -> RlState:
        """The state, rebuilt from the store."""
        return restore(self.config, self.store)


async def run_rl(
    run: RlRun,
    callback: RlCallback,
    make: MakeModel = make_model,
    maker: "PolicyMaker | None" = None,
    make_report: MakeReport | None = None,
) -> RlReport:
    """Run the recipe from the beginning, or from where the run was left.

    A finished run returns its report without requests or loading.

    Args:
        run: From `start_rl` or `open_rl`.
        callback: Is called with every event.
        make: Makes the models; a notebook or a test may hand in its own.
        maker: Builds the policy; the configuration's, by default.
        make_report: Writes the run's report, for its trackers.

    Raises:
        SkillwrightError: As `skillwright.jobs.weights.recipe.rl`.
    """
    state = run.state
    if state.finished:
        return RlReport(state, selected(run.config, state))
    refuse_without_torch()
    from skillwright.jobs.weights.recipe import rl
    from skillwright.jobs.weights.wiring import rl_parts

    follow = tracked_session(
        run.config.run.trackers,
        run.store,
        lambda named: RlMeasures(named, run.store),
        callback,
        secrets=lambda: _secrets(run.config),
        past=lambda: past_events(run.config, run.store),
        make_report=make_report,
    )
    async with follow as seen, rl_parts(run.config, run.store, seen, make, maker) as parts:
        return await rl(parts, run.folder)


def refuse_without_torch() -> None:
    """Refuse to train a policy without torch, and name the command that installs it."""
    if find_spec("torch") is None:
        raise ConfigError(
            "training a policy needs torch, which is not installed here. Run:  "
            "pip install 'skillwright[train]'"
        )


async def begin_rl(config: RlConfig) -> tuple[RlRun, "PolicyMaker"]:
    """Check what a configuration names, and start a run; also return what builds its policy.

    Raises:
        UsageError: Torch is not installed, or something in the configuration is missing or wrong.
        ModelError: A model does not answer, or refuses the key.
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
    """
    refuse_without_torch()
    with waiting("loading torch", "tasks, bank and policy are looked at"):
        # Imported here, because it imports torch.
        from skillwright.jobs.weights.preflight import preflight_rl

    maker = await preflight_rl(config)
    return start_rl(config), maker


def start_rl(config: RlConfig) -> RlRun:
    """Make the folder of a new run, and record its job. Check the configuration before.

    A number is added to the run's name if that is taken.

    Raises:
        RunError: The folder cannot be made, or the disk is full; nothing is left of it.
    """
    root, text, secrets = Path(config.run.root), dump_rl_config(config), _secrets(config)
    named = config.run.name
    facts = {"job": RL, "scripted": rl_has_scripted_models(config)}
    folder, store = make_run(root, named, text, secrets, lambda path, store: facts)
    return RlRun(config=config, folder=folder, store=store)


def supervised(config: RlConfig) -> RlConfig:
    """Return a configuration that stops after the cold start, and tests it against the beginning.

    Raises:
        ConfigError: There is no cold start.
    """
    if config.cold_start is None:
        raise ConfigError(
            "cold_start is null, so there is nothing to learn from; give it at least {}"
        )
    return config.model_copy(
        update={
            "grpo": config.grpo.model_copy(update={"iterations": 0}),
            "evolve": None,
            "internalize": None,
            "evaluation": config.evaluation.model_copy(update={"baseline": "start"}),
        }
    )


def coevolving(config: RlConfig) -> RlConfig:
    """Return a configuration in which bank and weights change in turns, each judged by the gate.

    If ``grpo.gate_every`` is unset, a policy step is as long as the bank's (``evolve.every``).

    Raises:
        ConfigError: The bank never changes.
    """
    if config.evolve is None or not config.evolutions:
        why = "evolve is null" if config.evolve is None else "evolve.every is above iterations"
        raise ConfigError(
            f"coevolve changes bank and weights in turns, and {why}, so the bank never changes; "
            "let it evolve, or use `skillwright rl`"
        )
    if config.grpo.gate_every is not None:
        return config
    grpo = config.grpo.model_copy(update={"gate_every": config.evolve.every})
    return config.model_copy(update={"grpo": grpo})


def is_rl_run(run: str | Path, root: str | Path = "runs") -> bool:
    """Tell whether there is such a run of the recipe."""
    try:
        # The store may be damaged, which `open_rl` reports.
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
    refuse_unreadable(path)
    config = load_rl_config(path / CONFIG_NAME, overrides)
    folder, store = reopen(path, _secrets(config))
    return RlRun(config=config, folder=folder, store=store)


def rl_has_scripted_models(config: RlConfig) -> bool:
    """Tell whether a scripted model takes part; callers that show the results must say so."""
    return any(llm.is_scripted for llm in config.llms.values())


def _secrets(config: RlConfig) -> list[str]:
    return secrets_of(config.env, list(config.llms.values()))
