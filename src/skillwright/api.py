"""Skillwright from Python: what ``import skillwright as sw`` offers.

    run = sw.train("train.yaml")
    print(run)
    rows = run.episodes()

Each verb exists twice: `train` blocks, also in a notebook, where an event loop is running already;
`atrain` is awaited. A run is made as the command of the same name makes it and lies in the same
folder, so either can resume, view and report it.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from skillwright.config import (
    RlConfig,
    RunConfig,
    dump_config,
    is_rl_config,
    load_config,
    load_rl_config,
)
from skillwright.config.load import config_of
from skillwright.core import ConfigError, DataError, RunError, SkillwrightError
from skillwright.core.found_code import keep_code
from skillwright.core.jsonio import dumps, read_text, text_digest, write_text
from skillwright.evaluation import PairedEffect, Score, SplitReport
from skillwright.jobs.inspect import (
    EpisodeQuery,
    EpisodeView,
    RunSummary,
    list_episodes,
    read_episode,
    read_folder,
    read_run,
)
from skillwright.jobs.run import (
    PricedModel,
    find_run,
    priced_model,
    priced_models,
    read_initial_skill,
    refuse_unasked_data,
)
from skillwright.jobs.text import (
    EvalPlan,
    open_run,
    preflight,
    run_evaluation,
    run_training,
    start_run,
)
from skillwright.jobs.text import Run as OpenedRun
from skillwright.jobs.weights import (
    RlCallback,
    RlEvent,
    RlRun,
    is_rl_run,
    open_rl,
    refuse_without_torch,
    run_rl,
    start_rl,
)
from skillwright.rollout.loop_thread import LoopThread
from skillwright.runs import RunFolder, RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME

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
"""A YAML file, what such a file says as a mapping, or what `load` returned."""
Rows = Sequence[Mapping[str, Any]]
"""Rows of a table: column -> value, of what JSON can hold."""
Metric = Callable[[dict[str, Any], str], float | tuple[float, str]]
"""Scores a reply: ``metric(row, reply)`` returns a number from 0 to 1, or that and feedback."""
Model = str | Mapping[str, Any] | Callable[[list[dict[str, Any]]], str]
"""``backend:model``, a mapping of settings, or a function that takes messages."""
_TASKS = ".tasks"  # next to the runs: rows by their digest
_TESTED = {"train": "best", "rl": "final"}


class Run:
    """A run on disk: what it came to, its skill, and its episodes.

    Each question reads the store, so the run may still be running.

    Attributes:
        path: Its folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.name

    @property
    def summary(self) -> RunSummary:
        """Everything that ``skillwright runs show`` knows."""
        return read_run(self.path)

    @property
    def skill(self) -> str:
        """The skill to use: what was proven better, or the one that the run began with.

        Raises:
            RunError: The run trains weights, or evaluates, and so makes no skill document.
        """
        file = RunFolder.look(self.path).best_skill_path
        if not file.is_file():
            raise RunError(f"run {self.name!r} has no best_skill.md: it trains no skill document")
        return file.read_text(encoding="utf-8")

    @property
    def test(self) -> SplitReport | None:
        """The scores on the sealed test side by side; ``None`` before, and for an evaluation."""
        return _test_of(self._standing())

    @property
    def score(self) -> Score | None:
        """How well the released skill or weights did on test, or the evaluated skill on its split.

        ``None`` before the end. Its ``success_rate`` is ``None`` where no episode has a score.
        """
        summary = self._standing()
        if summary.evaluation is not None:
            return summary.evaluation.table.overall
        test = _test_of(summary)
        return test.tables[_TESTED[summary.job]].overall if test else None

    @property
    def gain(self) -> PairedEffect | None:
        """What that gains in mean reward over what the run began with, with a 95% interval."""
        return _gain_of(self._standing())

    def episodes(
        self,
        *,
        failed: bool = False,
        lost: bool = False,
        phase: str | None = None,
        split: str | None = None,
        task_type: str | None = None,
        text: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return one row per episode, for ``pandas.DataFrame(rows)`` or ``polars.DataFrame(rows)``.

        Args:
            failed: Only those that a fault ended, which have no reward.
            lost: Only those with a reward that does not count as solved.
            phase: Only those of this phase: ``train``, ``gate``, ``release``, ``test``, ...
            split: Only those on tasks of this split.
            task_type: Only those of this task type.
            text: Only those with this text in the task or in a turn.

        Raises:
            RunError: No episode has such a phase, split or task type.
        """
        query = EpisodeQuery(
            failed=failed, lost=lost, phase=phase, split=split, task_type=task_type, grep=text
        )
        found = list_episodes(self.path, query=query)
        return [one.to_dict() for one in reversed(found.episodes)]

    def episode(self, name: str) -> EpisodeView:
        """Read one episode turn by turn.

        Args:
            name: ``episode`` of its row, such as ``e12``.

        Raises:
            RunError: There is no such episode.
        """
        return read_episode(self.path, name)

    def _standing(self) -> RunSummary:
        """Return where it stands, without the look at every turn that `summary` takes."""
        return read_folder(RunFolder.look(self.path))

    def __repr__(self) -> str:
        """Name the run and say what it came to."""
        summary = self._standing()
        lines = [f"<Run {self.name!r}: {summary.job}, {summary.result}>"]
        gain = _gain_of(summary)
        if gain is not None and gain.gain is not None and gain.interval is not None:
            low, high = gain.interval
            lines.append(f"gain on test {gain.gain:+.3f} (95% interval {low:+.3f} to {high:+.3f})")
        if summary.failures:
            lines.append(f"{summary.failures} of {summary.episodes} episodes failed: no score")
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
        config: A YAML file, or what one says as a mapping.
        settings: What is laid over it, by dotted path: ``{"train.epochs": 1}``.

    Raises:
        ConfigError: It is missing or malformed, or something in it is unknown or wrong; one line
            per problem, each with the nearest right name.
    """
    overrides = [
        f"{path}={json.dumps(value, default=str)}" for path, value in (settings or {}).items()
    ]
    match config:
        case str() | Path():
            is_recipe = is_rl_config(config)
            return (load_rl_config if is_recipe else load_config)(config, overrides)
        case RunConfig() | RlConfig():
            return config_of(config.model_dump(mode="json"), overrides)
        case _:
            return config_of(config, overrides)


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
    """Optimize, and await the finished run; see `optimize`."""
    settings = settings or {}
    root = Path(str(settings.get("run.root", "runs")))
    scorer = {"kind": "function", "function": keep_code(metric)}
    shown = {"task_type": task_type} if task_type else {}
    values = {
        "run": {"name": name},
        "models": {"target": _model(target), "optimizer": _model(optimizer)},
        "env": {
            "name": "table",
            "config": {"prompt": prompt, "scorer": scorer, **shown},
            "data": {"path": _write_rows(tasks, root / _TASKS)},
        },
    }
    config = load(values, settings)
    if isinstance(config, RlConfig):
        raise ConfigError("optimize() trains a skill, and these settings train weights")
    text = _text_of(skill)
    if (left := _left(config, text)) is not None:
        return await aresume(left, progress=progress)
    return await _train_text(config, text, progress)


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
    """Train a skill on rows, by a function that scores a reply.

        def metric(row, reply):
            return float(reply == row["queue"]), f"the right queue is {row['queue']}"

        run = sw.optimize("", rows, metric, target="openai_chat:gpt-5-mini",
                          optimizer="openai_chat:gpt-5.5", prompt="{{ text }}")

    A call that was interrupted continues when it is made again with the same arguments;
    after its end it makes another run.

    Args:
        skill: The text to begin with, or a `Path` that holds it; "" begins with nothing.
        tasks: Rows, which are dealt out to train, val and test; or rows by split.
        metric: Is given a row and a reply; returns a number from 0 to 1, or it and feedback, which
            the optimizer reads. One that raises is a recorded failure and no score.
        target: The model that acts: ``backend:model``, its settings as a mapping, or a function
            that takes messages and returns a text.
        optimizer: The model that reads what happened and proposes edits, named as the target is.
        prompt: What the target is asked: a Jinja template over the columns of a row.
        task_type: The column by which results are shown.
        name: The run's name.
        settings: Further settings by dotted path, such as ``{"train.epochs": 2}``.
        progress: Show what happens.

    Returns:
        The finished run; `Run.skill` is the text to use.

    Raises:
        ConfigError: A setting is wrong, or so few rows are left for val that nothing can be shown.
        DataError: Rows lack a column that the prompt names, or cannot be written as JSON.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Nothing but failures came back; the same call continues.
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
        RunError: There is none; the message names the nearest.
    """
    return Run(find_run(run, root))


async def atrain(
    config: Config, settings: Mapping[str, Any] | None = None, *, progress: bool = True
) -> Run:
    """Train, and await the finished run; see `train`."""
    loaded = load(config, settings)
    if isinstance(loaded, RlConfig):
        return await _train_weights(loaded, progress)
    skill = read_initial_skill(loaded)
    return await _train_text(loaded, skill, progress)


def train(
    config: Config, settings: Mapping[str, Any] | None = None, *, progress: bool = True
) -> Run:
    """Train a skill document, or the weights of a policy, as the configuration says.

    Args:
        config: A YAML file, what one says as a mapping, or what `load` returned.
        settings: What is laid over it, by dotted path.
        progress: Show what happens, live on a terminal and in a notebook.

    Returns:
        The finished run. An interrupted one is continued with `resume`.

    Raises:
        ConfigError: The configuration is wrong.
        DataError: Tasks or an environment are not found.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Nothing but failures came back; the run can be resumed.
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
    """Evaluate, and await the finished run; see `evaluate`."""
    loaded = load(config, settings)
    if isinstance(loaded, RlConfig):
        raise ConfigError("evaluate() measures a skill; this configuration trains weights")
    text = read_initial_skill(loaded) if skill is None else _text_of(skill)
    plan = EvalPlan(split, trials)
    refuse_unasked_data(loaded.env)
    await preflight(loaded, plan)
    with start_run(loaded, text, plan) as run:
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
        config: As for `train`; a training's file will do.
        skill: The text, or a `Path` that holds it; the configuration's own, by default.
        settings: What is laid over the configuration, by dotted path.
        split: Which tasks.
        trials: Attempts per task, from 1.
        progress: Show what happens.

    Returns:
        The finished run; `Run.score` is the score with its interval.

    Raises:
        ConfigError: The configuration is wrong.
        DataError: Tasks, an environment or the skill's file are not found.
        ModelRefused: An endpoint refuses the key or the model.
        EngineDown: Nothing but failures came back; the run can be resumed.
    """
    return _wait(aevaluate(config, skill, settings, split=split, trials=trials, progress=progress))


async def aresume(
    run: str | Path | Run, root: str | Path = "runs", *, progress: bool = True
) -> Run:
    """Continue a run, and await its end; see `resume`."""
    path = run.path if isinstance(run, Run) else find_run(run, root)
    if is_rl_run(path):
        return await _play_weights(open_rl(path), progress)
    opened = open_run(path)
    if opened.plan is None:
        return await _play_text(opened, progress)
    with opened, _shown(progress, priced_models(opened.config, trains=False)) as callback:
        await run_evaluation(opened, opened.plan, callback, make_report=_report)
    return Run(path)


def resume(run: str | Path | Run, root: str | Path = "runs", *, progress: bool = True) -> Run:
    """Continue a run that was stopped; its decisions are those it would have taken.

    Args:
        run: The run, its name, its folder, or ``latest``.
        root: The folder that holds runs.
        progress: Show what happens.

    Raises:
        RunError: There is no such run, another process works on it, or its store is damaged.
        EngineDown: Nothing but failures came back; the run can be resumed.
    """
    return _wait(aresume(run, root, progress=progress))


async def _train_text(config: RunConfig, skill: str, progress: bool) -> Run:
    refuse_unasked_data(config.env)
    await preflight(config)
    return await _play_text(start_run(config, skill), progress)


async def _play_text(run: OpenedRun, progress: bool) -> Run:
    with run, _shown(progress, priced_models(run.config)) as callback:
        await run_training(run, callback, make_report=_report)
    return Run(run.folder.path)


async def _train_weights(config: RlConfig, progress: bool) -> Run:
    refuse_without_torch()
    # Imported here, because it imports torch.
    from skillwright.jobs.weights.preflight import preflight_rl

    await preflight_rl(config)
    return await _play_weights(start_rl(config), progress)


async def _play_weights(run: RlRun, progress: bool) -> Run:
    llms = [priced_model(role, llm) for role, llm in run.config.llms.items()]
    with run, _shown(progress, llms, weights=True) as callback:
        await run_rl(run, callback, make_report=_report)
    return Run(run.folder.path)


class _Silent:
    def on_event(self, event: RlEvent) -> None:
        """Take no note."""


def _report(folder: Path) -> str:
    from skillwright.cli.live import make_report  # pages are drawn where a tracker takes them

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


def _write_rows(tasks: Rows | Mapping[str, Rows], folder: Path) -> str:
    """Write rows where a resumed run finds them; equal rows are one file, or one folder."""
    splits = tasks if isinstance(tasks, Mapping) else {"": tasks}
    texts = {split: _as_lines(rows) for split, rows in splits.items()}
    name = text_digest("\n\n".join(f"{split}\n{text}" for split, text in texts.items()))[:16]
    if not isinstance(tasks, Mapping):
        return _write_once(folder / f"{name}.jsonl", texts[""])
    for split, text in texts.items():
        _write_once(folder / name / f"{split}.jsonl", text)
    return str(folder / name)


def _as_lines(rows: Rows) -> str:
    try:
        text = "".join(f"{dumps(dict(row))}\n" for row in rows)
        text.encode()
    except (TypeError, ValueError) as error:
        raise DataError(
            f"tasks are rows of what JSON can hold: {error}. Write None where a value is missing"
        ) from error
    return text


def _write_once(path: Path, text: str) -> str:
    if not path.is_file():
        write_text(path, text)
    return str(path)


def _left(config: RunConfig, skill: str) -> Path | None:
    """Return a run of equal settings that began with a skill and is not finished."""
    root, name = Path(config.run.root), config.run.name
    for path in (root / name, *sorted(root.glob(f"{name}-*"))):
        with suppress(SkillwrightError):
            same = dump_config(load_config(path / CONFIG_NAME)) == dump_config(config)
            if same and _began_with(path) == skill and not read_run(path).is_finished:
                return path
    return None


def _began_with(run: Path) -> str:
    with RunStore.open(run / STORE_NAME, read_only=True) as store:
        return store.skill(0)


def _text_of(skill: str | Path) -> str:
    return read_text(skill, "skill document") if isinstance(skill, Path) else skill


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where a loop is running, as in a notebook."""
    if not _is_in_loop():
        return asyncio.run(work)
    with closing(LoopThread()) as loop:
        return loop.run(work)


def _is_in_loop() -> bool:
    with suppress(RuntimeError):
        return asyncio.get_running_loop() is not None
    return False
