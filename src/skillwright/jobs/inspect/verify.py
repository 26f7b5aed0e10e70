"""Verify an exported skill: its names, limits, links, hashes, and evidence."""

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
from skillwright.bank.triggers import plain_prose
from skillwright.core import DataError, SkillwrightError
from skillwright.core.jsonio import JsonRecord, read_text
from skillwright.core.skill_file import SKILL_FILE
from skillwright.jobs.inspect.evidence import Evidence, differs, files_of, judge_again
from skillwright.jobs.inspect.pairs import evidence_facts
from skillwright.jobs.inspect.signatures import NoCryptography, read_public_key, why_unsigned
from skillwright.jobs.inspect.standard import advice, broken_links, errors

Outcome = Literal["pass", "fail", "advice", "skipped"]
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Checked(JsonRecord):
    """A check and its outcome; ``advice`` does not fail; a skipped one has the reason."""

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
    try:
        refuse_leaving(path)
        text = read_text(path, "skill file")
    except DataError as problem:
        return Verified(str(folder), (Checked("rules", "fail", str(problem)),))
    checks = [_none("rules", errors(text, folder), "the Agent Skills standard is kept")]
    try:
        fields, body = read_frontmatter(text, str(path))
    except DataError as problem:
        if checks[0].outcome != "fail":
            checks = [Checked("rules", "fail", str(problem))]
        return Verified(str(folder), tuple(checks))
    links, ours = list(broken_links(folder, body)), is_ours(fields)
    checks.append(_none("links", links, "each leads to a file", "fail" if ours else "advice"))
    if advised := list(advice(text)):
        checks.append(_none("advice", advised, "", "advice"))
    metadata = fields["metadata"] if ours else {}
    if ours:
        files = _none("files", _wrong_files(folder, metadata), "those that were exported")
        checks += [files, _hash(folder, metadata)]
    else:
        covers = "; the evidence covers them" if (folder / EVIDENCE_FILE).is_file() else ""
        checks.append(
            Checked("files", "skipped", f"only a SKILL.md of an export lists them{covers}")
        )
        checks.append(Checked("hash", "skipped", "only a SKILL.md of an export holds one"))
    if refuted := metadata.get("refuted"):
        checks.append(Checked("test", "fail", str(refuted)))
    if memorized := metadata.get("memorized"):
        checks.append(Checked("memorized", "advice", str(memorized)))
    proof, stated = await _evidence(folder, metadata, trusted)
    return Verified(str(folder), (*checks, *proof), stated)


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


async def _evidence(
    folder: Path, metadata: Mapping[str, Any], trusted: Any
) -> tuple[list[Checked], tuple[str, ...]]:
    """Check that the parts of the evidence belong together, and judge its scores again."""
    file = folder / EVIDENCE_FILE
    if not file.is_file():
        claims = metadata.get("proven") == "yes"
        why = "the paired scores are not in the folder" if claims else "the skill claims no proof"
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
    return [judged, numbers, *signature], tuple(_stated(evidence, trusted, metadata))


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
    return [Checked("signature", "pass", f"of {whose}, over the evidence with its hashes")]


def _stated(evidence: Evidence, trusted: Any, metadata: Mapping[str, Any]) -> Iterator[str]:
    found = evidence.measured
    draws = sum(len(one.candidate) for one in evidence.scores)
    yield (
        f"that {found.model.name or 'the agent'} had these {draws} pairs of scores on "
        f"{found.environment.name}; with the run at hand, `skillwright replay` plays them again"
    )
    if expected := metadata.get("expected-gain"):
        yield (
            f"that {plain_prose(str(expected), 80)} are expected on further tasks: the gain of "
            "the test, corrected for the selection of the candidate among the run's steps"
        )
    if evidence.text.file is None:
        yield "that these files hold the text that was tested, in parts"
    if evidence.signature is None:
        yield "who wrote it: it is not signed, and anyone could write a folder like this"
    elif trusted is None:
        yield "whose key it is; --key FILE accepts one key alone"
