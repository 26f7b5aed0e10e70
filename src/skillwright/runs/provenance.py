"""Provenance of a run: code, libraries, machine and command."""

import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any

from skillwright.core.secrets import REDACTED, is_secret_name, redact
from skillwright.version import __version__

_GIT_TIMEOUT_S = 5
_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)
_ONLY_FOR_DEVELOPERS = re.compile(r"extra\s*==\s*['\"]dev['\"]")


def provenance(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Describe the provenance of a run as JSON values.

    Args:
        argv: Command line; ``None``: that of the process.

    Returns:
        ``version``, ``git`` (``commit`` and ``is_changed``, or ``None`` where the package is not
        run from its repository), ``python``, ``platform``, ``dependencies`` (name -> version, or
        ``None`` where it is not installed) and ``command`` without secrets.
    """
    return {
        "version": __version__,
        "git": _git(Path(__file__).parents[1]),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "dependencies": {name: _installed(name) for name in _dependencies()},
        "command": redact_command(sys.argv if argv is None else argv),
    }


def redact_command(argv: Sequence[str]) -> list[str]:
    """Remove secrets from a command line: ``--api-key X``, ``--api-key=X`` and values by shape."""
    shown: list[str] = []
    hides_next = False
    for word in argv:
        is_option = word.startswith("-")
        shown.append(REDACTED if hides_next and not is_option else redact(word))
        hides_next = is_option and "=" not in word and is_secret_name(word)
    return shown


def _dependencies() -> list[str]:
    try:
        lines = requires("skillwright") or []
    except PackageNotFoundError:  # run from a source tree that was never installed
        return []
    used = [line for line in lines if not _ONLY_FOR_DEVELOPERS.search(line)]
    return sorted({re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in used})


def _installed(name: str) -> str | None:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    # Reading all of the metadata, long descriptions too, takes seven times as long.
    line = _VERSION.search(found.read_text("METADATA") or "")
    return line[1] if line else found.version


def _git(source: Path) -> dict[str, Any] | None:
    # A package that is installed inside another repository is not part of it, so the
    # repository must know our own first file.
    if _ask_git(source, "ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = _ask_git(source, "rev-parse", "HEAD")
    changes = _ask_git(source, "status", "--porcelain", "--", ".")
    return {"commit": commit, "is_changed": bool(changes)} if commit else None


def _ask_git(folder: Path, *question: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *question],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=True,
            timeout=_GIT_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
