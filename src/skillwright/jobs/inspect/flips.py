"""Tasks whose outcome flipped between two versions of a run, on the same draws."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from skillwright.core import RunError
from skillwright.jobs.inspect.compare_sides import is_flipped, tested_episodes
from skillwright.jobs.inspect.episodes import (
    EpisodeQuery,
    FoundEpisode,
    Texts,
    described,
    excerpt_of,
    find_folder,
    fits,
    refuse_unknown,
    run_threshold,
    texts_of,
)
from skillwright.jobs.inspect.summary import RunSummary, read_folder
from skillwright.jobs.run.progress import SHOWN_AS
from skillwright.runs import EpisodeSummary, RunFolder, RunStore
from skillwright.runs.folder import STORE_NAME


@dataclass(frozen=True, slots=True)
class FlipSide:
    """The results of a task with one of the two versions.

    Attributes:
        solved: Number of solved draws, among those with scores of both versions.
        draws: Number of these draws.
        episode: The first of them with another result.
    """

    solved: int
    draws: int
    episode: FoundEpisode

    def to_dict(self) -> dict[str, Any]:
        """Return the side as a JSON object."""
        return {"solved": self.solved, "draws": self.draws, **self.episode.to_dict()}


@dataclass(frozen=True, slots=True)
class Flip:
    """A task that exactly one of two versions solved, in at least half of its draws.

    Attributes:
        before: Results of the first version.
        after: Results of the last version.
        match: The line with the ``grep`` text, or "".
    """

    before: FlipSide
    after: FlipSide
    match: str = ""

    @property
    def is_gain(self) -> bool:
        """Whether the last version solves it."""
        return self.after.solved > self.before.solved

    @property
    def task(self) -> EpisodeSummary:
        """An episode of the task, for the task's facts."""
        return self.after.episode.summary

    def to_dict(self) -> dict[str, Any]:
        """Return the flip as a JSON object."""
        return {
            "task_id": self.task.task_id,
            "task_type": self.task.task_type,
            "change": "+" if self.is_gain else "-",
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "match": self.match,
        }


@dataclass(frozen=True, slots=True)
class FlipList:
    """Flipped tasks of a run, newly solved ones first.

    Attributes:
        before: The name of the first version.
        after: The name of the last version.
        tasks: Number of tasks with scores of both on the same draws.
    """

    run: str
    before: str
    after: str
    split: str
    tasks: int
    flips: tuple[Flip, ...]


def list_flips(
    run: str | Path, root: str | Path = "runs", query: EpisodeQuery | None = None
) -> FlipList:
    """List the tasks that flipped between the first version of a run and the released one.

    They are compared on the test split if it was opened, else on val. Of trained weights, the first
    and the selected ones are compared. Without a release, the current version is the last one.

    Args:
        run: A run's folder or name, or ``latest``.
        root: The folder that holds runs.
        query: ``unsolved`` selects tasks that are no longer solved; ``task_type``, ``task``,
            ``split`` and ``grep`` select as for episodes.

    Raises:
        RunError: There is no such run, it has no two versions to compare, or a condition does not
            apply to flipped tasks.
    """
    query = query or EpisodeQuery()
    _refuse_what_cannot_flip(query)
    path = find_folder(run, root)
    summary, threshold = read_folder(RunFolder.look(path)), run_threshold(path)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        every = store.episodes()
        versions = _versions(summary, store, query.split)
        refuse_unknown(path.name, query, every)
        pairs = _paired(versions)
        found = []
        for task in sorted(pairs, key=lambda one: (pairs[one][0][1].task_type, one)):
            after = pairs[task][0][1]
            if not fits(after, replace(query, unsolved=False, split=None), threshold):
                continue
            flip = _flip(pairs[task], threshold, texts_of(store))
            if flip is None or (query.unsolved and flip.is_gain):
                continue
            if query.grep is None:
                found.append(flip)
            elif match := _place(store, flip, query.grep):
                found.append(replace(flip, match=match))
    found.sort(key=lambda one: not one.is_gain)
    return FlipList(
        path.name, versions.before, versions.after, versions.split, len(pairs), tuple(found)
    )


class _Versions(NamedTuple):
    """The episodes of two versions, and the versions' names."""

    before: str
    after: str
    split: str
    first: Sequence[EpisodeSummary]
    last: Sequence[EpisodeSummary]


def _refuse_what_cannot_flip(query: EpisodeQuery) -> None:
    asked = {"--faults": query.faults, "--phase": query.phase, "--step": query.step}
    for option, value in asked.items():
        if value not in (None, False):
            raise RunError(
                f"--flipped compares the first version with the last one, and {option} chooses "
                "among episodes of any; leave one of them out"
            )
    if query.split == "train":
        raise RunError("--flipped compares versions on held-out tasks: --split val or --split test")


