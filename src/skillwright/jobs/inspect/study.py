"""Train one configuration with several seeds, to measure the randomness of its gain.

    runs/<name>/
      study.yaml      the seeds
      seed_42/ ...    ordinary runs, one per seed, worked on one after another
      summary.json    the results, written again after each seed
      run.lock        the process that works on it

All results are in the seeds' runs; a study that was stopped resumes the unfinished ones.
"""

import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import yaml

from skillwright.config.run import RunConfig
from skillwright.config.yaml_files import dump_yaml
from skillwright.core import RunError, SkillwrightError, did_you_mean
from skillwright.core.jsonio import dumps, read_text, write_text
from skillwright.evaluation import Interval, gain_text, mean_interval
from skillwright.jobs.inspect.summary import RunSummary, is_finished, read_folder, with_turns
from skillwright.jobs.kinds import STUDY_NAME
from skillwright.jobs.run import Callback, MakeModel, refuse_all_but_budget
from skillwright.jobs.run.launch import LATEST, MakeReport, find_run, has_runs
from skillwright.jobs.text.launch import open_run, run_training, start_run
from skillwright.models import make_model
from skillwright.runs import RunFolder, list_runs, unused_name
from skillwright.runs.folder import LOCK_NAME, RunLock


class Study:
    """A study that this process works on, until it is closed.

    Args:
        path: Its folder.
        seeds: Its seeds, in order.
        overrides: Budgets for each seed, as in `open_run`.

    Raises:
        RunError: Another process works on it.
    """

    def __init__(self, path: Path, seeds: Sequence[int], overrides: Sequence[str] = ()) -> None:
        self.path = path
        self.seeds = tuple(seeds)
        self.overrides = tuple(overrides)
        self._lock = RunLock(path / LOCK_NAME, datetime.now(UTC).isoformat(timespec="seconds"))

    @property
    def resume_command(self) -> str:
        """The command that resumes it."""
        return f"skillwright resume {shlex.quote(str(self.path))}"

    def run_path(self, seed: int) -> Path:
        """Return the folder of a seed's run."""
        return self.path / run_name(seed)

    def close(self) -> None:
        """Release the study's lock."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def start_study(config: RunConfig, skill: str, count: int) -> Study:
    """Make the folder of a study and the runs of all its seeds; nothing is checked.

    Args:
        config: The configuration of every seed.
        skill: The initial skill.
        count: The number of seeds, from ``run.seed`` on; at least 1.

    Raises:
        RunError: A folder cannot be made, or the disk is full; nothing is left of it.
    """
    root, name = Path(config.run.root), config.run.name
    path = root / (unused_name(root, name) if (root / name).exists() else name)
    seeds = range(config.run.seed, config.run.seed + count)
    with ExitStack() as undo:
        try:
            path.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"folder {str(path)!r} cannot be made: {error.strerror}") from error
        undo.callback(shutil.rmtree, path, ignore_errors=True)
        for seed in seeds:
            named = {"name": run_name(seed), "root": str(path), "seed": seed}
            section = config.run.model_copy(update=named)
            start_run(config.model_copy(update={"run": section}), skill).close()
        study = Study(path, seeds)
        undo.callback(study.close)
        # Last, so that a folder with this file has every run that it names.
        _write(path / STUDY_NAME, dump_yaml({"seeds": list(seeds)}))
        undo.pop_all()
    return study


def find_study(study: str | Path, root: str | Path = "runs") -> Path | None:
    """Return the folder of a study; ``None`` for anything else.

    Args:
        study: Its path or its name; ``latest`` is the study of the run that began last, if any.
        root: The folder that holds studies.
    """
    paths = (Path(study), Path(root) / study)
    found = next((path for path in paths if (path / STUDY_NAME).is_file()), None)
    if found is None and str(study) == LATEST and has_runs(Path(root)):
        newest = find_run(study, root).parent
        return newest if (newest / STUDY_NAME).is_file() else None
    return found


def open_study(
    study: str | Path, root: str | Path = "runs", overrides: Sequence[str] = ()
) -> Study:
    """Open a study to resume it.

    Args:
        study: Its folder, or its name below ``root``.
        root: The folder that holds studies.
        overrides: New budgets for each seed, such as ``budget.usd=5``; see `open_run`.

    Raises:
        ConfigError: An override is not a budget.
        RunError: There is no such study, its list of seeds cannot be read, or another process
            works on it.
    """
    path = _known_study(study, root)
    refuse_all_but_budget(overrides)
    return Study(path, _read_seeds(path), overrides)


Watch = Callable[[], AbstractContextManager[Callback]]
"""Makes a callback for one seed's run."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The result of one seed: success rates on test, or ``None`` before the test.

    Attributes:
        gain: ``best`` minus ``initial``.
        reward_gain: The gain in mean reward, paired by task.
        empty: The rate of the empty skill, if it is a baseline of its own.
    """

    run: RunSummary
    seed: int
    initial: float | None = None
    best: float | None = None
    final: float | None = None
    gain: float | None = None
    empty: float | None = None
    reward_gain: float | None = None

    @classmethod
    def of(cls, seed: int, run: RunSummary) -> Self:
        """Read a seed's result off its run."""
        report = run.state.report if run.state else None
        if report is None:
            return cls(run, seed)
        rates = {name: table.overall.success_rate for name, table in report.tables.items()}
        initial, best = rates["initial"], rates["best"]
        return cls(
            run,
            seed,
            initial=initial,
            best=best,
            final=rates["final"],
            gain=None if initial is None or best is None else best - initial,
            empty=rates.get("empty"),
            reward_gain=report.gains["best"].gain,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the run's state as a JSON object."""
        run = self.run
        return {
            "seed": self.seed,
            "run": str(run.path),
            "finished": run.is_finished,
            **{name: getattr(run, name) for name in ("steps", "accepted", "episodes")},
            **{name: getattr(self, name) for name in ("initial", "empty", "best", "final")},
            "gain": self.gain,
            "reward_gain": self.reward_gain,
        }


@dataclass(frozen=True, slots=True)
class StudySummary:
    """The state of a study, and the results of its seeds, in order."""

    name: str
    path: Path
    seeds: tuple[SeedResult, ...] = ()
    problem: str = ""

    @property
    def gains(self) -> list[float]:
        """The gains in success rate on test of the tested seeds, in order."""
        return [one.gain for one in self._tested if one.gain is not None]

    @property
    def _tested(self) -> list[SeedResult]:
        return [one for one in self.seeds if one.gain is not None]

    @property
    def mean_gain(self) -> float | None:
        """The mean of the gains, or ``None`` if there are none."""
        return fmean(self.gains) if self.gains else None

    @property
    def interval(self) -> Interval | None:
        """A 95% interval of the mean gain over seeds, by Student's t; see `mean_interval`."""
        found = mean_interval(self.gains)
        # With few seeds, the t interval may exceed the range of a gain, [-1, 1].
        return None if found is None else Interval(max(-1.0, found.low), min(1.0, found.high))

    @property
    def highest(self) -> SeedResult | None:
        """The seed with the highest gain, the first of equals, or ``None`` if none has a gain."""
        return max(self._tested, key=lambda one: one.gain or 0.0, default=None)

    @property
    def lowest(self) -> SeedResult | None:
        """The seed with the lowest gain, the first of equals, or ``None`` if none has a gain."""
        return min(self._tested, key=lambda one: one.gain or 0.0, default=None)

    @property
    def finished(self) -> int:
        """Number of finished seeds."""
        return sum(one.run.is_finished for one in self.seeds)

    @property
    def steps(self) -> int:
        """Number of decided steps, over all seeds."""
        return sum(one.run.steps for one in self.seeds)

    @property
    def accepted(self) -> int:
        """Number of accepted candidates, over all seeds."""
        return sum(one.run.accepted for one in self.seeds)

    @property
    def episodes(self) -> int:
        """Number of scored episodes, over all seeds."""
        return sum(one.run.episodes for one in self.seeds)

    @property
    def started(self) -> str:
        """When the first run began, UTC, for people."""
        return min((one.run.started for one in self.seeds), default="")

    @property
    def is_scripted(self) -> bool:
        """Whether a scripted model took part, which every display must say."""
        return any(one.run.is_scripted for one in self.seeds)

    @property
    def result(self) -> str:
        """The headline, for people."""
        if self.problem:
            return f"cannot be read: {self.problem}"
        if self.mean_gain is None:
            done = self.finished == len(self.seeds)
            return "finished, not tested" if done else "not finished"
        return f"mean gain {gain_text(self.mean_gain, self.interval)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return {
            "name": self.name,
            "path": str(self.path),
            "job": "study",
            "started": self.started,
            "finished": self.finished == len(self.seeds),
            "result": self.result,
            "scripted": self.is_scripted,
            "seeds": [one.to_dict() for one in self.seeds],
            "mean_gain": self.mean_gain,
            "interval": list(self.interval) if self.interval else None,
            "highest": self.highest.seed if self.highest else None,
            "lowest": self.lowest.seed if self.lowest else None,
        }


