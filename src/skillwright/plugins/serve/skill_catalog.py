"""The skills that an MCP server offers: their files, digests and evidence, as they are on disk."""

import asyncio
import hashlib
import mimetypes
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final
from urllib.parse import quote, unquote

import yaml

from skillwright.bank import LexicalEmbedder
from skillwright.bank.formats.agent_skills import (
    EVIDENCE_FILE,
    refuse_leaving,
    skill_files,
    split_frontmatter,
)
from skillwright.config.bank import BankSection
from skillwright.core import (
    DataError,
    RunError,
    SkillwrightError,
    Task,
    UsageError,
    did_you_mean,
)
from skillwright.core.jsonio import read_text
from skillwright.core.skill_file import SKILL_FILE
from skillwright.jobs.inspect import (
    Evidence,
    ExportOptions,
    began_with_folder,
    export_bank,
    export_document,
    find_skill,
    folder_of,
    plan_folder_export,
)
from skillwright.jobs.inspect.standard import errors
from skillwright.jobs.inspect.verify import Verified, verify_skills
from skillwright.jobs.run import bank_source, opened_embedder, read_injected_bank
from skillwright.runs.folder import STORE_NAME

SCHEME: Final = "skill://"
MOST_FILES: Final = 512
MOST_BYTES: Final = 16 * 2**20
"""Limits of one skill, by the extension."""
DIRECTORY: Final = "inode/directory"

_TEXT: Final = "text/markdown"
_NAMED: Final = ("evidence", "signature", "memorized")
_NO_SKILLS: Final = frozenset({"node_modules", "__pycache__"})
_DOCUMENTS: Final = (".md", ".markdown", ".txt")


class NotServed(UsageError):
    """A client named something that is not offered."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of a skill's evidence.

    Attributes:
        status: ``proven``: its scores hold when they are judged again; ``unproven``: there are
            none, or no gate accepted them; ``refuted``: a check of its files or evidence fails.
        is_signed: Whether a signature over all files holds; the key may be anyone's.
        said: The checks behind it.
    """

    status: str
    is_signed: bool
    said: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return {"status": self.status, "signed": self.is_signed, "checks": list(self.said)}


