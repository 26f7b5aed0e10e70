"""Import tau-bench's data, and its prompts for the simulated user, from a download or a copy.

Its Python files are parsed, never executed. The result is compared with known checksums, so its
source does not matter.
"""

import ast
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.datasets import FetchSettings, fetch_file
from skillwright.worlds.tau_bench import tau3_data
from skillwright.worlds.tau_bench.tau_core.banking import BANKING
from skillwright.worlds.tau_bench.tau_core.domain import Domain
from skillwright.worlds.tau_bench.tau_core.retail import RETAIL
from skillwright.worlds.tau_bench.tau_core.store import (
    DOMAINS,
    MANIFEST,
    Store,
    is_original,
    manifest_of,
)
from skillwright.worlds.tau_bench.upstream_words import (
    SOURCE,
    WORDS_FILE,
    Call,
    assigned,
    literal,
    parse,
    template_of,
)

REPOSITORY: Final = "https://github.com/sierra-research/tau-bench"
COMMIT: Final = "59a200c"
ARCHIVE: Final = f"{REPOSITORY}/archive/{COMMIT}.tar.gz"
SPLITS: Final = ("test", "train", "dev")

_ENVS: Final = "tau_bench/envs"
_LARGEST: Final = 64 << 20
_MOST_BYTES: Final = 1 << 30
_MOST_MEMBERS: Final = 20_000
_WANTED: Final = re.compile(
    rf"[^/]+/(LICENSE|tau_bench/{SOURCE.as_posix()}|{_ENVS}/(?:retail|airline)/"
    r"(?:wiki\.md|rules\.py|tasks_(?:test|train|dev)\.py|data/[a-z]+\.json|tools/\w+\.py)"
    r"|data/tau2/domains/(?:retail|airline|telecom)/\w+\.(?:json|md|toml)"
    r"|data/tau2/domains/banking_knowledge/(?:\w+/)*[^/]+\.(?:json|md)"
    r"|src/tau2/domains/banking_knowledge/tools\.py)"
)
_BY_HAND: Final = (
    "Download it where there is a network and run `skillwright data tau-bench --from FILE`, or "
    f"`git clone {REPOSITORY}`, check out {COMMIT}, and name that folder. For --tasks tau3 it is "
    f"{tau3_data.REPOSITORY} at {tau3_data.COMMIT}"
)
_TASK_KEYS: Final = ("user_id", "instruction", "actions", "outputs")
_NOT_TAKEN: Final = {"annotator"}
_OWN: Final = re.compile(r"LICENSE|tasks_\w+\.json")
# The known checksums of the airline's files are without a final line break.
_ENDS: Final = {"airline": ""}


@dataclass(frozen=True, slots=True)
class Fetched:
    """An imported data set."""

    folder: str
    checksum: str  # identifies the data set
    is_pinned: bool  # equal to that of `COMMIT`; else its scores compare with no others
    tasks: Mapping[str, int]  # split -> number of tasks
    was_there: bool = False  # it was already there and complete


def fetch_tau_bench(
    into: Path,
    source: str | None = None,
    *,
    domain: str = RETAIL.name,
    any_version: bool = False,
    settings: FetchSettings = FetchSettings(limit_bytes=512 << 20),  # noqa: B008 - it is frozen
) -> Fetched:
    """Put the data of a domain into a folder, completely or not at all.

    Args:
        into: The folder.
        source: A checkout, an archive of one (``.tar.gz``), or the address of an archive; of tau3
            also ``inspect-evals`` for that package. ``None`` is the pinned commit's address, and
            keeps complete data that is already there.
        domain: Name in `DOMAINS`.
        any_version: Accept other data than that of the pinned commit.
        settings: Timeouts and limits of a download.

    Raises:
        DataError: There is no such domain; the source is missing, damaged, or another version; or
            the folder has other files.
    """
    if domain not in DOMAINS:
        raise DataError(f"tau-bench has no domain {domain!r}. {did_you_mean(domain, DOMAINS)}")
    wanted = DOMAINS[domain]
    if source is not None and not str(source).strip():
        raise DataError(
            "the source of tau-bench is blank; name a checkout, an archive or an address"
        )
    into = _target(into)
    _refuse_foreign(into, wanted)
    if source is None and (whole := _whole(into, wanted)):
        return whole
    if source is None:
        archive = tau3_data.ARCHIVE if wanted.is_tau3 else ARCHIVE
        source = tau3_data.INSPECT_EVALS if wanted is BANKING else archive
    with tempfile.TemporaryDirectory(prefix="skillwright-") as folder:
        work, made = Path(folder), Path(folder) / "made"
        made.mkdir()
        checkout = _checkout(source, work, settings)
        (tau3_data.convert_tau3 if wanted.is_tau3 else _convert)(checkout, made, wanted)
        is_pinned = _check(made, source, wanted, any_version)
        store = Store(made, wanted)
        store.load()
        tasks = {split: len(store.tasks(split)) for split in store.splits}
        fetched = Fetched(str(into), store.checksum, is_pinned, tasks)
        _place(made, into, wanted)
    return fetched