def _versions(summary: RunSummary, store: RunStore, split: str | None) -> _Versions:
    """Return the two versions of a run: on test if it was opened, else on val."""
    if summary.job == "eval":
        raise RunError(
            f"run {summary.name!r} is an evaluation of one skill, so nothing can have flipped in "
            "it. Name another evaluation to compare it with:  "
            f"skillwright compare OTHER {summary.name} --all"
        )
    if summary.check is not None:
        sides = [tested_episodes(summary, store, name) for name in ("old", "new")]
        return _Versions("old", "new", summary.check.plan.split, *sides)
    is_tested = bool((summary.state and summary.state.report) or (summary.rl and summary.rl.test))
    if split == "test" or (split is None and is_tested):
        last = "final" if summary.rl is not None or not _releases(summary) else "best"
        begun = "start" if summary.rl is not None and summary.rl.baseline else "cold_start"
        first = "initial" if summary.rl is None else begun
        return _Versions(
            SHOWN_AS.get(first, first).replace("_", " "),
            "selected" if summary.rl is not None else SHOWN_AS[last],
            "test",
            tested_episodes(summary, store, first),
            tested_episodes(summary, store, last),
        )
    val = store.episodes(split="val")
    return _of_weights(summary, val) if summary.rl is not None else _of_text(summary, store, val)


def _releases(summary: RunSummary) -> bool:
    return summary.state is not None and summary.state.best_version > 0


def _of_text(summary: RunSummary, store: RunStore, val: Sequence[EpisodeSummary]) -> _Versions:
    """Return the initial document, and the released one or else the current one."""
    state = summary.state
    last = (state.best_version or state.skill_version) if state else 0
    if not last:
        raise RunError(
            f"run {summary.name!r} has one version of its skill so far: nothing was accepted, so "
            "no task can have flipped"
        )
    hashes = {one.version: one.hash for one in store.skills()}

    def played(version: int) -> list[EpisodeSummary]:
        digest = hashes[version]
        return [one for one in val if one.skill_version.partition("+")[0] == digest]

    return _Versions("v0", f"v{last}", "val", played(0), played(last))


def _of_weights(summary: RunSummary, val: Sequence[EpisodeSummary]) -> _Versions:
    """Return the weights of the first validation and the selected ones, or the last so far."""
    state = summary.rl
    looks = sorted(state.validations) if state else []
    if state is None or len(looks) < 2:
        raise RunError(
            f"run {summary.name!r} has {len(looks)} validations so far, and two are compared"
        )
    best = state.best.iteration if state.best and state.best.iteration else looks[-1]

    def played(iteration: int) -> list[EpisodeSummary]:
        look = state.validations[iteration]
        return [
            one
            for one in val
            if one.agent.split(" ")[0] == look.policy
            and one.skill_version.split(":")[0] == str(look.bank_version)
        ]

    return _Versions(
        f"iteration {looks[0]}", f"iteration {best}", "val", played(looks[0]), played(best)
    )


Pairs = list[tuple[EpisodeSummary, EpisodeSummary]]


def _paired(versions: _Versions) -> dict[str, Pairs]:
    """Pair the scored episodes of each task by their seeds: equal ones are the same draw."""
    before = {(one.task_id, one.seed): one for one in versions.first if one.reward is not None}
    found: defaultdict[str, Pairs] = defaultdict(list)
    for one in versions.last:
        other = before.pop((one.task_id, one.seed), None) if one.reward is not None else None
        if other is not None:
            found[one.task_id].append((other, one))
    if not found:
        raise RunError(
            f"no task has a score of both {versions.before} and {versions.after} on the same draw "
            f"of {versions.split}; try the other one of --split val and --split test"
        )
    return dict(found)


def _flip(pairs: Pairs, threshold: float, texts: Texts) -> Flip | None:
    """Return a task's flip, or ``None`` unless exactly one version solved it."""
    solved = [[described(one, threshold, texts).solved is True for one in pair] for pair in pairs]
    before, after = (fmean(pair[side] for pair in solved) for side in (0, 1))
    if not is_flipped(before, after):
        return None
    wanted = [after < before, before < after]
    differs = next(n for n, pair in enumerate(solved) if pair == wanted)
    first, last = (
        FlipSide(sum(pair[side] for pair in solved), len(pairs), described(one, threshold, texts))
        for side, one in enumerate(pairs[differs])
    )
    return Flip(first, last)


def _place(store: RunStore, flip: Flip, text: str) -> str:
    """Return a match with its context, from the episode after the flip or before it, or ""."""
    places = (
        excerpt_of(store.load_episode(side.episode.summary.id), text)
        for side in (flip.after, flip.before)
    )
    return next(filter(None, places), "")
