"""The folders of one run: where it works, the mounted skill, and its lock."""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import IO, NamedTuple

from skillwright.core import DataError
from skillwright.core.jsonio import dumps
from skillwright.models.executors.process import kill_marked

# The folder that a command-line agent works in: the task, and the skill mounted as files.
#
# A skill is mounted where clients look for one (agentskills.io). A text that a client would expand
# or run (``$ARGUMENTS``, ``!`command` ``, ``@file``) is laid beside it, unchanged, for SKILL.md to
# name. Source of `prepare_workspace` and `render_skill_md`: SkillOpt (microsoft/SkillOpt).


SKILL_NAME = "skillopt-target"
DESCRIPTION = "What was learned about this job. Read it before you start on the task."
PREAMBLE = "Follow these instructions wherever they apply to the task."
CLIENT_FOLDERS = (".agents/skills", ".claude/skills")
REFERENCE = "references/skill.md"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024
_LIVE = re.compile(
    r"\$(ARGUMENTS|\d|\{)"  # replaced by the words after a command
    r"|!\s*`|^\s*```\s*!"  # run by a shell
    r"|(?<!\w)@\S",  # replaced by a file
    re.MULTILINE,
)
# Answers lie in these folders of the benchmarks.
_NEVER_LINKED = frozenset({"officeqa_split", "sealqa_split"})


class Prepared(NamedTuple):
    """Where the skill and the task lie."""

    skill_path: Path
    task_path: Path


def is_live(text: str) -> bool:
    """Tell whether a client would expand or run something in a text that it loads as a skill."""
    return _LIVE.search(text) is not None


def render_skill_md(
    content: str,
    name: str = SKILL_NAME,
    description: str = DESCRIPTION,
    preamble: str = PREAMBLE,
) -> str:
    """Write a skill document as a SKILL.md: frontmatter, title, preamble, body.

    Args:
        content: The learned text, as it is.
        name: 1 to 64 of ``a-z0-9-``; also the folder's name.
        description: 1 to 1024 characters: what it is, and when to use it.
        preamble: Stands before the body.

    Raises:
        DataError: The name or the description breaks the rules of Agent Skills.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise DataError(
            f"skill name {name!r}: use 1 to {_LONGEST_NAME} lower-case letters, digits and single "
            "hyphens between them, such as 'house-rules'"
        )
    shown = "".join(c for c in " ".join(description.split()) if c.isprintable() and c not in "<>")
    if not 0 < len(shown) <= _LONGEST_DESCRIPTION:
        raise DataError(
            f"skill {name!r}: its description has {len(shown)} characters; 1 to "
            f"{_LONGEST_DESCRIPTION} are allowed"
        )
    # A JSON string is a quoted YAML string: colons, '#' and a leading '-' mean nothing in it.
    front = f"---\nname: {dumps(name)}\ndescription: {dumps(shown)}\n---\n"
    title = name.replace("-", " ").capitalize()
    body = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip()
    return f"{front}\n# {title}\n\n{preamble}\n\n{body}\n"


def mount_skill(folder: Path, content: str, name: str = SKILL_NAME) -> Path:
    """Mount a skill document where each client looks for it.

    Returns:
        The SKILL.md of the cross-client place, ``.agents/skills/<name>/SKILL.md``.
    """
    live = is_live(content)
    pointer = f"Read [{REFERENCE}]({REFERENCE}) first: it holds the instructions, word by word."
    document = render_skill_md(pointer if live else content, name)
    for client in CLIENT_FOLDERS:
        place = folder / client / name
        write_file(place / "SKILL.md", document)
        if live:
            write_file(place / REFERENCE, content)
    return folder / CLIENT_FOLDERS[0] / name / "SKILL.md"


def prepare_workspace(  # noqa: PLR0913  documented signature
    work_dir: Path | str,
    skill_md: str,
    task_text: str,
    task_filename: str = "task.md",
    images: Iterable[Path | str] = (),
    extra_files: Mapping[str, str] | None = None,
    copy_files: Mapping[str, Path | str] | None = None,
    link_dirs: Mapping[str, Path | str] | None = None,
) -> Prepared:
    """Empty a folder and lay out the task, the skill and the files that come with it.

    Args:
        work_dir: The folder; whatever it holds is removed.
        skill_md: The SKILL.md, as `render_skill_md` writes it; blank mounts none.
        task_text: What is to be done.
        task_filename: The name of the task's file.
        images: Files that are copied to ``attachments/NN_name`` and listed in
            ``ATTACHMENTS.md``.
        extra_files: Path inside the folder -> text.
        copy_files: Path inside the folder -> file that is copied there.
        link_dirs: Path inside the folder -> folder that is linked there.

    Raises:
        DataError: A path leads out of the folder, a file is missing, or the folder is one that
            must not be emptied.
    """
    folder = _emptied(Path(work_dir))
    skill_path = folder / CLIENT_FOLDERS[0] / SKILL_NAME / "SKILL.md"
    if skill_md.strip():
        for client in CLIENT_FOLDERS:
            write_file(folder / client / SKILL_NAME / "SKILL.md", skill_md)
    task_path = _inside(folder, task_filename)
    write_file(task_path, task_text)
    for name, text in (extra_files or {}).items():
        write_file(_inside(folder, name), text)
    for name, source in (copy_files or {}).items():
        _copy(Path(source), _inside(folder, name))
    for name, source in (link_dirs or {}).items():
        _link(Path(source), _inside(folder, name))
    _attach(folder, [Path(image) for image in images])
    return Prepared(skill_path, task_path)


def _emptied(folder: Path) -> Path:
    real = folder.resolve()
    if real == Path.home() or Path.cwd().is_relative_to(real):
        raise DataError(f"{str(real)!r} would be emptied; choose a folder of its own for the work")
    if real.is_dir():
        shutil.rmtree(real)
    real.mkdir(parents=True)
    return real


def _inside(folder: Path, name: str) -> Path:
    place = (folder / name).resolve()
    if place == folder or not place.is_relative_to(folder):
        raise DataError(f"file {name!r} lies outside of the work folder; give a path inside it")
    return place


def write_file(path: Path, text: str) -> None:
    """Write a text, whatever a model put into it; half a character becomes a question mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))