def _target(into: Path) -> Path:
    """Follow a link, so that its target is replaced, not the link."""
    try:
        return Path(into).expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise DataError(f"{str(into)!r} cannot be followed: {error}") from error


def _checkout(source: str, work: Path, settings: FetchSettings) -> Path:
    """Return a folder with the files as in the repository."""
    if source == tau3_data.INSPECT_EVALS:
        return tau3_data.installed_data()
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    archive = fetch_file(source, work / "archive.tar.gz", instead=f"{_BY_HAND}.", settings=settings)
    return _unpacked(archive, work / "checkout", source)


def _unpacked(archive: Path, into: Path, source: str) -> Path:
    """Unpack the needed files after checking their names; ignore others."""
    try:
        with _Bounded(archive) as packed, tarfile.open(fileobj=packed, mode="r:") as tar:
            for member in _members(tar):
                name = _WANTED.fullmatch(member.name)
                content = tar.extractfile(member) if name and member.isreg() else None
                if name and content:
                    target = into / name[1]
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content.read(_LARGEST))
    except _TooLarge as error:
        raise DataError(f"{source} is no archive of tau-bench: {error}. {_BY_HAND}.") from error
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{source} is not a whole .tar.gz archive: {error}. {_BY_HAND}.") from error
    return into


class _TooLarge(Exception):
    """An archive that unpacks to more than a checkout has."""


def _members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for count, member in enumerate(tar):
        if count == _MOST_MEMBERS:
            raise _TooLarge(f"it has more than {_MOST_MEMBERS:,} members")
        yield member