async def run_study(
    study: Study, watch: Watch, make: MakeModel = make_model, make_report: MakeReport | None = None
) -> StudySummary:
    """Train every seed that is not finished, one after another, and summarize.

    Args:
        study: The study.
        watch: Makes a callback for each run.
        make: Makes the models.
        make_report: Writes the report of each run, for its trackers.

    Raises:
        SkillwrightError: As `run_training`; a resumed study continues there.
    """
    for seed in study.seeds:
        with open_run(study.run_path(seed), overrides=study.overrides) as run:
            if is_finished(run):
                continue
            with watch() as callback:
                await run_training(run, callback, make, make_report)
        _write_summary(study.path)
    return _write_summary(study.path)


def read_study(study: str | Path, root: str | Path = "runs") -> StudySummary:
    """Summarize a study; it may be running meanwhile.

    Raises:
        RunError: There is no such study, or one of its runs cannot be read.
    """
    return _read(_known_study(study, root))


def summarize_studies(root: Path) -> list[StudySummary]:
    """Summarize the studies below a folder, the latest first, those that cannot be read last."""
    found = [_read_or_say_why(file.parent) for file in sorted(root.glob(f"*/{STUDY_NAME}"))]
    return sorted(found, key=lambda study: study.started, reverse=True)


SUMMARY_NAME = "summary.json"


