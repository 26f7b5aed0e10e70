"""List the versions of a run's skill document, with what the gates decided about them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillwright.core import RunError
from skillwright.core.jsonio import JsonRecord
from skillwright.evaluation import Decision, Verdict
from skillwright.jobs.inspect.summary import read_folder
from skillwright.jobs.text.state import EpochRecord, StepRecord, TrainState
from skillwright.runs import RunFolder, RunStore, SkillVersion


@dataclass(frozen=True, slots=True)
class ListedVersion(JsonRecord):
    """A version of a skill document; scores are means on val, in [0, 1].

    Attributes:
        version: From 0, which is the initial skill.
        parent: The version that it was derived from.
        origin: What wrote it, such as ``step 3``.
        outcome: ``initial``, ``kept``, ``dropped``, ``undecided``, or ``not judged``.
        gain: Mean gain over the version before, at the gate of its step.
        interval: Its 95% interval.
        score: Its mean score in that comparison; of the initial skill, its first score.
        reason: The gate's reason.
        release: The verdict of the release test, if this version was tested.
        is_current: Whether training ended with it, or would continue from it.
        is_best: Whether it is released.
        text: The skill.
    """

    version: int
    parent: int | None
    origin: str
    step: int | None
    outcome: str
    gain: float | None = None
    interval: tuple[float, float] | None = None
    score: float | None = None
    reason: str = ""
    release: Verdict | None = None
    is_current: bool = False
    is_best: bool = False
    text: str = ""


_OUTCOMES = {Decision.REJECT: "dropped", Decision.UNDECIDED: "undecided"}


def list_versions(path: Path) -> list[ListedVersion]:
    """Return the versions of a training's skill document, the initial one first.

    Args:
        path: The run's folder.

    Raises:
        RunError: The run trains no skill document.
    """
    folder = RunFolder.look(path)
    state = read_folder(folder).state
    if state is None:
        raise RunError(f"run {folder.name!r} trains no skill document, so it has no versions")
    with RunStore.open(folder.store_path, read_only=True) as store:
        listed = [_listed(one, state) for one in store.skills()]
        return [replace(one, text=store.skill(one.version)) for one in listed]


def _listed(one: SkillVersion, state: TrainState) -> ListedVersion:
    origin = re.sub(r"_0*(\d)", r" \1", one.origin).replace("_", " ")
    listed = ListedVersion(one.version, one.parent, origin, one.step, "not judged")
    if one.version == 0:
        score = None if state.baseline is None else state.baseline.overall.mean_reward
        listed = replace(listed, outcome="initial", score=score)
    for record in _judging(one.version, state):
        listed = replace(listed, **_facts(record))
    tested = state.final if one.version == state.skill_version else None
    return replace(
        listed,
        release=tested,
        is_current=one.version == state.skill_version,
        is_best=one.version == state.best_version,
    )


def _judging(version: int, state: TrainState) -> Iterator[StepRecord | EpochRecord]:
    """Yield the record whose candidate a version is."""
    records: tuple[StepRecord | EpochRecord, ...] = (*state.steps, *state.epochs)
    for record in records:
        if record.skill_version == version:
            yield record


def _facts(record: StepRecord | EpochRecord) -> dict[str, Any]:
    verdict = record.verdict
    if verdict is None:
        return {"outcome": "kept" if record.enters else "not judged"}
    return {
        "outcome": "kept" if record.enters else _OUTCOMES.get(verdict.decision, "dropped"),
        "gain": verdict.effect,
        "interval": verdict.interval,
        "score": verdict.candidate_score,
        "reason": verdict.reason,
    }
