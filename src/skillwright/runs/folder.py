"""A run on disk.

    runs/<name>/
      config.yaml                 resolved, without secrets
      run.sqlite                  everything that happened: `RunStore`
      run.lock                    lock of the writer
      best_skill.md               released skill
      current_skill.md            current skill, where a release must be proven
      skills/skill_v0003.md ...   versions, never changed

The other files are written from the store.
"""

import errno
import json
import os
import re
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import yaml

from skillwright.core import RunError, did_you_mean
from skillwright.core.jsonio import dumps, write_text
from skillwright.core.secrets import Redactor

# One process at a time may write a run.
#
# The operating system releases the lock when the process ends; the file's text names the holder.


if sys.platform == "win32":
    import msvcrt

    # Windows locks bytes against readers too, so the locked one lies far behind the text.
    _LOCKED_BYTE = 1 << 30

    def _seize(handle: int) -> None:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

else:
    import fcntl

    def _seize(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class RunBusy(RunError):
    """Another process, or another part of this one, has the lock."""


class RunLock:
    """An exclusive lock on a run folder, held until `release` or the end of the process.

    Args:
        path: Lock file; created if missing, and never removed.
        started_at: Start of the holder, as text for messages.

    Raises:
        RunBusy: This or another process holds it.
        RunError: The file cannot be written.
    """

    def __init__(self, path: Path, started_at: str) -> None:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            _seize(handle)
        except OSError:
            os.close(handle)
            raise RunBusy(_busy(path)) from None
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": started_at}
        try:
            os.ftruncate(handle, 0)
            os.write(handle, dumps(holder).encode())
        except OSError as error:
            os.close(handle)
            raise _unwritable(path, error) from error
        self._handle: int | None = handle

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._handle is not None:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None


def copy_to_resume(run: Path) -> str:
    """Return advice for a folder that cannot be written."""
    return (
        f"`skillwright runs show {run}` looks at it there; to resume it, copy {str(run)!r} to "
        "a folder of your own and `skillwright resume` the copy."
    )


def _unwritable(path: Path, error: OSError) -> RunError:
    sealed = error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    move = copy_to_resume(path.parent) if sealed else "Make room or check its permissions."
    return RunError(f"{str(path)!r} cannot be written: {error.strerror}. {move}")


def holder_of(path: Path) -> str:
    """Describe the holder of a lock."""
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']} on {holder['host']} since {holder['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_at_work(run: Path) -> bool | None:
    """Tell whether a process works on a run, without touching its lock.

    Returns:
        ``None`` if unknown: the lock is another machine's, or the system does not say.
    """
    try:
        holder = json.loads((run / LOCK_NAME).read_text(encoding="utf-8") or "null")
    except (OSError, ValueError):
        return None
    if holder is None:  # a released lock is an empty file
        return False
    try:
        pid, host = int(holder["pid"]), holder["host"]
    except (ValueError, KeyError, TypeError):
        return None
    if host != socket.gethostname() or sys.platform == "win32" or pid <= 0:
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return None
    return True


def _busy(path: Path) -> str:
    run = path.parent
    return (
        f"run {run.name!r} is in use by {holder_of(path)}. Wait for it or end it, then "
        f"`skillwright resume {run}`; to look meanwhile, `skillwright runs show {run}`."
    )


CONFIG_NAME = "config.yaml"
STORE_NAME = "run.sqlite"
LOCK_NAME = "run.lock"
BEST_SKILL_NAME = "best_skill.md"
CURRENT_SKILL_NAME = "current_skill.md"
SKILLS_NAME = "skills"
ABLATION_NAME = "ablation.json"

_NAME = re.compile(r"\w[\w.-]{0,99}")


class RunFolder:
    """A run's folder, locked until it is closed.

    Args:
        path: The folder.
        lock: Lock of the writer; ``None`` for reading.
    """

    def __init__(self, path: Path, lock: RunLock | None = None) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(
        cls, root: Path, name: str, config_yaml: str, redactor: Redactor | None = None
    ) -> Self:
        """Make a new run.

        Args:
            root: Folder of all runs.
            name: Unique name of the run (`unused_name`).
            config_yaml: Resolved configuration; stored without secrets.
            redactor: Removes the run's secrets.

        Raises:
            RunError: The name is invalid, or the folder is not empty or cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise RunError(
                f"{name!r} cannot name a run: use letters, digits, '-', '_' and '.', at most 100, "
                "and begin with a letter or digit"
            )
        path = root / name
        _refuse_used(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"run folder {str(path)!r} cannot be made: {error.strerror}. Name a folder that "
                "can be written as run.root"
            ) from error
        folder = cls(path, RunLock(path / LOCK_NAME, _now()))
        try:
            _refuse_used(path)  # again: another process may have been here before the lock
            config = _without_secrets(config_yaml, redactor or Redactor())
            folder._write(path / CONFIG_NAME, config, then="begin the run again")
        except BaseException:
            folder.close()
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run to resume it.

        Raises:
            RunError: There is no such run, or another process is writing it.
        """
        cls.look(path)
        return cls(path, RunLock(path / LOCK_NAME, _now()))

    @classmethod
    def look(cls, path: Path) -> Self:
        """Open a run for reading; it may be running.

        Raises:
            RunError: There is no such run.
        """
        if not (path / CONFIG_NAME).is_file():
            names = [run.name for run in list_runs(path.parent)]
            what = "is no run: it has no config.yaml" if path.exists() else "does not exist"
            raise RunError(f"run folder {str(path)!r} {what}. {did_you_mean(path.name, names)}")
        return cls(path)

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def store_path(self) -> Path:
        """Path of the `RunStore`."""
        return self.path / STORE_NAME

    @property
    def best_skill_path(self) -> Path:
        """Path of the best skill."""
        return self.path / BEST_SKILL_NAME

    def write_best_skill(self, text: str) -> Path:
        """Write the best skill so far, and return its path.

        Raises:
            RunError: The run was opened for reading, or the disk is full.
        """
        return self._write(self.best_skill_path, text)

    def write_current_skill(self, text: str, note: str) -> Path:
        """Write the current skill, and return its path.

        Args:
            text: The skill.
            note: Comment above the skill.

        Raises:
            RunError: The run was opened for reading, or the disk is full.
        """
        comment = note.replace("-->", "-- >")
        return self._write(self.path / CURRENT_SKILL_NAME, f"<!-- {comment} -->\n\n{text}")

    def write_skill_version(self, version: int, text: str) -> Path:
        """Write a version of the skill unless it exists, and return its path.

        Raises:
            RunError: The version is there with another text, the run was opened only to look, or
                the disk is full.
        """
        self._refuse_onlookers()
        path = self.path / SKILLS_NAME / f"skill_v{version:04d}.md"
        if not path.exists():
            return self._write(path, text)
        # Bytes, because reading as text turns one kind of line break into another.
        if path.read_bytes() != text.encode():
            raise RunError(
                f"{str(path)!r} is there with another text; versions are never changed. "
                "Add a new version."
            )
        return path

    def close(self) -> None:
        """Release the lock; may be called twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _refuse_onlookers(self) -> None:
        if self._lock is None:
            raise RunError(f"run {self.name!r} was opened to look at, not to write")

    def _write(self, path: Path, text: str, then: str = "") -> Path:
        self._refuse_onlookers()
        try:
            write_text(path, text)
        except OSError as error:
            raise RunError(
                f"{str(path)!r} cannot be written: {error.strerror}. Make room or check its "
                f"permissions, then {then or f'`skillwright resume {self.path}`'}."
            ) from error
        return path


def list_runs(root: Path) -> list[RunFolder]:
    """Return the runs below a folder for reading, by name."""
    return [RunFolder(config.parent) for config in sorted(root.glob(f"*/{CONFIG_NAME}"))]


def unused_name(root: Path, base: str) -> str:
    """Return ``<base>-1``, or the first number after it that names nothing yet."""
    number = 1
    while (root / f"{base}-{number}").exists():
        number += 1
    return f"{base}-{number}"


def _refuse_used(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise RunError(f"{str(path)!r} is a file; choose another name for the run")
    found = sorted(item.name for item in path.iterdir()) if path.is_dir() else []
    inside = [name for name in found if name != LOCK_NAME]
    free = unused_name(path.parent, path.name)
    if CONFIG_NAME in inside:
        raise RunError(
            f"run {path.name!r} is there already. Continue with it by `skillwright resume "
            f"{path}`, or choose another name, such as {free!r}."
        )
    if inside:
        raise RunError(
            f"folder {str(path)!r} is not empty (it holds {inside[0]!r}) and nothing of it will be "
            f"overwritten. Choose another name, such as {free!r}."
        )


# Where PyYAML comes with its parser in C, that is ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _without_secrets(config_yaml: str, redactor: Redactor) -> str:
    """Redact a configuration, keeping valid YAML, or its text if nothing is secret."""
    try:
        config: Any = yaml.load(config_yaml, Loader=_LOADER)
    except yaml.YAMLError:
        return str(redactor.clean(config_yaml))
    clean = redactor.clean(config)
    if clean == config:  # only comments can hold something
        return str(redactor.clean(config_yaml))
    return yaml.safe_dump(clean, sort_keys=False, allow_unicode=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
