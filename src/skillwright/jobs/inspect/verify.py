"""Verify an exported skill: its names, limits, links, hashes, and evidence."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import yaml

from skillwright.bank.formats.agent_skills import (
    EVIDENCE_FILE,
    HASH,
    broken_links,
    broken_rules,
    content_hash,
    exported_files,
    is_ours,
    read_frontmatter,
    refuse_leaving,
    skill_files,
    split_frontmatter,
)
from skillwright.config.yaml_files import StrictLoader
from skillwright.core import DataError, SkillwrightError
from skillwright.core.jsonio import JsonRecord, read_text
from skillwright.core.skill_file import SKILL_FILE
from skillwright.jobs.inspect.evidence import Evidence, differs, gate_facts, judge_again

Outcome = Literal["pass", "fail", "skipped"]
_MOST_NAMED = 5
_OF_OURS = ("files", "hash", "evidence", "metadata")


@dataclass(frozen=True, slots=True)
class Checked(JsonRecord):
    """A check and its outcome; a skipped one has the reason."""

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
    unread: list[str] = []
    try:
        refuse_leaving(path)
        text = read_text(path, "skill file")
        unread += _unreadable(text, str(path))
        fields, body = read_frontmatter(text, str(path))
    except DataError as problem:
        return [Checked("rules", "fail", "; ".join(unread) or str(problem))]
    broken = chain(unread, broken_rules(folder, fields, body))
    rules = _none("rules", broken, "the Agent Skills standard is kept")
    links = _none("links", broken_links(folder, body), "each leads to a file one level deep")
    if not is_ours(fields):
        said = "skillwright did not write this folder"
        others = (Checked(one, "skipped", said) for one in _OF_OURS)
        return [rules, links, *others]
    metadata = fields["metadata"]
    files = _none("files", _wrong_files(folder, metadata), "those that were exported")
    return [rules, links, files, _hash(folder, metadata), *await _evidence(folder, metadata)]


def _unreadable(text: str, where: str) -> Iterator[str]:
    """Yield reasons why clients, which read YAML strictly, drop a skill or read a part of it."""
    if text.startswith("\ufeff"):
        yield "it begins with a byte order mark, so clients find no frontmatter; save it without"
    written, _ = split_frontmatter(text, where)
    try:
        yaml.load(written, Loader=StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" in line {mark.line + 2}" if mark else ""
        problem = error.problem or error.context or ""
        move = "put the value in quotes"
        if "\\t" in problem:
            move = "write a blank in the place of the tab"
        elif "twice" in problem:
            move = "take one out"
        yield f"clients drop it, as they cannot read its frontmatter{line}: {problem}; {move}"
        return
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield f"clients drop it, as they cannot read its frontmatter: {error}"
        return
    root = yaml.compose(written, yaml.SafeLoader)
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        cut = re.match(r"[ \t]+#[^\n]*", written[value.end_mark.index :])
        if key.value == "description" and getattr(value, "style", None) is None and cut:
            yield (
                f"clients read the description only up to {value.value!r}: what follows a blank "
                f"and #, {cut[0].strip()!r}, is a comment; put the description in quotes"
            )


def _none(name: str, problems: Iterator[str], otherwise: str) -> Checked:
    found = list(problems)
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    if found:
        return Checked(name, "fail", "; ".join(found[:_MOST_NAMED]) + more)
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