class _Bounded(gzip.GzipFile):
    """An archive's unpacked bytes up to a limit, against compression bombs."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _LARGEST:  # such as the text of a header
            raise _TooLarge(f"it has a part of more than {_LARGEST:,} bytes")
        self._refuse(self.tell() + size)
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._refuse(offset)
        return super().seek(offset, whence)

    def _refuse(self, end: int) -> None:
        if end > _MOST_BYTES:
            raise _TooLarge(f"it unpacks to more than {_MOST_BYTES:,} bytes")


def _convert(checkout: Path, into: Path, domain: Domain) -> None:
    ours, end = checkout / _ENVS / domain.name, _ENDS.get(domain.name, "\n")
    if not ours.is_dir():
        raise DataError(
            f"{str(checkout)!r} has no folder {_ENVS}/{domain.name}: it is no checkout of "
            f"tau-bench. {_BY_HAND}."
        )
    _refuse_leaving(checkout, domain)
    made = {f"{table}.json": _read(ours / "data" / f"{table}.json") for table in domain.tables}
    made["wiki.md"] = _read(ours / "wiki.md")
    made["rules.json"] = _json(_rules(ours / "rules.py"), end)
    made["tools.json"] = _json(_tools(ours / "tools"), end)
    splits = [split for split in SPLITS if (ours / f"tasks_{split}.py").exists()]
    if not splits:
        raise DataError(f"{str(ours)!r} has no tasks_test.py, tasks_train.py or tasks_dev.py")
    for split in splits:
        made[f"tasks_{split}.json"] = _json(_tasks(ours / f"tasks_{split}.py", split), end)
    words = checkout / "tau_bench" / SOURCE
    if words.exists():
        made[WORDS_FILE] = template_of(_read_utf8(words), repr(str(words))).encode()
    if (checkout / "LICENSE").exists():
        made["LICENSE"] = _read(checkout / "LICENSE")
    for name, content in made.items():
        (into / name).write_bytes(content)


def _refuse_leaving(checkout: Path, domain: Domain) -> None:
    """Refuse links to files outside the checkout; their content would be copied."""
    ours, root = checkout / _ENVS / domain.name, checkout.resolve()
    files = [
        checkout / "LICENSE",
        checkout / "tau_bench" / SOURCE,
        ours / "wiki.md",
        ours / "rules.py",
    ]
    files += [ours / "data" / f"{table}.json" for table in domain.tables]
    files += [ours / f"tasks_{split}.py" for split in SPLITS]
    for path in [*files, *sorted((ours / "tools").glob("*.py"))]:
        try:
            inside = path.resolve().is_relative_to(root)
        except (OSError, RuntimeError):  # a circular link
            inside = False
        if not inside:
            raise DataError(f"{str(path)!r} is a link that leaves the checkout; it is not followed")


def _tasks(path: Path, split: str) -> list[dict[str, Any]]:
    # The airline has one split, whose file has no split in the name.
    name = f"TASKS_{split.upper()}"
    listed = assigned(_parsed(path), (name, "TASKS"), str(path))
    if not isinstance(listed, list):
        raise DataError(f"{str(path)!r}: {name} is not a list")
    return [
        _task(index, entry, f"{str(path)!r}: task {index}") for index, entry in enumerate(listed)
    ]


def _task(index: int, entry: Any, where: str) -> dict[str, Any]:
    fields = _fields(entry, "Task", where)
    _same_keys(fields.keys() - _NOT_TAKEN, _TASK_KEYS, where)
    if not isinstance(fields["actions"], list):
        raise DataError(f"{where}: actions is not a list")
    actions = [_fields(action, "Action", where) for action in fields["actions"]]
    for action in actions:
        _same_keys(action.keys(), ("name", "kwargs"), where)
    return {
        "index": index,
        **{key: fields[key] for key in _TASK_KEYS},
        "actions": [{"name": one["name"], "kwargs": one["kwargs"]} for one in actions],
    }


def _fields(entry: Any, kind: str, where: str) -> Mapping[str, Any]:
    """Return the keywords of a constructor; refuse any other call."""
    if not isinstance(entry, Call) or entry.name != kind:
        raise DataError(f"{where}: a {kind}(...) is expected, not {str(entry)[:80]!r}")
    return entry.keywords


def _same_keys(found: Any, expected: tuple[str, ...], where: str) -> None:
    if set(found) != set(expected):
        raise DataError(f"{where} has {sorted(found)}; it must have {sorted(expected)}")


def _rules(path: Path) -> Any:
    rules = assigned(_parsed(path), ("RULES", "rules"), str(path))
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise DataError(f"{str(path)!r}: RULES is not a list of texts")
    return rules


def _tools(folder: Path) -> list[Any]:
    """Return the return value of each tool's ``get_info``, by tool name."""
    infos = []
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.FunctionDef) and node.name == "get_info":
                infos.append(_info(node, str(path)))
    return sorted(infos, key=lambda info: str(info["function"]["name"]))


def _info(function: ast.FunctionDef, where: str) -> Any:
    last = function.body[-1]
    info = literal(last.value, where) if isinstance(last, ast.Return) and last.value else None
    described = info.get("function") if isinstance(info, dict) else None
    if not isinstance(described, dict) or not isinstance(described.get("name"), str):
        raise DataError(f"{where}: get_info does not return a function's description")
    return info


def _parsed(path: Path) -> ast.Module:
    return parse(_read_utf8(path), str(path))


def _read_utf8(path: Path) -> str:
    try:
        return _read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not UTF-8") from error