def copy_files(source: Path, place: Path) -> None:
    """Copy the files of a folder into another one, over what is there; links stay behind."""

    def links(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(folder) / name).is_symlink()]

    shutil.copytree(source, place, ignore=links, dirs_exist_ok=True)


def _copy(source: Path, place: Path) -> None:
    if not source.is_file():
        raise DataError(f"there is no file {str(source)!r} to copy into the work folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


def _link(source: Path, place: Path) -> None:
    if _NEVER_LINKED & set(source.resolve().parts):
        raise DataError(f"{str(source)!r} holds the answers of its benchmark and is never shown")
    if not source.is_dir():
        raise DataError(f"there is no folder {str(source)!r} to link into the work folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(source.resolve(), target_is_directory=True)


def _attach(folder: Path, images: list[Path]) -> None:
    if not images:
        return
    names = [f"attachments/{number:02d}_{path.name}" for number, path in enumerate(images, 1)]
    for path, name in zip(images, names, strict=True):
        _copy(path, folder / name)
    write_file(folder / "ATTACHMENTS.md", "".join(f"- {name}\n" for name in names))


# The folder of one run, locked while it lasts: what is free is cleared up by the next run.


if sys.platform != "win32":
    import fcntl

_PREFIX = "skillwright-exec-"
_LOCK = "lock"
_LONGEST_LOGIN = 1_000_000  # bytes


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for one run, whose name is its mark, and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    try:
        # Renamed once it is held, so that nobody ever finds a lock that is still free.
        with (root / f".{_LOCK}").open("wb") as lock:
            _hold(lock)
            (root / f".{_LOCK}").rename(root / _LOCK)
            yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sweep() -> None:
    """End and remove what runs left behind whose process was killed."""
    if sys.platform == "win32":
        return
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            with (root / _LOCK).open("r+b") as lock:
                _hold(lock)
                kill_marked(root.name)
                shutil.rmtree(root, ignore_errors=True)


def return_login(place: Path, login: Path) -> None:
    """Keep a login that a program renewed in its own home.

    Its home has a link to the person's login. A program that writes through the link changes that
    file itself; one that puts a new file in the link's place has the only good login in its hands.
    """
    with suppress(OSError, ValueError):
        found = place.lstat()
        if not S_ISREG(found.st_mode) or found.st_size > _LONGEST_LOGIN:
            return
        renewed = place.read_bytes()
        if not isinstance(json.loads(renewed), dict):
            return
        handle, name = tempfile.mkstemp(prefix=f".{login.name}-", dir=login.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(renewed)
        Path(name).replace(login)


def _hold(lock: IO[bytes]) -> None:
    """Lock a file until it is closed."""
    if sys.platform != "win32":
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
