"""Verify an exported skill: its names, limits, links, hashes, and evidence."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from skillwright.bank.formats.agent_skills import (
    EVIDENCE_FILE,
    HASH,
    content_hash,
    exported_files,
    is_ours,
    read_frontmatter,
    refuse_leaving,
    skill_files,
)
from skillwright.core import DataError, SkillwrightError
from skillwright.core.jsonio import JsonRecord, read_text
from skillwright.core.skill_file import SKILL_FILE
from skillwright.jobs.inspect.evidence import Evidence, differs, gate_facts, judge_again
from skillwright.jobs.inspect.standard import advice, broken_links, errors

Outcome = Literal["pass", "fail", "advice", "skipped"]
_MOST_NAMED = 5
_OF_OURS = ("files", "hash", "evidence", "metadata")


@dataclass(frozen=True, slots=True)
class Checked(JsonRecord):
    """A check and its outcome; ``advice`` does not fail; a skipped one has the reason."""

    name: str
    outcome: Outcome
    said: str = ""


@dataclass(frozen=True, slots=True)
class Verified(JsonRecord):
    """The checks of one folder."""

    folder: str
    checks: tuple[Checked, ...]

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return all(one.outcome != "fail" for one in self.checks)


async def verify_skills(folder: Path) -> tuple[Verified, ...]:
    """Check a folder of Agent Skills, or each folder of skills in it, without calling a model.

    Raises:
        DataError: There is no SKILL.md.
    """
    found = list(skill_files(folder))
    if not found:
        raise DataError(
            f"{str(folder)!r} holds no {SKILL_FILE}, nor does a folder in it; name a folder that "
            "`skillwright skill export` or `skillwright bank export --to` wrote"
        )
    return tuple([Verified(str(one.parent), tuple(await _checks(one))) for one in found])


async def _checks(path: Path) -> list[Checked]:
    folder = path.parent
    try:
        refuse_leaving(path)
        text = read_text(path, "skill file")
    except DataError as problem:
        return [Checked("rules", "fail", str(problem))]
    checks = [_none("rules", errors(text, folder), "the Agent Skills standard is kept")]
    try:
        fields, body = read_frontmatter(text, str(path))
    except DataError as problem:
        return checks if checks[0].outcome == "fail" else [Checked("rules", "fail", str(problem))]
    links, ours = list(broken_links(folder, body)), is_ours(fields)
    checks.append(_none("links", links, "each leads to a file", "fail" if ours else "advice"))
    if advised := list(advice(text)):
        checks.append(_none("advice", advised, "", "advice"))
    if not ours:
        said = "skillwright did not write this folder"
        return [*checks, *(Checked(one, "skipped", said) for one in _OF_OURS)]
    metadata = fields["metadata"]
    files = _none("files", _wrong_files(folder, metadata), "those that were exported")
    return [*checks, files, _hash(folder, metadata), *await _evidence(folder, metadata)]


def _none(name: str, problems: Iterable[str], otherwise: str, if_any: Outcome = "fail") -> Checked:
    found = list(problems)
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    if found:
        return Checked(name, if_any, "; ".join(found[:_MOST_NAMED]) + more)
    return Checked(name, "pass", otherwise)


def _wrong_files(folder: Path, metadata: Mapping[str, Any]) -> Iterator[str]:
    listed, there = exported_files(folder, metadata)
    for one in sorted(set(there) - set(listed)):
        yield f"{one} was not exported"
    for one in sorted(set(listed) - set(there)):
        yield f"{one} is missing"


def _hash(folder: Path, metadata: Mapping[str, Any]) -> Checked:
    if HASH not in metadata:
        return Checked("hash", "skipped", "its frontmatter holds no hash")
    listed, _ = exported_files(folder, metadata)
    try:
        for one in listed:
            refuse_leaving(folder / one, folder)
        found = content_hash({one: read_text(folder / one, "file") for one in listed})
    except DataError as problem:
        return Checked("hash", "fail", str(problem))
    if found != metadata[HASH]:
        return Checked("hash", "fail", "a file was changed since it was exported")
    return Checked("hash", "pass", f"{found[:16]} over {len(listed)} files")


async def _evidence(folder: Path, metadata: Mapping[str, Any]) -> list[Checked]:
    """Judge the stored pairs again, and compare the verdict with the metadata."""
    file = folder / EVIDENCE_FILE
    if not file.is_file():
        claims = metadata.get("proven") == "yes"
        why = "the paired scores do not travel with it" if claims else "nothing is claimed"
        return [Checked(one, "skipped", why) for one in ("evidence", "metadata")]
    try:
        refuse_leaving(file, folder)
        evidence = Evidence.read(json.loads(read_text(file, "evidence")), str(file))
        problem = differs(evidence.verdict, await judge_again(evidence))
    except (SkillwrightError, ValueError, RecursionError) as error:
        skipped = Checked("metadata", "skipped", "the evidence cannot be read")
        return [Checked("evidence", "fail", str(error)), skipped]
    verdict = evidence.verdict
    said = f"{verdict.decision} again, from {verdict.pairs} stored pairs of "
    judged = Checked("evidence", "pass", f"{said}{len(evidence.tasks)} tasks; {verdict.reason}")
    if problem:
        judged = Checked("evidence", "fail", f"judged again, {problem}")
    wrong = (
        f"{key} says {metadata.get(key)!r}, and the evidence {value!r}"
        for key, value in gate_facts(verdict.to_dict()).items()
        if metadata.get(key) != value
    )
    same = "gain, interval, p-value and alpha are those of the evidence"
    return [judged, _none("metadata", wrong, same)]
