"""Search and reading of session logs, in bounded memory for any content.

Lines are read one by one. Links, pipes and devices are skipped; a line or document that is too
long, truncated or no JSON is counted as left out.
"""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import orjson

from skillwright.core import DataError
from skillwright.plugins.sessions.logs.clients import (
    ClaudeLines,
    read_codex_line,
    read_opencode_message,
)
from skillwright.plugins.sessions.logs.recorder import (
    Event,
    Interrupted,
    LeftOut,
    Ran,
    Recorder,
    Said,
    Session,
    field_of,
    text_of,
)

__all__ = [
    "Event",
    "Found",
    "Interrupted",
    "LeftOut",
    "Ran",
    "Said",
    "Session",
    "default_folders",
    "read_sessions",
]

LONGEST_LINE: Final = 4 << 20
"""Maximum bytes of a line; longer ones contain a picture or a file, and are skipped."""
LARGEST_DOCUMENT: Final = 64 << 20
"""Maximum bytes of a JSON document, which is read at once."""
MOST_LINES: Final = 1_000_000
MOST_FILES: Final = 200_000
_CLAUDE_TYPES: Final = frozenset(
    {"user", "assistant", "summary", "system", "progress", "file-history-snapshot"}
)
_CODEX_TYPES: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted"}
)
_LOOKED_AT: Final = 50  # lines after which a log that no client is known to write is given up


@dataclass(frozen=True, slots=True)
class Found:
    """The sessions in folders of logs, by start time, the omissions, and the number of files."""

    sessions: tuple[Session, ...]
    left_out: LeftOut = field(default_factory=LeftOut)
    files: int = 0


def default_folders(environ: Mapping[str, str] | None = None) -> list[Path]:
    """Return the existing default log folders of the three clients."""
    said = os.environ if environ is None else environ
    home = Path(said.get("HOME") or Path.home())
    claude = Path(said.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
    codex = Path(said.get("CODEX_HOME") or home / ".codex") / "sessions"
    opencode = Path(said.get("XDG_DATA_HOME") or home / ".local/share") / "opencode/storage"
    return [one for one in (claude, codex, opencode) if one.is_dir()]


def read_sessions(folders: Sequence[Path], project: Path | None = None) -> Found:
    """Read all sessions below folders, of any client and at any depth.

    Args:
        folders: Must exist, with at most `MOST_FILES` files.
        project: Keep only sessions in this folder or below it.
    """
    reading = _Reading()
    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"there is no folder {str(folder)!r} with session logs; name one")
        reading.read(folder)
    inside = str(project.resolve()) if project is not None else ""
    chosen = [one for one in reading.sessions if not inside or _is_in(one.project, inside)]
    if left := len(reading.sessions) - len(chosen):
        reading.left_out.add("sessions of other projects", count=left)
    # Copies of a log have the same id; the first one is kept.
    single = {one.id: one for one in reversed(chosen)}
    ordered = sorted(single.values(), key=lambda one: (one.started, one.id))
    return Found(tuple(ordered), reading.left_out, reading.files)


def _is_in(project: str, folder: str) -> bool:
    path = os.path.normpath(project) if project else ""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


