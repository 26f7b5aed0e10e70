"""The two sides of a comparison: the stored episodes behind a run's result."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from skillwright.config.env import EnvSection
from skillwright.config.load import load_config, load_rl_config
from skillwright.core import Failure, FailureCause, RunError, StopReason, Task, did_you_mean
from skillwright.datasets.split import tasks_digest
from skillwright.jobs.inspect.foreign_results import SUFFIXES, ForeignAttempt, read_results
from skillwright.jobs.inspect.study import find_study
from skillwright.jobs.inspect.summary import RunSummary, read_folder
from skillwright.jobs.kinds import Kind, RlKind
from skillwright.jobs.run.launch import find_run
from skillwright.jobs.text.check import NOISE_FROM, PHASE, read_check
from skillwright.jobs.weights.state import TEST_EPISODES
from skillwright.runs import EpisodeSummary, RunFolder, RunStore

CompareMetric = Literal["hard", "soft"]

_SOLVED = 0.5  # minimum share of successes among a task's scored attempts


@dataclass(frozen=True, slots=True)
class Side:
    """One run's episodes in a comparison."""

    label: str  # ``A`` or ``B``
    name: str
    path: Path
    job: str
    skill: str  # the name of the tested one; "" for an evaluation, which has one
    what: str
    env: EnvSection | None  # ``None`` for a file of another program
    attempts: Mapping[str, Sequence[EpisodeSummary]]  # without failures that were retried
    tasks: Mapping[str, Task]  # those of which an attempt has a score
    is_scripted: bool

    def scores(self, task_id: str, metric: CompareMetric) -> list[float]:
        """Return the scores of a task's attempts, without failed ones."""
        return [
            score(one, metric, self.threshold)
            for one in self.attempts[task_id]
            if one.reward is not None
        ]

    @property
    def threshold(self) -> float:
        """The minimum reward of a success."""
        return 1.0 if self.env is None else self.env.success_threshold

    def failures(self, task_ids: Iterable[str]) -> int:
        """Count attempts without a score."""
        return sum(one.reward is None for task in task_ids for one in self.attempts[task])


def score(episode: EpisodeSummary, metric: CompareMetric, threshold: float) -> float:
    """Return a scored episode's ``hard``, as in `EpisodeResult.hard_score`, or its reward."""
    if episode.reward is None:
        raise ValueError(f"task {episode.task_id!r}: a failure has no score; leave it out")
    if metric == "soft":
        return episode.reward
    return float(episode.reward >= threshold) if episode.hard is None else episode.hard


def is_flipped(success_a: float, success_b: float) -> bool:
    """Tell whether exactly one of two sides solved a task: in at least half of its attempts."""
    return (success_a >= _SOLVED) != (success_b >= _SOLVED)


def tested_episodes(summary: RunSummary, store: RunStore, skill: str) -> list[EpisodeSummary]:
    """Return the test episodes behind the result of a tested skill.

    Raises:
        RunError: The run tested no such skill, or has no result.
    """
    return _READERS[summary.job](summary, store, _Asked("A", skill))[2]


def read_side(label: str, run: str | Path, root: str | Path, skill: str | None) -> Side:
    """Read one side of a comparison: a run, or a file of another program."""
    if Path(run).is_file() and Path(run).suffix.lower() in SUFFIXES:
        return _of_file(label, Path(run), skill)
    study = find_study(run, root)
    if study is not None:
        first = next(iter(sorted(study.glob("seed_*"))), study / "seed_42")
        raise RunError(
            f"{str(run)!r} is a study of several seeds; name one of its runs, such as "
            f"{str(first)!r}"
        )
    folder = RunFolder.look(find_run(run, root))
    summary = read_folder(folder)
    with RunStore.open(folder.store_path, read_only=True) as store:
        if summary.job not in _READERS:
            raise _no_scores(summary, f"it is a run of skillwright {summary.job}")
        name, what, episodes = _READERS[summary.job](summary, store, _Asked(label, skill))
        attempts = _by_task(episodes)
        # An adapter describes a task in its rows, which a failed attempt may lack.
        scored = {one.task_id: one.id for one in episodes if one.reward is not None}
        tasks = {task_id: store.task(episode) for task_id, episode in scored.items()}
    return Side(
        label=label,
        name=summary.name,
        path=summary.path,
        job=summary.job,
        skill=name,
        what=what,
        env=_env(summary),
        attempts=attempts,
        tasks=tasks,
        is_scripted=summary.is_scripted,
    )


def _of_file(label: str, path: Path, chosen: str | None) -> Side:
    """Read a file of another program's results."""
    found = read_results(path, f"--skill-{label.lower()}", chosen)
    episodes = [_episode(number, one) for number, one in enumerate(found.attempts)]
    scored = {one.task: one for one in found.attempts if one.score is not None}
    return Side(
        label=label,
        name=str(path),
        path=path,
        job="file",
        skill=found.chosen,
        what=", ".join(filter(None, [f"results of {found.program}", found.chosen])),
        env=None,
        attempts=_by_task(episodes),
        tasks={
            name: Task(name, env="", task_type=one.task_type, description=one.question)
            for name, one in scored.items()
        },
        is_scripted=False,
    )


def _episode(number: int, one: ForeignAttempt) -> EpisodeSummary:
    """Return another program's attempt as an episode; what it does not say is blank."""
    return EpisodeSummary(
        id=number,
        key="",
        phase="",
        step=None,
        env="",
        task_id=one.task,
        task_type=one.task_type,
        split="",
        draw=number,
        seed=0,
        agent="",
        skill_version="",
        skill_ids=(),
        reward=one.score,
        hard=None if one.success is None else float(one.success),
        failure=None if one.score is not None else Failure(FailureCause.MODEL, one.fault),
        stop_reason=StopReason.DONE if one.score is not None else StopReason.FAILURE,
        attempts=1,
        turns=0,
        metrics={},
        usage=one.usage,
        wall_s=0.0,
        started_at=0.0,
        ended_at=0.0,
    )


