"""Download or copy a file, verify its checksum, and keep it.

An interrupted download is continued only if the checksum is known, which proves that both parts
belong to one file.
"""

import hashlib
import http.client
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from skillwright.core import DataError
from skillwright.core.errors import certificate_problem
from skillwright.version import __version__

CHUNK: Final = 1 << 18
_WORTH_ANOTHER_TRY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_NOT_SATISFIABLE: Final = 416


class FetchError(DataError):
    """A file cannot be fetched, or has another checksum."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Retries, timeouts and limits of a download.

    Attributes:
        timeout_s: Maximum seconds without a byte.
        attempts: Maximum attempts, at least 1; permanent faults end it at once.
        pause_s: Seconds before the second attempt, doubled each time.
        limit_bytes: Maximum size of the file.
    """

    timeout_s: float = 30.0
    attempts: int = 3
    pause_s: float = 1.0
    limit_bytes: int = 1 << 30


DEFAULT_SETTINGS: Final = FetchSettings()


def cache_dir() -> Path:
    """Return the cache folder, which may not exist yet.

    ``$XDG_CACHE_HOME/skillwright``, or else ``~/.cache/skillwright``.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skillwright"


def fetch_file(
    source: str | Path,
    target: Path,
    *,
    sha256: str | None = None,
    instead: str = "",
    settings: FetchSettings = DEFAULT_SETTINGS,
) -> Path:
    """Download or copy a file, unless it exists already.

    Args:
        source: An ``http`` or ``https`` URL, or a path.
        target: Path to write to; its folder is created.
        sha256: Expected checksum, 64 hexadecimal digits. An equal target is kept; without a
            checksum it is fetched again.
        instead: Advice for the error message, a sentence.
        settings: Retries, timeouts and limits.

    Raises:
        FetchError: The download failed, or the file is too large or has another checksum. The
            target is unchanged.
        DataError: The URL is invalid, or there is no such file.
    """
    if sha256 and target.is_file() and digest_of(target) == sha256.lower():
        return target
    if "://" in str(source) and not _is_address(source):
        raise DataError(f"{source}: only http and https addresses, and paths, can be fetched")
    target.parent.mkdir(parents=True, exist_ok=True)
    fetching = _Fetching(str(source), target, sha256.lower() if sha256 else None, instead, settings)
    try:
        if _is_address(source):
            fetching.download()
        else:
            fetching.copy()
        fetching.keep()
    except BaseException:
        fetching.leave()
        raise
    return target


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Broken(Exception):
    """A failed attempt that may be repeated."""


@dataclass(frozen=True, slots=True)
class _Fetching:
    source: str
    target: Path
    sha256: str | None
    instead: str
    settings: FetchSettings

    @property
    def part(self) -> Path:
        # Its name has the process id, so that two writers never share one.
        return self.target.with_name(f".{self.target.name}.{os.getpid()}.part")

    @property
    def leftover(self) -> Path | None:
        """Path of the partial download; ``None`` if it cannot be continued."""
        if self.sha256 is None:
            return None
        return self.target.with_name(f".{self.target.name}.{self.sha256[:16]}.part")

    def copy(self) -> None:
        path = Path(self.source).expanduser()
        try:
            if path.stat().st_size > self.settings.limit_bytes:
                raise self._too_large()
            if not path.is_file():
                # A device or a pipe may never end.
                raise DataError(self._message("it is not a regular file"))
            shutil.copyfile(path, self.part)
        except OSError as error:
            raise DataError(self._message(error.strerror or str(error))) from error

    def download(self) -> None:
        self.part.unlink(missing_ok=True)
        resumed = self._take_leftover()
        self._attempts()
        if resumed and digest_of(self.part) != self.sha256:
            # The parts came from different files.
            self.part.unlink()
            self._attempts()

    def keep(self) -> None:
        found = digest_of(self.part) if self.sha256 else None
        if found != self.sha256:
            self.part.unlink()
            raise self._fault(
                f"its content is wrong: SHA-256 {found}, expected {self.sha256}. It was "
                "changed at its source, or damaged on the way; nothing of it was kept"
            )
        self.part.replace(self.target)

    def leave(self) -> None:
        """Keep a partial download for the next call, if there is a checksum."""
        leftover = self.leftover if _is_address(self.source) else None
        if leftover and self.part.exists():
            self.part.replace(leftover)
        self.part.unlink(missing_ok=True)

    def _take_leftover(self) -> bool:
        """Continue with an earlier call's partial download; return whether there is one."""
        leftover = self.leftover
        if leftover is None:
            return False
        try:
            leftover.replace(self.part)
        except FileNotFoundError:
            return False
        return True

    def _attempts(self) -> None:
        for attempt in range(1, self.settings.attempts + 1):
            try:
                self._ask()
            except _Broken as broken:
                if attempt == self.settings.attempts:
                    raise self._fault(f"{broken} (asked {attempt} times)") from broken
                time.sleep(self.settings.pause_s * 2 ** (attempt - 1))
            else:
                return

    def _ask(self) -> None:
        # Without a checksum it is unknown whether an earlier attempt saw the same version.
        start = self.part.stat().st_size if self.sha256 and self.part.exists() else 0
        request = urllib.request.Request(
            self.source, headers={"User-Agent": f"skillwright/{__version__}"}
        )
        if start:
            request.add_header("Range", f"bytes={start}-")
        try:
            with urllib.request.urlopen(request, timeout=self.settings.timeout_s) as reply:
                self._receive(reply, start if reply.status == 206 else 0)
        except urllib.error.HTTPError as error:
            error.close()
            self._refused(error)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise self._fault(certificate_problem(error.reason)) from error
            raise _Broken(_reason(error.reason)) from error
        except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise _Broken(_reason(error)) from error
        except ValueError as error:
            raise DataError(self._message(f"not an address: {error}")) from error

    def _receive(self, reply: http.client.HTTPResponse, start: int) -> None:
        length = reply.headers.get("Content-Length", "")
        whole = start + int(length) if length.isdecimal() else None
        if whole is not None and whole > self.settings.limit_bytes:
            raise self._too_large()
        with self.part.open("ab" if start else "wb") as file:
            size = start + self._pour(reply, file, self.settings.limit_bytes - start)
        # A connection that ends early reads as end of file.
        if whole is not None and size < whole:
            raise _Broken(f"the connection broke off after {size:,} of {whole:,} bytes")

    def _pour(self, reply: http.client.HTTPResponse, file: IO[bytes], room: int) -> int:
        poured = 0
        while chunk := reply.read(CHUNK):
            poured += len(chunk)
            if poured > room:
                file.close()
                self.part.unlink(missing_ok=True)
                raise self._too_large()
            file.write(chunk)
        return poured

    def _refused(self, error: urllib.error.HTTPError) -> None:
        if error.code == _NOT_SATISFIABLE and self.part.exists():
            # The part is complete or too long; its checksum decides.
            if digest_of(self.part) == self.sha256:
                return
            self.part.unlink()
            raise _Broken("what an earlier attempt left was not of this file") from error
        said = f"the server answered {error.code} {error.reason}"
        if error.code in _WORTH_ANOTHER_TRY:
            raise _Broken(said) from error
        raise self._fault(said) from error

    def _too_large(self) -> FetchError:
        return self._fault(f"it is larger than {self.settings.limit_bytes:,} bytes")

    def _fault(self, why: str) -> FetchError:
        return FetchError(self._message(why))

    def _message(self, why: str) -> str:
        return f"{self.source} cannot be fetched: {why}. {self.instead}".rstrip()


def _is_address(source: str | Path) -> bool:
    return str(source).startswith(("http://", "https://"))


def _reason(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "the server fell silent"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
