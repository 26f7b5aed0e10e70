"""Verify an exported skill: its names, limits, links, hashes, and evidence."""

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
from skillwright.jobs.inspect.evidence import Evidence, differs, files_of, judge_again
from skillwright.jobs.inspect.pairs import evidence_facts
from skillwright.jobs.inspect.signatures import NoCryptography, read_public_key, why_unsigned

Outcome = Literal["pass", "fail", "skipped"]
_MOST_NAMED = 5
_OF_OURS = ("files", "hash")


@dataclass(frozen=True, slots=True)
class Checked(JsonRecord):
    """A check and its outcome; a skipped one has the reason."""

    name: str
    outcome: Outcome
    said: str = ""


@dataclass(frozen=True, slots=True)
class Verified(JsonRecord):
    """The checks of one folder.

    Attributes:
        stated: The claims that nothing in the folder can confirm.
    """

    folder: str
    checks: tuple[Checked, ...]
    stated: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no check failed."""
        return all(one.outcome != "fail" for one in self.checks)


async def verify_skills(folder: Path, key: Path | None = None) -> tuple[Verified, ...]:
    """Check a folder of Agent Skills, or each folder of skills in it, without calling a model.

    Args:
        folder: A skill's folder, or a folder of such folders.
        key: File of the public key that each skill must be signed with.

    Raises:
        DataError: There is no SKILL.md.
        UsageError: The key cannot be read, or the extra ``sign`` is missing.
    """
    trusted = None if key is None else read_public_key(key)
    found = list(skill_files(folder))
    if not found:
        raise DataError(
            f"{str(folder)!r} holds no {SKILL_FILE}, nor does a folder in it; name a folder that "
            "`skillwright skill export` or `skillwright bank export --to` wrote"
        )
    return tuple([await _verified(one, trusted) for one in found])


async def _verified(path: Path, trusted: Any) -> Verified:
    folder = path.parent
    unread: list[str] = []
    try:
        refuse_leaving(path)
        text = read_text(path, "skill file")
        unread += _unreadable(text, str(path))
        fields, body = read_frontmatter(text, str(path))
    except DataError as problem:
        checks = (Checked("rules", "fail", "; ".join(unread) or str(problem)),)
        return Verified(str(folder), checks)
    broken = chain(unread, broken_rules(folder, fields, body))
    rules = _none("rules", broken, "the Agent Skills standard is kept")
    links = _none("links", broken_links(folder, body), "each leads to a file one level deep")
    found = fields.get("metadata")
    metadata: Mapping[str, Any] = found if isinstance(found, dict) else {}
    proof, stated = await _evidence(folder, metadata if is_ours(fields) else {}, trusted)
    if not is_ours(fields):
        said = "skillwright did not write this SKILL.md"
        whole = [Checked(one, "skipped", said) for one in _OF_OURS]
    else:
        files = _none("files", _wrong_files(folder, metadata), "those that were exported")
        whole = [files, _hash(folder, metadata)]
    return Verified(str(folder), (rules, links, *whole, *proof), stated)


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


async def _evidence(
    folder: Path, metadata: Mapping[str, Any], trusted: Any
) -> tuple[list[Checked], tuple[str, ...]]:
    """Check that the parts of the evidence belong together, and judge its scores again."""
    file = folder / EVIDENCE_FILE
    if not file.is_file():
        claims = metadata.get("proven") == "yes"
        why = "the paired scores are not in the folder" if claims else "nothing is claimed"
        unsigned = [Checked("signature", "fail", "there is no evidence")] if trusted else []
        return [*(Checked(one, "skipped", why) for one in ("evidence", "metadata")), *unsigned], ()
    try:
        refuse_leaving(file, folder)
        evidence = Evidence.read(read_text(file, "evidence"), EVIDENCE_FILE)
        again = await judge_again(evidence)
        problem = evidence.why_not_of(files_of(folder)) or differs(evidence.result, again)
    except (SkillwrightError, ValueError, ArithmeticError, RecursionError) as error:
        skipped = Checked("metadata", "skipped", "the evidence does not hold")
        return [Checked("evidence", "fail", str(error)), skipped], ()
    judged = Checked("evidence", "pass", f"of these files, recomputed: {again.reason}")
    if problem:
        judged = Checked("evidence", "fail", problem)
    wrong = (
        f"{key} says {metadata.get(key)!r}, and the evidence {value!r}"
        for key, value in evidence_facts(evidence).items()
        if key in metadata and metadata[key] != value
    )
    numbers = _none("metadata", wrong, "its numbers are those of the evidence")
    signature = _signature(evidence, trusted)
    return [judged, numbers, *signature], tuple(_stated(evidence, trusted))


def _signature(evidence: Evidence, trusted: Any) -> list[Checked]:
    if evidence.signature is None and trusted is None:
        return []
    try:
        problem = why_unsigned(evidence, trusted)
    except NoCryptography as error:
        return [Checked("signature", "skipped", str(error))]
    if problem:
        return [Checked("signature", "fail", problem)]
    whose = "your key" if trusted else f"the key {evidence.signature and evidence.signature.key}"
    return [Checked("signature", "pass", f"of {whose}, over all files and the evidence")]


def _stated(evidence: Evidence, trusted: Any) -> Iterator[str]:
    found = evidence.measured
    draws = sum(len(one.candidate) for one in evidence.scores)
    yield (
        f"that {found.model.name or 'the agent'} had these {draws} pairs of scores on "
        f"{found.environment.name}; with the run at hand, `skillwright replay` plays them again"
    )
    if evidence.text.file is None:
        yield "that these files hold the text that was tested, in parts"
    if evidence.signature is None:
        yield "who wrote it: it is not signed, and anyone could write a folder like this"
    elif trusted is None:
        yield "whose key it is; --key FILE accepts one key alone"