class _Asked(NamedTuple):
    """The tested skill that is requested for a side."""

    label: str
    skill: str | None

    @property
    def option(self) -> str:
        return f"--skill-{self.label.lower()}"

    def choose(self, summary: RunSummary, tested: Iterable[str], default: str) -> str:
        names = list(tested)
        name = default if self.skill is None else self.skill
        if name not in names:
            raise RunError(
                f"{self.option}: run {summary.name!r} tested no {name!r}. "
                f"{did_you_mean(name, names)}"
            )
        return name


def _no_scores(summary: RunSummary, why: str) -> RunError:
    return RunError(f"run {summary.name!r} has no scores to compare: {why}")


Measured = tuple[str, str, list[EpisodeSummary]]
"""The name of a tested skill, what was measured, and the episodes."""


def _read_eval(summary: RunSummary, store: RunStore, asked: _Asked) -> Measured:
    report = summary.evaluation
    if asked.skill is not None:
        raise RunError(
            f"{asked.option} names a skill that a training tested; run {summary.name!r} is an "
            "evaluation of one skill, so leave the option out"
        )
    if report is None:
        # A partial result is biased: which episodes end first depends on their length.
        why = f"its evaluation did not finish. Continue with: skillwright resume {summary.path}"
        raise _no_scores(summary, why)
    what = f"evaluation on {report.split}, skill {report.skill_version}"
    return "", what, store.episodes()


def _read_train(summary: RunSummary, store: RunStore, asked: _Asked) -> Measured:
    if summary.state is None or summary.state.report is None:
        raise _no_scores(summary, _untested(summary))
    tested: dict[str, str] = store.events(Kind.TEST_OPENED)[0].payload["skills"]
    name = asked.choose(summary, tested, "best")
    episodes = store.episodes(phase="test")
    found = [one for one in episodes if one.skill_version.partition("+")[0] == tested[name]]
    if not found:
        # With a bank, episodes of a blank document have the bank's version only.
        found = [one for one in episodes if "+" not in one.skill_version]
    return name, f"training, {name} skill {tested[name]} on test", found


def _read_check(summary: RunSummary, store: RunStore, asked: _Asked) -> Measured:
    plan = read_check(store)
    if plan is None or not summary.is_finished:
        why = f"it did not finish. Continue with: skillwright resume {summary.path}"
        raise _no_scores(summary, why)
    versions = {one.origin: one.hash for one in store.skills()}
    name = asked.choose(summary, versions, "new")
    episodes = [one for one in store.episodes(phase=PHASE) if one.draw < NOISE_FROM]
    found = [one for one in episodes if one.skill_version.partition("+")[0] == versions[name]]
    return name, f"check, {name} skill on {plan.split}", found


def _read_rl(summary: RunSummary, store: RunStore, asked: _Asked) -> Measured:
    if summary.rl is None or summary.rl.test is None:
        raise _no_scores(summary, _untested(summary))
    tested: dict[str, list[str]] = store.events(RlKind.TEST)[-1].payload[TEST_EPISODES]
    name = asked.choose(summary, tested, "final")
    keys = set(tested[name])
    found = [one for one in store.episodes() if one.key in keys]
    return name, f"RL training, {name} on test", found


_READERS: Mapping[str, Callable[[RunSummary, RunStore, _Asked], Measured]] = {
    "eval": _read_eval,
    "check": _read_check,
    "train": _read_train,
    "rl": _read_rl,
}


def _untested(summary: RunSummary) -> str:
    if summary.is_finished:
        move = f"Evaluate its skill: skillwright eval CONFIG --skill {summary.path}/best_skill.md"
        why = "it did not open its test split (evaluation.test: false)"
        return f"{why}." if summary.job == "rl" else f"{why}. {move}"
    return f"its training did not finish. Continue with: skillwright resume {summary.path}"


def _env(summary: RunSummary) -> EnvSection:
    path = summary.path / "config.yaml"
    return load_rl_config(path).env if summary.job == "rl" else load_config(path).env


def _by_task(episodes: Iterable[EpisodeSummary]) -> dict[str, list[EpisodeSummary]]:
    """Group attempts by task; of an attempt that was retried after a resume, the last counts."""
    # In order of task, draw and recording.
    last = {(one.task_id, one.draw): one for one in episodes}
    found: defaultdict[str, list[EpisodeSummary]] = defaultdict(list)
    for one in last.values():
        found[one.task_id].append(one)
    return dict(found)


def changed_tasks(a: Side, b: Side) -> list[str]:
    """Return the ids that both sides scored and that name different tasks, sorted."""
    common = sorted(a.tasks.keys() & b.tasks.keys())
    return [one for one in common if tasks_digest([a.tasks[one]]) != tasks_digest([b.tasks[one]])]


def env_differences(a: EnvSection, b: EnvSection) -> list[str]:
    """Name the settings that differ, with their values, except those that select tasks."""
    one, other = _settings(a), _settings(b)
    return [
        f"{key} ({one.get(key)!r} in A, {other.get(key)!r} in B)"
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    ]


def _settings(env: EnvSection) -> dict[str, Any]:
    found = env.model_dump(exclude={"name", "data", "config"})
    own = {f"config.{key}": value for key, value in env.config.items()}
    return {f"env.{key}": value for key, value in {**found, **own}.items()}
