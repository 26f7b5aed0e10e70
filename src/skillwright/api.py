"""Skillwright from Python: what ``import skillwright as sw`` offers.

    run = sw.train("train.yaml")
    print(run)
    rows = run.episodes()

Each function exists twice: `train` blocks (also in a notebook, where an event loop runs), `atrain`
is awaited. Runs are the same as those of the command line, which can resume, view and report them.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from skillwright.config import (
    RlConfig,
    RunConfig,
    as_overrides,
    dump_config,
    is_rl_config,
    load_config,
    load_rl_config,
)
from skillwright.config.load import config_of
from skillwright.core import ConfigError, RunError, SkillwrightError
from skillwright.core.found_code import keep_code
from skillwright.core.skill_file import read_skill_file
from skillwright.datasets.kept_rows import write_rows
from skillwright.evaluation import PairedEffect, Score, SplitReport, gain_text
from skillwright.jobs.inspect import (
    EpisodeQuery,
    EpisodeView,
    RunSummary,
    list_episodes,
    list_versions,
    read_episode,
    read_folder,
    read_run,
)
from skillwright.jobs.run import (
    Caveat,
    PricedModel,
    find_run,
    priced_model,
    priced_models,
    read_initial_skill,
)
from skillwright.jobs.text import (
    EvalPlan,
    begin_run,
    open_run,
    read_check,
    run_check,
    run_evaluation,
    run_training,
)
from skillwright.jobs.text import Run as OpenedRun
from skillwright.jobs.weights import (
    RlCallback,
    RlEvent,
    RlRun,
    begin_rl,
    is_rl_run,
    open_rl,
    run_rl,
)
from skillwright.rollout.loop_thread import LoopThread
from skillwright.runs import RunFolder, RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME

if TYPE_CHECKING:
    from skillwright.jobs.weights.wiring import PolicyMaker

__all__ = [
    "Run",
    "aevaluate",
    "aoptimize",
    "aresume",
    "atrain",
    "evaluate",
    "load",
    "open",
    "optimize",
    "resume",
    "train",
]

T = TypeVar("T")
Config = str | Path | Mapping[str, Any] | RunConfig | RlConfig
"""A YAML file, its contents as a mapping, or the result of `load`."""
Rows = Sequence[Mapping[str, Any]]
"""Rows of a table: column -> JSON value."""
Metric = Callable[[dict[str, Any], str], float | tuple[float, str]]
"""Scores a reply: ``metric(row, reply)`` returns a number from 0 to 1, or that and feedback."""
Model = str | Mapping[str, Any] | Callable[[list[dict[str, Any]]], str]
"""``backend:model``, a mapping of settings, or a function that takes messages."""
_TASKS = ".tasks"  # next to the runs: rows by their digest
_TESTED = {"train": "best", "rl": "final"}


class Run:
    """A run on disk: its scores, skill and episodes, read anew each time, also while it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    @property
    def summary(self) -> RunSummary:
        """All that ``skillwright runs show`` prints."""
        return read_run(self.path)

    @property
    def skill(self) -> str:
        """The released skill: proven better, or else the initial one.

        Raises:
            RunError: The run trains weights or evaluates, so it has no skill document.
        """
        file = RunFolder.look(self.path).best_skill_path
        if not file.is_file():
            raise RunError(f"run {self.name!r} has no best_skill.md: it trains no skill document")
        return file.read_text(encoding="utf-8")

    def versions(self) -> list[dict[str, Any]]:
        """Return one row per version of the skill, with outcome, gain, score and text."""
        return [one.to_dict() for one in list_versions(self.path)]

    @property
    def test(self) -> SplitReport | None:
        """Scores on the sealed test; ``None`` before the end and for evaluations."""
        return _test_of(self._result())

    @property
    def score(self) -> Score | None:
        """Test score of the released skill or weights, or score of the evaluated skill.

        ``None`` before the end. ``success_rate`` is ``None`` where no episode has a score.
        """
        summary = self._result()
        if summary.evaluation is not None:
            return summary.evaluation.table.overall
        test = _test_of(summary)
        return test.tables[_TESTED[summary.job]].overall if test else None

    @property
    def gain(self) -> PairedEffect | None:
        """Gain of the released over the initial side on test, with a 95% interval."""
        return _gain_of(self._result())

    def episodes(
        self,
        *,
        unsolved: bool = False,
        faults: bool = False,
        phase: str | None = None,
        split: str | None = None,
        task_type: str | None = None,
        text: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return one row per matching episode, as for ``pandas.DataFrame(rows)``.

        Args:
            unsolved: Only episodes with a reward below success.
            faults: Only episodes that a fault ended, which have no reward.
            phase: ``train``, ``gate``, ``release``, ``test``, ...
            split: Split of the task.
            task_type: Type of the task.
            text: Text in the task or in a turn.

        Raises:
            RunError: No episode has this phase, split or task type.
        """
        query = EpisodeQuery(
            faults=faults,
            unsolved=unsolved,
            phase=phase,
            split=split,
            task_type=task_type,
            grep=text,
        )
        found = list_episodes(self.path, query=query, replies=None)
        return [one.to_dict() for one in reversed(found.episodes)]

    def episode(self, name: str) -> EpisodeView:
        """Read one episode turn by turn.

        Args:
            name: ``episode`` of its row, such as ``e12``; a `RunError` if there is none.
        """
        return read_episode(self.path, name)

    def _result(self) -> RunSummary:
        """Read the summary without reading every turn, unlike `summary`."""
        return read_folder(RunFolder.look(self.path))

    def __repr__(self) -> str:
        """Return name, result, gain and failures."""
        summary = self._result()
        lines = [f"<Run {self.name!r}: {summary.job}, {summary.result}>"]
        gain = _gain_of(summary)
        if gain is not None and gain.gain is not None:
            lines.append(f"gain on test {gain_text(gain.gain, gain.interval)}")
        if summary.failures:
            lines.append(f"{summary.failures} of {summary.episodes} episodes are faults: no score")
        return "\n".join(lines)


def _test_of(summary: RunSummary) -> SplitReport | None:
    if summary.rl is not None:
        return summary.rl.test
    return summary.state.report if summary.state else None


def _gain_of(summary: RunSummary) -> PairedEffect | None:
    test = _test_of(summary)
    return test.gains.get(_TESTED[summary.job]) if test else None


def load(config: Config, settings: Mapping[str, Any] | None = None) -> RunConfig | RlConfig:
    """Read and check a configuration.

    Args:
        config: A YAML file, or its contents as a mapping.
        settings: Overrides by dotted path: ``{"train.epochs": 1}``.

    Raises:
        ConfigError: It is missing or invalid; one line per problem, with the nearest right name.
    """
    named = as_overrides(settings)
    overrides = list(named.values())
    try:
        match config:
            case str() | Path():
                return (load_rl_config if is_rl_config(config) else load_config)(config, overrides)
            case RunConfig() | RlConfig():
                return config_of(config.model_dump(mode="json"), overrides)
            case _:
                return config_of(config, overrides)
    except ConfigError as error:
        said = str(error)
        for path, override in named.items():
            said = said.replace(f"--set {override!r}", f"settings[{json.dumps(path)}]")
        raise ConfigError(said) from error


async def aoptimize(  # noqa: PLR0913 - most have a default
    skill: str | Path,
    tasks: Rows | Mapping[str, Rows],
    metric: Metric,
    *,
    target: Model,
    optimizer: Model,
    prompt: str = "{{ prompt }}",
    task_type: str | None = None,
    name: str = "optimize",
    settings: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Run:
    """Run `optimize` without blocking."""
    as_overrides(settings)  # refuses what is no mapping
    root = Path(str((settings or {}).get("run.root", "runs")))
    scorer = {"kind": "function", "function": keep_code(metric)}
    shown = {"task_type": task_type} if task_type else {}
    values = {
        "run": {"name": name},
        "skill": {"init": str(skill) if isinstance(skill, Path) else ""},
        "models": {"target": _model(target), "optimizer": _model(optimizer)},
        "env": {
            "name": "table",
            "config": {"prompt": prompt, "scorer": scorer, **shown},
            "data": {"path": write_rows(tasks, root / _TASKS)},
        },
    }
    config = load(values, settings)
    if isinstance(config, RlConfig):
        raise ConfigError("optimize() trains a skill, and these settings train weights")
    text = read_initial_skill(config) if isinstance(skill, Path) else skill
    if (left := _left(config, text)) is not None:
        return await aresume(left, progress=progress)
    return await _play_text(await begin_run(config, text), progress)


def optimize(  # noqa: PLR0913 - most have a default
    skill: str | Path,
    tasks: Rows | Mapping[str, Rows],
    metric: Metric,
    *,
    target: Model,
    optimizer: Model,
    prompt: str = "{{ prompt }}",
    task_type: str | None = None,
    name: str = "optimize",
    settings: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Run:
    """Train a skill on rows of a table with a function that scores replies.

        def metric(row, reply):
            return float(reply == row["queue"]), f"the right queue is {row['queue']}"

        run = sw.optimize("", rows, metric, target="openai_chat:gpt-5-mini",
                          optimizer="openai_chat:gpt-5.5", prompt="{{ text }}")

    A call with equal arguments resumes an interrupted run; after a finished one it starts another.

    Args:
        skill: Initial text, or a `Path` to it or to a folder with a SKILL.md; may be empty.
        tasks: Rows, which are split into train, val and test, or rows by split.
        metric: Takes a row and a reply; returns a score from 0 to 1, or a score and feedback for
            the optimizer. An exception is recorded as a failure without a score.
        target: Model of the agent: ``backend:model``, its settings as a mapping, or a function
            from messages to text.
        optimizer: Model that reads trajectories and proposes edits, in the same forms.
        prompt: Jinja template over the columns of a row.
        task_type: Column that results are grouped by.
        name: Name of the run.
        settings: Further settings by dotted path, such as ``{"train.epochs": 2}``.
        progress: Show progress.

    Returns:
        The finished run, with the skill in `Run.skill`.

    Raises:
        ConfigError: A setting is invalid, or val has too few rows to prove any gain.
        DataError: Rows lack a column of the prompt, or are no JSON.
        ModelError: An endpoint refuses or fails; the same call resumes.
    """
    return _wait(
        aoptimize(
            skill,
            tasks,
            metric,
            target=target,
            optimizer=optimizer,
            prompt=prompt,
            task_type=task_type,
            name=name,
            settings=settings,
            progress=progress,
        )
    )


def open(run: str | Path, root: str | Path = "runs") -> Run:
    """Find a run by its name, its folder, or ``latest``.

    Raises:
        RunError: No run matches; the message has the nearest name.
    """
    return Run(find_run(run, root))


async def atrain(
    config: Config, settings: Mapping[str, Any] | None = None, *, progress: bool = True
) -> Run:
    """Run `train` without blocking."""
    loaded = load(config, settings)
    if isinstance(loaded, RlConfig):
        return await _play_weights(*await begin_rl(loaded), progress)
    return await _play_text(await begin_run(loaded), progress)


def train(
    config: Config, settings: Mapping[str, Any] | None = None, *, progress: bool = True
) -> Run:
    """Train a skill document, or a policy's weights, from a configuration.

    Args:
        config: A YAML file, its contents as a mapping, or the result of `load`.
        settings: Overrides by dotted path.
        progress: Show progress on a terminal or in a notebook.

    Raises:
        UsageError: The configuration is invalid, or tasks or the environment are not found.
        ModelError: An endpoint refuses or fails; the run can be resumed.
    """
    return _wait(atrain(config, settings, progress=progress))


async def aevaluate(
    config: Config,
    skill: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    split: Literal["train", "val", "test"] = "test",
    trials: int = 1,
    progress: bool = True,
) -> Run:
    """Run `evaluate` without blocking."""
    loaded = load(config, settings)
    if isinstance(loaded, RlConfig):
        raise ConfigError("evaluate() measures a skill; this configuration trains weights")
    text = read_skill_file(skill).text() if isinstance(skill, Path) else skill
    plan = EvalPlan(split, trials)
    with await begin_run(loaded, text, plan) as run:
        with _shown(progress, priced_models(loaded, trains=False)) as callback:
            await run_evaluation(run, plan, callback, make_report=_report)
        return Run(run.folder.path)


def evaluate(
    config: Config,
    skill: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    split: Literal["train", "val", "test"] = "test",
    trials: int = 1,
    progress: bool = True,
) -> Run:
    """Measure a skill: ``evaluate("train.yaml", run.skill).score``.

    Args:
        config: As for `train`.
        skill: Text, or a `Path` to it; the configuration's initial skill by default.
        settings: Overrides by dotted path.
        split: Split to evaluate on.
        trials: Attempts per task, at least 1.
        progress: Show progress.

    Returns:
        The finished run, with the score and its interval in `Run.score`.

    Raises:
        SkillwrightError: As `train`; the skill's file may be missing, too.
    """
    return _wait(aevaluate(config, skill, settings, split=split, trials=trials, progress=progress))


async def aresume(
    run: str | Path | Run, root: str | Path = "runs", *, progress: bool = True
) -> Run:
    """Run `resume` without blocking."""
    path = run.path if isinstance(run, Run) else find_run(run, root)
    if is_rl_run(path):
        return await _play_weights(open_rl(path), None, progress)
    opened = open_run(path)
    is_check = read_check(opened.store) is not None
    if opened.plan is None and not is_check:
        return await _play_text(opened, progress)
    with opened, _shown(progress, priced_models(opened.config, trains=False)) as callback:
        if is_check:
            await run_check(opened, callback)
        if opened.plan is not None:
            await run_evaluation(opened, opened.plan, callback, make_report=_report)
    return Run(path)


def resume(run: str | Path | Run, root: str | Path = "runs", *, progress: bool = True) -> Run:
    """Resume a stopped run, with the same decisions as without the stop.

    Args:
        run: A run, its name, its folder, or ``latest``.
        root: Folder that holds runs.
        progress: Show progress.

    Raises:
        RunError: There is no such run, another process works on it, or its store is damaged.
    """
    return _wait(aresume(run, root, progress=progress))


async def _play_text(run: OpenedRun, progress: bool) -> Run:
    with run, _shown(progress, priced_models(run.config)) as callback:
        report = await run_training(run, callback, make_report=_report)
        if report.state.refuted:
            callback.on_event(Caveat(report.state.refuted))
    return Run(run.folder.path)


async def _play_weights(run: RlRun, maker: "PolicyMaker | None", progress: bool) -> Run:
    llms = [priced_model(role, llm) for role, llm in run.config.llms.items()]
    with run, _shown(progress, llms, weights=True) as callback:
        await run_rl(run, callback, maker=maker, make_report=_report)
    return Run(run.folder.path)


class _Silent:
    def on_event(self, event: RlEvent) -> None:
        """Ignore the event."""


def _report(folder: Path) -> str:
    from skillwright.cli.live import make_report  # only needed by trackers

    return make_report(folder)


@contextmanager
def _shown(
    progress: bool, llms: Sequence[PricedModel], *, weights: bool = False
) -> Iterator[RlCallback]:
    if not progress:
        yield _Silent()
        return
    from skillwright.cli.live import display
    from skillwright.cli.rl_tables import RlTally
    from skillwright.cli.words import make_console

    kind = {"kind": RlTally} if weights else {}
    with display(make_console(), llms, **kind) as callback:
        yield callback


def _model(model: Model) -> dict[str, Any]:
    match model:
        case str():
            backend, colon, name = model.partition(":")
            if not (colon and name):
                raise ConfigError(
                    f"{model!r} names no backend; write backend:model, such as openai_chat:{model}"
                )
            return {"backend": backend, "model": name}
        case Mapping():
            return dict(model)
        case _:
            return {"backend": "python", "model": keep_code(model)}


def _left(config: RunConfig, skill: str) -> Path | None:
    """Find an unfinished run with equal settings and initial skill."""
    root, name = Path(config.run.root), config.run.name
    for path in (root / name, *sorted(root.glob(f"{name}-*"))):
        with suppress(SkillwrightError):
            if dump_config(load_config(path / CONFIG_NAME)) != dump_config(config):
                continue
            with RunStore.open(path / STORE_NAME, read_only=True) as store:
                initial = store.skill(0)
            if initial == skill and not read_run(path).is_finished:
                return path
    return None


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also inside a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with closing(LoopThread()) as loop:
        return loop.run(work)