def run_name(seed: int) -> str:
    """Name the run of a seed."""
    return f"seed_{seed}"


def _known_study(study: str | Path, root: str | Path) -> Path:
    path = find_study(study, root)
    if path is None:
        names = [found.parent.name for found in Path(root).glob(f"*/{STUDY_NAME}")]
        hint = did_you_mean(str(study), names)
        raise RunError(f"no study {str(study)!r} here or in {str(root)!r}. {hint}")
    return path


def _read_or_say_why(path: Path) -> StudySummary:
    try:
        return _read(path)
    except SkillwrightError as error:
        return StudySummary(path.name, path, problem=str(error))


def _read(path: Path) -> StudySummary:
    seeds = _read_seeds(path)
    results = tuple(
        SeedResult.of(seed, with_turns(read_folder(RunFolder.look(path / run_name(seed)))))
        for seed in seeds
    )
    return StudySummary(path.name, path, results)


def _read_seeds(path: Path) -> list[int]:
    try:
        seeds = yaml.safe_load(read_text(path / STUDY_NAME, "study"))["seeds"]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        names = [run.name for run in list_runs(path)]
        raise RunError(
            f"{str(path / STUDY_NAME)!r} names no seeds. Write 'seeds: [42, 43]' into it, one for "
            f"each of its runs: {', '.join(names) or 'there are none'}."
        ) from error
    return [int(seed) for seed in seeds]


def _write_summary(path: Path) -> StudySummary:
    summary = _read(path)
    _write(path / SUMMARY_NAME, dumps(summary.to_dict()) + "\n")
    return summary


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise RunError(f"{str(path)!r} cannot be written: {error.strerror}. Make room.") from error
