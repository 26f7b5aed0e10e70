"""Find the origin of each line of a skill document: its version, edits, and episodes.

Versions are compared with their parents line by line. A new line is from an edit of that version's
step, which cites turns of train episodes. Lines of the appendix are from the episodes of their
analysts, those of a slow update from the episodes that compare two epochs. Lines of the initial
skill have no episodes.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillwright.config.load import look_at_config
from skillwright.config.run import RunConfig
from skillwright.core import RunError, skill_hash
from skillwright.core.jsonio import read_text
from skillwright.core.skill import APPENDIX_END, APPENDIX_HEADING, APPENDIX_START
from skillwright.jobs.listing import made_facts
from skillwright.jobs.run.launch import find_run
from skillwright.jobs.text.state import restore
from skillwright.runs import EditRecord, PatchRecord, RunStore, SkillVersion
from skillwright.runs.folder import CONFIG_NAME, CURRENT_SKILL_NAME, STORE_NAME


@dataclass(frozen=True, slots=True)
class StoredSkill:
    """A version of a skill document, with the folder of its run."""

    run: Path
    version: int
    text: str


_VERSION = re.compile(r"(?P<run>.+)@(?:v?(?P<number>\d+)|(?P<name>best|current))")


def find_skill(where: str, root: str | Path = "runs") -> StoredSkill:
    """Find a version of a skill document.

    Args:
        where: A file in a run's folder (``runs/demo/best_skill.md``, ``.../skill_v0003.md``),
            ``RUN@3`` for a version, ``RUN@best`` or a run for the released one, ``RUN@current``
            for the one that training ended with.
        root: The folder that holds runs.

    Raises:
        RunError: There is no such run or version, or the file holds no version of its run.
    """
    path = Path(where)
    if path.is_file():
        return _of_file(path, where)
    found = _VERSION.fullmatch(where)
    try:
        folder = find_run(found["run"] if found else where, root)
    except RunError:
        if found or "@" not in where:
            raise
        name, _, said = where.rpartition("@")
        known = _known(find_run(name, root))
        raise RunError(
            f"{where}: {said!r} is no version; a version is a number, best or current; {known}"
        ) from None
    with RunStore.open(folder / STORE_NAME, read_only=True) as store:
        versions = [one.version for one in _versions(store, folder)]
        if found and found["number"]:
            version = int(found["number"])
        else:
            is_current = found is not None and found["name"] == "current"
            version = _named(folder, store, is_current=is_current)
        if version not in versions:
            raise RunError(f"{where}: there is no version {version}; {_known(folder)}")
        return StoredSkill(folder, version, store.skill(version))


def _named(folder: Path, store: RunStore, *, is_current: bool) -> int:
    """Return the number of the current or of the released version."""
    if made_facts(store, folder)["job"] == "train":
        state = restore(look_at_config(folder / CONFIG_NAME, RunConfig), store)
        return state.skill_version if is_current else state.best_version
    return store.skills()[-1].version  # an evaluation has one


def _of_file(path: Path, where: str) -> StoredSkill:
    """Find the version that a file of a run holds."""
    folder = next((one for one in path.resolve().parents if (one / STORE_NAME).is_file()), None)
    if folder is None:
        raise RunError(f"{where} lies in no run's folder; name a run, as in demo@3")
    wanted = skill_hash(read_text(path, "skill"))
    with RunStore.open(folder / STORE_NAME, read_only=True) as store:
        for one in _versions(store, folder):
            if one.hash == wanted:
                return StoredSkill(folder, one.version, store.skill(one.version))
    what = "the text of this file was edited by hand"
    if path.name == CURRENT_SKILL_NAME:
        what = "a note stands above the skill in this file, so name it by its version"
    raise RunError(f"{where}: {what}; {_known(folder)}")


def _versions(store: RunStore, folder: Path) -> list[SkillVersion]:
    if versions := store.skills():
        return versions
    raise RunError(f"{folder} trains no skill document")


def _known(folder: Path) -> str:
    with RunStore.open(folder / STORE_NAME, read_only=True) as store:
        last = _versions(store, folder)[-1].version
    name = folder.name
    return (
        f"there are {name}@0 to {name}@{last}, {name}@best and {name}@current; "
        f"`skillwright skill log {name}` lists them"
    )


@dataclass(frozen=True, slots=True)
class Witness:
    """An episode behind a line; no ``turns`` (from 0) means all of it."""

    episode: int
    task_id: str
    turns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """A line and its origin.

    Attributes:
        number: From 1.
        version: The first version with the line.
        origin: The author of that version (``initial_skill``, ``step_0003``, ``slow_update_...``).
        step: The training step, or ``None``.
        edits: Ids of the step's edits that hold the line; several if they were merged.
        witnesses: The episodes that the edits cite.
    """

    number: int
    text: str
    version: int
    origin: str
    step: int | None
    edits: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...] = ()


def blame_skill(skill: StoredSkill) -> list[BlamedLine]:
    """Return the origin of each line of a version."""
    with RunStore.open(skill.run / STORE_NAME, read_only=True) as store:
        return blame(store, skill.version)


def blame(store: RunStore, version: int | None = None) -> list[BlamedLine]:
    """Return the origin of each line of a stored version, by default the newest.

    Raises:
        RunError: There is no such version, or the run trains no skill document.
    """
    versions = {one.version: one for one in store.skills()}
    if not versions:
        raise RunError("this run has no versions of a skill document: it trained none")
    wanted = max(versions) if version is None else version
    if wanted not in versions:
        raise RunError(
            f"there is no version {wanted} of the skill; name one from {min(versions)} to "
            f"{max(versions)}"
        )
    origins: list[int] = []
    places: list[int] = []
    before: list[str] = []
    for one in _lineage(versions, wanted):
        lines = store.skill(one.version).splitlines()
        origins, places = _carried(before, lines, origins, places, one.version)
        before = lines
    evidence = _Evidence(store)
    return [
        evidence.line(number, text, versions[origin], place)
        for number, (text, origin, place) in enumerate(
            zip(before, origins, places, strict=True), start=1
        )
    ]


_COMPARISON = "slow_update"  # the phase of the episodes that an epoch update compares


def _lineage(versions: Mapping[int, SkillVersion], version: int) -> list[SkillVersion]:
    """Return a version's ancestors and itself, the first one first."""
    chain = []
    now: int | None = version
    while now is not None:
        chain.append(versions[now])
        now = versions[now].parent
    return chain[::-1]