def _read(path: Path) -> bytes:
    try:
        # Checked before opening: a pipe without a writer would block forever.
        if path.exists() and not path.is_file():
            raise DataError(f"{str(path)!r} is not a regular file")
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except OSError as error:
        raise DataError(
            f"the checkout of tau-bench lacks {str(path)!r}: {error.strerror}. {_BY_HAND}."
        ) from error
    if len(content) == _LARGEST:
        raise DataError(f"{str(path)!r} is larger than {_LARGEST:,} bytes")
    return content


def _json(value: Any, end: str) -> bytes:
    try:
        return f"{json.dumps(value, indent=1, allow_nan=False)}{end}".encode()
    except (TypeError, ValueError) as error:
        raise DataError(f"the checkout of tau-bench has what JSON cannot hold: {error}") from error


def _check(made: Path, source: str, domain: Domain, any_version: bool) -> bool:
    """Tell whether this is the pinned version; refuse another, or write its manifest."""
    sums = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(made.iterdir())
        if path.name not in ("LICENSE", WORDS_FILE)
    }
    others = sorted(name for name, known in domain.upstream.items() if sums.get(name) != known)
    commit = tau3_data.COMMIT if domain.is_tau3 else COMMIT
    edition = f"{'tau2' if domain.is_tau3 else 'tau'}-bench at {commit}"
    get = f"Check that commit out (`git checkout {commit}`)"
    if domain is BANKING:
        edition, get = f"that of {tau3_data.BANK_EDITION}", "Install that version"
    if others and not any_version:
        raise DataError(
            f"{source} is not {edition}: {', '.join(others)} differ. {get}, or take it as it is "
            "with --any-version; scores over other data compare with no others."
        )
    if others or domain.is_tau3:  # which files there are depends on the source
        lines = (f"{digest}  {name}\n" for name, digest in sums.items())
        (made / MANIFEST).write_text("".join(lines), encoding="utf-8")
    return not others


def _whole(folder: Path, domain: Domain) -> Fetched | None:
    """Describe the pinned data if it is already complete."""
    needed = [*domain.upstream, *([] if domain.is_tau3 else [WORDS_FILE])]
    has_all = all((folder / name).is_file() for name in needed)
    if not has_all or (folder / MANIFEST).exists() != domain.is_tau3:
        return None
    store = Store(folder, domain)
    try:
        store.load()
        if not is_original(store):
            return None
    except DataError:
        return None
    tasks = {split: len(store.tasks(split)) for split in store.splits}
    return Fetched(str(folder), store.checksum, True, tasks, was_there=True)


def _refuse_foreign(into: Path, domain: Domain) -> None:
    """Refuse to replace a folder that has other files than a data set's."""
    if into.exists() and not into.is_dir():
        raise DataError(f"{str(into)!r} is a file; name a folder")
    if not into.is_dir() or not any(into.iterdir()):
        return
    entries, manifest = sorted(into.iterdir()), into / MANIFEST
    is_plain = manifest.is_file() and not manifest.is_symlink()
    listed = manifest_of(into, domain) if is_plain else ()
    known = {MANIFEST, WORDS_FILE, *domain.upstream, *listed}
    strays = [
        one.name
        for one in entries
        if one.is_symlink()
        or not one.is_file()
        or not (one.name in known or _OWN.fullmatch(one.name))
    ]
    if strays or not (into / f"{next(iter(domain.tables))}.json").exists():
        raise DataError(
            f"{str(into)!r} is there and has other things in it: "
            f"{(strays or [entries[0].name])[0]!r} would be lost. Name another folder"
        )


def _place(made: Path, into: Path, domain: Domain) -> None:
    """Replace a folder, and restore the old one if that fails."""
    _refuse_foreign(into, domain)  # again: a download takes time
    into.parent.mkdir(parents=True, exist_ok=True)
    # Next to its target, since a folder can only be renamed within one file system.
    new, old = (into.with_name(f".{into.name}.{os.getpid()}.{which}") for which in ("new", "old"))
    try:
        shutil.copytree(made, new)
        if into.exists():
            into.rename(old)
        try:
            new.rename(into)
        except OSError:
            if old.exists():
                old.rename(into)
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