class _Reading:
    """Walks folders."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.left_out = LeftOut()
        self.files = 0
        self._claude = ClaudeLines()

    def read(self, folder: Path) -> None:
        """Read all logs below a folder; OpenCode's last, as a session is in several files."""
        tree: dict[str, dict[str, list[Path]]] = {"session": {}, "message": {}, "part": {}}
        for path in self._walk(folder):
            kind = path.parent.parent.name
            if path.suffix == ".json" and kind in tree:
                # OpenCode's tree: session/<project>/, message/<session>/ and part/<message>/.
                tree[kind].setdefault(path.parent.name, []).append(path)
            elif path.suffix == ".jsonl":
                self._lines(path)
            elif path.suffix == ".json":
                self._export(path)
            else:
                self.left_out.add("files that are no logs", str(path))
        for path in (one for paths in tree["session"].values() for one in paths):
            self._tree(path, tree["message"], tree["part"])

    def _walk(self, folder: Path) -> Iterator[Path]:
        """Yield regular files in a fixed order; links are counted only."""
        for place, folders, names in os.walk(folder, followlinks=False):
            for name in [one for one in folders if os.path.islink(os.path.join(place, one))]:  # noqa: PTH118, PTH114 - os.walk gives texts
                self.left_out.add("links, which are not followed", os.path.join(place, name))  # noqa: PTH118 - as above
            folders.sort()
            for name in sorted(names):
                path = Path(place) / name
                if path.is_symlink():
                    self.left_out.add("links, which are not followed", str(path))
                    continue
                self.files += 1
                if self.files > MOST_FILES:
                    raise DataError(
                        f"{str(folder)!r} holds more than {MOST_FILES:,} files; name a folder of "
                        "session logs"
                    )
                yield path

    def _open(self, path: Path) -> BufferedReader | None:
        """Open a regular file that is no link, also against races."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            number = os.open(path, flags)
        except OSError as error:
            self.left_out.add(f"files that cannot be read: {error.strerror}", str(path))
            return None
        if not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            self.left_out.add("pipes and devices", str(path))
            return None
        return os.fdopen(number, "rb")

    def _lines(self, path: Path) -> None:
        """Read a log of lines."""
        stream = self._open(path)
        if stream is None:
            return
        with stream:
            read, into = None, Recorder("", self.left_out, str(path))
            for number, line in enumerate(self._parsed(stream, path)):
                if read is None:
                    client = _client_of(line)
                    if not client and number < _LOOKED_AT:
                        continue
                    if not client:
                        break
                    into = Recorder(client, self.left_out, str(path))
                    read = self._claude.read if client == "claude" else read_codex_line
                read(line, into, self.left_out, str(path))
        if read is None:
            self.left_out.add("files in a form that is not known", str(path))
        elif (session := into.session()) is not None:
            self.sessions.append(session)
        else:
            self.left_out.add("sessions without a typed message", str(path))

    def _parsed(self, stream: BufferedReader, path: Path) -> Iterator[dict[str, Any]]:
        for number in range(MOST_LINES):
            raw = stream.readline(LONGEST_LINE)
            if not raw:
                return
            if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
                self.left_out.add("lines: too long", f"{path}:{number + 1}")
                continue
            if not raw.strip():
                continue
            try:
                value = orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
            except orjson.JSONDecodeError:
                why = "no JSON" if raw.endswith(b"\n") else "cut"
                self.left_out.add(f"lines: {why}", f"{path}:{number + 1}")
                continue
            if isinstance(value, dict):
                yield value
            else:
                self.left_out.add("lines: no object", f"{path}:{number + 1}")
        self.left_out.add(f"lines beyond {MOST_LINES:,} of a file", str(path))

    def _document(self, path: Path) -> dict[str, Any] | None:
        """Read a JSON document that is an object."""
        stream = self._open(path)
        if stream is None:
            return None
        with stream:
            raw = stream.read(LARGEST_DOCUMENT + 1)
        if len(raw) > LARGEST_DOCUMENT:
            self.left_out.add("files: too large", str(path))
            return None
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            self.left_out.add("files: cut, or no JSON", str(path))
            return None
        if not isinstance(value, dict):
            self.left_out.add("files in a form that is not known", str(path))
            return None
        return value

    def _export(self, path: Path) -> None:
        """Read a session that ``opencode export`` wrote."""
        value = self._document(path)
        if value is None:
            return
        messages = value.get("messages")
        if not isinstance(messages, list) or not isinstance(value.get("info"), dict):
            self.left_out.add("files in a form that is not known", str(path))
            return
        pairs = [
            (info, parts)
            for one in messages
            if isinstance(info := field_of(one, "info"), dict)
            and isinstance(parts := field_of(one, "parts"), list)
        ]
        self._opencode(value["info"], pairs, path)

    def _tree(
        self, path: Path, messages: Mapping[str, list[Path]], parts: Mapping[str, list[Path]]
    ) -> None:
        """Read a session of OpenCode's tree; ids refer to found folders and are never paths."""
        info = self._document(path)
        if info is None:
            return
        pairs = []
        for one in messages.get(text_of(info, "id"), ()):
            message = self._document(one)
            if message is None:
                continue
            found = [self._document(part) for part in parts.get(text_of(message, "id"), ())]
            pairs.append((message, [part for part in found if part is not None]))
        self._opencode(info, pairs, path)

    def _opencode(
        self, info: dict[str, Any], pairs: list[tuple[dict[str, Any], list[Any]]], path: Path
    ) -> None:
        if info.get("parentID"):
            self.left_out.add("sessions of sub-agents", str(path))
            return
        into = Recorder("opencode", self.left_out, str(path))
        into.id, into.project = text_of(info, "id"), text_of(info, "directory")
        into.at(field_of(info, "time", "created"))
        for message, found in pairs:
            read_opencode_message(message, found, into, self.left_out, str(path))
        if (session := into.session()) is not None:
            self.sessions.append(session)
        else:
            self.left_out.add("sessions without a typed message", str(path))


def _client_of(line: dict[str, Any]) -> str:
    """Return the client whose log has such a line, or ""."""
    kind = line.get("type")
    if not isinstance(kind, str):
        return ""
    if kind in _CODEX_TYPES and "payload" in line:
        return "codex"
    return "claude" if kind in _CLAUDE_TYPES and "payload" not in line else ""