def _carried(
    before: Sequence[str],
    lines: Sequence[str],
    origins: Sequence[int],
    places: Sequence[int],
    version: int,
) -> tuple[list[int], list[int]]:
    """Return, for each line, the version that it is from, and its number there (from 1)."""
    found = [version] * len(lines)
    numbers = list(range(1, len(lines) + 1))
    matcher = difflib.SequenceMatcher(a=before, b=lines, autojunk=False)
    for old, new, size in matcher.get_matching_blocks():
        found[new : new + size] = origins[old : old + size]
        numbers[new : new + size] = places[old : old + size]
    return found, numbers


_Cited = tuple[int, str, tuple[int, ...]]
"""A step, the task ids that were read, and the cited turns."""


class _Evidence:
    """Finds the edits and episodes behind lines."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._edits: dict[int, list[EditRecord]] = defaultdict(list)
        for edit in store.edits():
            self._edits[edit.step].append(edit)
        self._episodes: dict[tuple[str, int | None], dict[str, list[int]]] = {}
        self._patches: dict[int, dict[str, PatchRecord]] = {}

    def line(self, number: int, text: str, version: SkillVersion, place: int) -> BlamedLine:
        noted = self._noted(text, version)
        edits = [] if noted else self._behind(text, version, place)
        witnesses = self._witnesses(
            noted or [(one.step, *cited) for one in edits for cited in one.evidence]
        )
        if not witnesses and version.origin.startswith(_COMPARISON):
            witnesses = self._compared()
        return BlamedLine(
            number,
            text,
            version.version,
            version.origin,
            version.step,
            tuple(edit.id for edit in edits),
            witnesses,
        )

    def _behind(self, text: str, version: SkillVersion, place: int) -> list[EditRecord]:
        """Return the selected edits of a version's step that hold a line."""
        if version.step is None or not version.origin.startswith("step"):
            return []
        selected = [one for one in self._edits[version.step] if one.stage == "selected"]
        if inside := [one for one in selected if one.lines and _holds(one.lines, place)]:
            return inside
        quoted = [one for one in selected if text.strip() and text.strip() in one.edit.content]
        # A rewritten document, or a blank line between two edits, is from all edits of the step.
        return quoted or selected

    def _noted(self, text: str, version: SkillVersion) -> list[_Cited]:
        """Return the evidence of the analysts who noted a line of the appendix, maybe none."""
        if version.step is None:
            return []
        if version.step not in self._patches:
            found = self._store.patches(version.step)
            self._patches[version.step] = {one.id: one for one in found}
        patches = self._patches[version.step]
        notes = patches.get(f"s{version.step}.notes")
        if notes is None:
            return []
        written = {f"- {note}" for note in notes.details.get("appendix_after", ())}
        if text.strip() not in written | {APPENDIX_START, APPENDIX_HEADING, APPENDIX_END}:
            return []
        read = [patches[name] for name in notes.inputs if name in patches]
        return [(version.step, transcript, ()) for one in read for transcript in one.inputs]

    def _witnesses(self, cited: Sequence[_Cited]) -> tuple[Witness, ...]:
        found: dict[int, Witness] = {}
        for step, transcript, turns in cited:
            task, _, draw = transcript.partition("#")
            episodes = self._of("train", step)
            numbers = episodes.get(task, [])
            if draw.isdecimal() and int(draw) <= len(numbers):
                numbers = numbers[int(draw) - 1 : int(draw)]
            for number in numbers:
                all_turns = {*turns, *(found[number].turns if number in found else ())}
                found[number] = Witness(number, task, tuple(sorted(all_turns)))
        return tuple(found[number] for number in sorted(found))

    def _compared(self) -> tuple[Witness, ...]:
        episodes = self._of(_COMPARISON, None)
        return tuple(
            Witness(number, task) for task, numbers in episodes.items() for number in numbers
        )

    def _of(self, phase: str, step: int | None) -> dict[str, list[int]]:
        """Return the scored episodes of a phase and step by task."""
        key = (phase, step)
        if key not in self._episodes:
            found: defaultdict[str, list[int]] = defaultdict(list)
            for one in self._store.episodes(phase=phase, step=step):
                if one.reward is not None:
                    found[one.task_id].append(one.id)
            self._episodes[key] = dict(found)
        return self._episodes[key]


def _holds(lines: tuple[int, int], place: int) -> bool:
    return lines[0] <= place <= lines[1]