@dataclass(frozen=True, slots=True)
class ServedFile:
    """A file of a skill; digest and size are of its raw bytes."""

    uri: str
    path: Path
    digest: str
    size: int

    @property
    def mime_type(self) -> str:
        """Its media type, by its name."""
        if self.path.suffix.lower() == ".md":
            return _TEXT
        return mimetypes.guess_type(self.path.name)[0] or "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ServedSkill:
    """A skill with all of its files, at one moment."""

    root: str
    frontmatter: Mapping[str, Any]
    files: tuple[ServedFile, ...]
    mark: Mark
    text: str

    @property
    def uri(self) -> str:
        """The URI of its SKILL.md."""
        return f"{self.root}/{SKILL_FILE}"

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in ``skills/list``."""
        listed = [{"uri": one.uri, "digest": one.digest, "size": one.size} for one in self.files]
        return {"uri": self.uri, "frontmatter": dict(self.frontmatter), "resources": listed}


@dataclass
class Catalog:
    """The skills below a folder; each call looks at the folder again.

    Attributes:
        folder: A skill's folder, or a folder of such folders.
        named: What is served, in words.
        left_out: Why a folder is not offered, by its path.
    """

    folder: Path
    named: str
    left_out: dict[str, str] = field(default_factory=dict)
    _known: dict[Path, tuple[object, ServedSkill]] = field(default_factory=dict, repr=False)

    async def skills(self) -> list[ServedSkill]:
        """Return the skills in the order of their URIs; those that break the rules are left out."""
        found, self.left_out = list[ServedSkill](), {}
        for path in skill_files(self.folder):
            place = path.parent.relative_to(self.folder).as_posix()
            try:
                found.append(await self._skill(path.parent))
            except (SkillwrightError, OSError) as problem:
                self.left_out[place] = str(problem)
        return sorted(found, key=lambda one: one.uri)

    async def skill(self, uri: str) -> ServedSkill:
        """Return the skill whose SKILL.md has a URI.

        Raises:
            NotServed: There is none.
        """
        skills = {unquote(one.uri): one for one in await self.skills()}
        if unquote(uri) not in skills:
            near = did_you_mean(uri, [one.uri for one in skills.values()])
            raise NotServed(f"no skill is served at {uri}. {near}")
        return skills[unquote(uri)]

    async def read(self, uri: str) -> tuple[ServedFile, bytes]:
        """Return a file and its bytes of now.

        A URI is only compared with those that are offered, so it cannot leave a skill's folder.

        Raises:
            NotServed: No skill has such a file, or it became too large.
        """
        skills = await self.skills()
        files = {unquote(file.uri): (one, file) for one in skills for file in one.files}
        if unquote(uri) not in files:
            near = did_you_mean(uri, [one.uri for _, one in files.values()])
            raise NotServed(f"no file is served at {uri}. {near}")
        _, file = files[unquote(uri)]
        return file, _bytes(file.path)

    async def children(self, uri: str) -> list[dict[str, Any]]:
        """Return the direct children of a directory as resources.

        Raises:
            NotServed: There is no such directory.
        """
        wanted = f"{unquote(uri).rstrip('/')}/"
        found: dict[str, dict[str, Any]] = {}
        for skill in await self.skills():
            for file in skill.files:
                if not unquote(file.uri).startswith(wanted):
                    continue
                if unquote(file.uri).count("/") == wanted.count("/"):
                    found[file.uri] = resource_of(file, skill)
                    continue
                child = "/".join(file.uri.split("/")[: wanted.count("/") + 1])
                name = unquote(child.rpartition("/")[2])
                found[child] = {"uri": child, "name": name, "mimeType": DIRECTORY}
        if not found or not wanted.startswith(SCHEME):
            raise NotServed(f"{uri} is not a directory resource")
        return [found[key] for key in sorted(found)]

    async def _skill(self, folder: Path) -> ServedSkill:
        paths = sorted(_files(folder))
        seen = [(path, *_looks(path)) for path in paths]
        known = self._known.get(folder)
        if known is not None and known[0] == seen:
            return known[1]
        text = read_text(folder / SKILL_FILE, "skill file")
        if broken := errors(text, folder):
            raise DataError(f"clients would refuse it: {'; '.join(broken[:5])}")
        frontmatter = _frontmatter(text)
        # The last part is the name as written: folders may have its letters decomposed (NFD).
        inner = folder.relative_to(self.folder).parts[:-1]
        root = SCHEME + _quoted((*inner, frontmatter["name"]))
        files = tuple(
            _served(path, f"{root}/{_quoted(path.relative_to(folder).parts)}") for path in paths
        )
        if sum(file.size for file in files) > MOST_BYTES:
            raise DataError(f"its files have more than {MOST_BYTES:,} bytes together")
        (verified,) = await verify_skills(folder)
        skill = ServedSkill(root, frontmatter, files, _mark(verified, folder), text)
        self._known[folder] = (seen, skill)
        return skill


def resource_of(file: ServedFile, skill: ServedSkill) -> dict[str, Any]:
    """Return a file as an MCP resource; that of a SKILL.md names the skill's evidence."""
    found: dict[str, Any] = {"uri": file.uri, "mimeType": file.mime_type, "size": file.size}
    if file.uri != skill.uri:
        return {"name": file.path.name, **found}
    about = {"name": skill.frontmatter["name"], "description": skill.frontmatter["description"]}
    return {**about, **found, "_meta": {"skillwright/evidence": skill.mark.to_dict()}}


def similar(query: str, texts: Sequence[str]) -> list[float]:
    """Return how similar texts are to a query, by their words."""
    words = LexicalEmbedder()
    return [
        round(float(one), 4)
        for one in words.encode_skills(list(texts)) @ words.encode_queries([query])[0]
    ]


class Rules:
    """The single skills of a bank, retrieved for a task as an agent gets them."""

    def __init__(self, where: str, env: str, search: BankSection) -> None:
        self.bank, self._env, self._search = read_injected_bank(where, "serve --mcp"), env, search

    def find(self, query: str) -> list[dict[str, Any]]:
        """Return the skills for a task, best first, with the episodes behind each."""
        with opened_embedder(self._search.embedder) as embedder:
            source = bank_source(self.bank, self._search, embedder)
            (found,) = source.retrieve([Task("query", self._env, description=query)])
        counts = self.bank.stats_of
        return [
            {
                "id": one.skill.id,
                "name": one.skill.name,
                "principle": one.skill.principle,
                "applies": one.skill.applicability,
                "score": one.score,
                "origin": str(one.skill.provenance.origin),
                "episodes": counts(one.skill.id).episodes,
                "solved": counts(one.skill.id).wins,
            }
            for one in found.all
        ]


@contextmanager
def catalog_of(
    where: str, root: Path, env: str, search: BankSection
) -> Iterator[tuple[Catalog, Rules | None]]:
    """Open a folder of skills; a run or a bank is exported to a temporary folder first.

    Args:
        where: A folder, a SKILL.md, a run, ``RUN@VERSION``, a bank's file, or ``seed:NAME``.
        root: Folder of runs.
        env: The environment whose rules name categories of tasks, or "".
        search: Search settings of a bank.

    Raises:
        UsageError: There is nothing of that name, or it has no skill.
    """
    path = Path(where).expanduser()
    if path.name == SKILL_FILE and path.is_file():
        path = path.parent
    if path.is_dir() and not (path / STORE_NAME).is_file():
        if next(iter(skill_files(path)), None) is None:
            raise DataError(f"{where!r} holds no {SKILL_FILE}, nor does a folder in it")
        yield Catalog(path.resolve(), where), None
        return
    with tempfile.TemporaryDirectory(prefix="skillwright-mcp-") as made:
        rules = None
        options = ExportOptions(Path(made).resolve(), asks_model=False)
        if where.startswith("seed:") or (path.is_file() and path.suffix not in _DOCUMENTS):
            rules = Rules(where, env, search)
            asyncio.run(export_bank(rules.bank, where, options))
        elif path.is_file() and not any((one / STORE_NAME).is_file() for one in path.parents):
            text = read_text(path, "skill document")
            asyncio.run(export_document(text, None, 0, options))
        else:
            _export_run(where, root, options)
        yield Catalog(options.place, where), rules


def _export_run(where: str, root: Path, options: ExportOptions) -> None:
    try:
        found = find_skill(where, root)
    except RunError as problem:
        raise UsageError(f"{where!r} is no folder of skills, bank or run: {problem}") from problem
    if began_with_folder(found.run):
        folder = options.place / folder_of(found.run).resolve().name
        asyncio.run(plan_folder_export(found, folder)).write()
    else:
        asyncio.run(export_document(found.text, found.run, found.version, options))


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a skill; hidden ones and caches are none.

    Raises:
        DataError: A link leaves the folder, something is no file, or there are too many.
    """
    count = 0
    for place, inner, names in os.walk(folder):
        shown = [one for one in inner if not one.startswith(".") and one not in _NO_SKILLS]
        inner[:] = sorted(shown)
        links = [one for one in shown if (Path(place) / one).is_symlink()]
        for name in [*links, *(one for one in names if not one.startswith("."))]:
            path = Path(place) / name
            refuse_leaving(path, folder)
            if not S_ISREG(path.stat().st_mode):
                raise DataError(f"{str(path)!r} is no file; put a copy there")
            count += 1
            if count > MOST_FILES:
                raise DataError(f"it has more than {MOST_FILES} files")
            yield path


def _looks(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _quoted(parts: Sequence[str]) -> str:
    try:
        return "/".join(quote(part, safe="") for part in parts)
    except UnicodeEncodeError as error:
        raise DataError(f"the name {'/'.join(parts)!r} is not UTF-8; rename it") from error


def _served(path: Path, uri: str) -> ServedFile:
    raw = _bytes(path)
    return ServedFile(uri, path, f"sha256:{hashlib.sha256(raw).hexdigest()}", len(raw))


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise NotServed(f"{path.name} cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise NotServed(f"{path.name} has more than {MOST_BYTES:,} bytes")
    return raw


class _CoreSchema(yaml.SafeLoader):
    """YAML 1.2, as hosts in JavaScript and Go read it: ``yes`` and dates are texts."""


_CoreSchema.yaml_implicit_resolvers = {}
for _kind, _form, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", r"[-+]?[0-9]+", [*"-+0123456789"]),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?", [*"-+.0123456789"]),
):
    _CoreSchema.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_form})\Z"), _first
    )


def _frontmatter(text: str) -> dict[str, Any]:
    written, _ = split_frontmatter(text, SKILL_FILE)
    try:
        fields: dict[str, Any] = yaml.load(written, _CoreSchema)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"clients cannot read its frontmatter: {error}") from error
    for key in ("name", "description"):
        if not isinstance(fields[key], str):
            raise DataError(f"clients read {key} {fields[key]!r} as no text; put it in quotes")
    return fields


def _mark(verified: Verified, folder: Path) -> Mark:
    checks = {one.name: one for one in verified.checks}
    named = [one for one in verified.checks if one.outcome == "fail" or one.name in _NAMED]
    said = tuple(f"{one.name} {one.outcome}: {one.said}" for one in named if one.said)
    signature = checks.get("signature")
    is_signed = signature is not None and signature.outcome == "pass"
    if not verified.holds:
        return Mark("refuted", False, said)
    if checks["evidence"].outcome != "pass":
        return Mark("unproven", is_signed, said)
    found = Evidence.read(read_text(folder / EVIDENCE_FILE, "evidence"), EVIDENCE_FILE)
    return Mark("proven" if found.result.decision == "accept" else "unproven", is_signed, said)
