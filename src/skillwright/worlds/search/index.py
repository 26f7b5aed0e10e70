"""The search index of a collection of passages, built once per file and shared by episodes.

It is a folder in the user's cache, named by digest, with the passages and the index. Both are read
on demand, so that a collection of millions of passages opens immediately.
"""

import hashlib
import json
import shutil
import tempfile
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, Protocol

import numpy as np

from skillwright.core import ConfigError, DataError
from skillwright.core.found_code import find_code
from skillwright.core.jsonio import text_digest, write_text
from skillwright.core.waits import waiting
from skillwright.datasets import cache_dir
from skillwright.envs.bm25 import VERSION, Bm25, best, build_bm25
from skillwright.worlds.search.items import Passage
from skillwright.worlds.search.passages import Filed, read_passages
from skillwright.worlds.search.settings import BM25

MOST_QUERY_CHARS: Final = 1000
_FORMAT: Final = "1"
_CHUNK: Final = 1 << 20
_ENCODED_TOGETHER: Final = 512
_ROWS_TOGETHER: Final = 1 << 18
_QUERIES_KEPT: Final = 4096
_OPEN: Final = 8
_opening: Final = threading.Lock()

# The embedder of the skill bank. It is imported by name, and only if a setting requires it, because
# environments must not import banks.
_EMBEDDER: Final = "skillwright.bank:make_embedder"


class _Finder(Protocol):
    def search(self, query: str, most: int) -> list[int]: ...


class PassageIndex:
    """A collection open for reading; episodes and threads share it.

    Args:
        folder: Folder written by `_write`.
        digest: Digest of the passages.
        embedder: Encoder of queries; ``None`` for BM25.

    Attributes:
        digest: Digest of the passages.
        retriever: Name of the retriever; equal names give equal rankings.
        size: Number of passages.
    """

    def __init__(self, folder: Path, digest: str, embedder: Any = None) -> None:
        self.digest = digest
        self._offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        self._bodies = np.memmap(folder / "passages.jsonl", mode="r")
        self._finder: _Finder = Bm25(folder) if embedder is None else _Dense(folder, embedder)
        self.retriever = _finder_name(embedder)
        self.size = len(self._offsets) - 1
        self.search = lru_cache(maxsize=_QUERIES_KEPT)(self._search)

    def _search(self, query: str, most: int) -> tuple[Filed, ...]:
        """Return the ``most`` best passages for a query, best first."""
        return tuple(self._passage(place) for place in self._finder.search(query, most))

    def _passage(self, place: int) -> Filed:
        start, end = int(self._offsets[place]), int(self._offsets[place + 1])
        passage_id, title, text = json.loads(self._bodies[start:end].tobytes())
        return Filed(passage_id, Passage(title, text))


class _Dense:
    """Dense retrieval by exact search over unit vectors."""

    def __init__(self, folder: Path, embedder: Any) -> None:
        self._vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self._embedder = embedder

    def search(self, query: str, most: int) -> list[int]:
        """Return the positions of the nearest passages."""
        wanted = self._embedder.encode_queries([query])[0].astype(np.float32)
        rows = range(0, len(self._vectors), _ROWS_TOGETHER)
        parts = [self._vectors[at : at + _ROWS_TOGETHER].astype(np.float32) @ wanted for at in rows]
        # Cosines are in [-1, 1]; only scores above 0 count.
        return best(np.concatenate(parts) + 1, most)


def open_index(name: str, retriever: str = BM25) -> PassageIndex:
    """Open the index of a file of passages, once per process; build it if missing.

    Args:
        name: The file.
        retriever: ``bm25``, or a sentence-transformers model.

    Raises:
        DataError: The file is missing or damaged, or the index cannot be written.
        ConfigError: The extra ``embed`` is not installed, or there is no such model.
    """
    path = Path(name).expanduser()
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(
            f"env.config.passages: {str(path)!r} cannot be read from {str(Path.cwd())!r}: "
            f"{error.strerror}. Name a file of passages, or 'generated'"
        ) from error
    stamp = text_digest(f"{path.resolve()}|{found.st_mtime_ns}|{found.st_size}")
    with _opening:
        return _open(path, stamp, retriever)


@lru_cache(maxsize=_OPEN)
def _open(path: Path, stamp: str, retriever: str) -> PassageIndex:
    home = cache_dir() / "passages"
    with waiting(f"indexing the passages of {path.name}"):
        embedder = None if retriever == BM25 else _embedder(retriever)
        folder = home
        try:
            digest = _digest_of(path, home / "known" / stamp)
            folder = home / f"{digest[:24]}-{text_digest(_finder_name(embedder))[:8]}-{_FORMAT}"
            if not folder.is_dir():
                _make(folder, read_passages(path), embedder)
            return PassageIndex(folder, digest, embedder)
        except (OSError, ValueError) as error:
            raise DataError(
                f"the index of {str(path)!r} cannot be written to or read from {str(folder)!r}: "
                f"{error}. Delete that folder, or set XDG_CACHE_HOME to one with room"
            ) from error


def _embedder(name: str) -> Any:
    try:
        return find_code(_EMBEDDER, "the embedder")(name)
    except ConfigError as error:
        raise ConfigError(
            f"env.config.retriever is {name!r}, and no such model can be loaded ({error}). "
            f"{BM25!r} needs none"
        ) from error


def index_in_memory(passages: Iterable[Filed], digest: str) -> PassageIndex:
    """Build an index of a few passages that is not stored.

    Args:
        passages: The passages.
        digest: Digest of the passages.
    """
    with tempfile.TemporaryDirectory() as made:
        _write(Path(made), passages, None)
        # Open and mapped files stay readable after their folder is deleted.
        return PassageIndex(Path(made), digest)


def _finder_name(embedder: Any) -> str:
    return f"bm25-{VERSION}" if embedder is None else str(embedder.identity)


def _digest_of(path: Path, known: Path) -> str:
    """Return the digest of a file; that of an unchanged file is cached, because hashing is slow."""
    if known.is_file():
        return known.read_text("utf-8").strip()
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha.update(chunk)
    write_text(known, sha.hexdigest() + "\n")
    return sha.hexdigest()


def _make(folder: Path, passages: Iterable[Filed], embedder: Any) -> None:
    """Build an index in a temporary folder, and move it into place when complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write(unfinished, passages, embedder)
        try:
            unfinished.rename(folder)
        except OSError:  # another process has built the same index
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(folder: Path, passages: Iterable[Filed], embedder: Any) -> None:
    offsets = array("q", [0])
    with (folder / "passages.jsonl").open("wb") as file:
        texts = _stored(passages, file, offsets)
        if embedder is None:
            build_bm25(folder, texts)
        else:
            _encode(folder, texts, embedder)
    np.save(folder / "offsets.npy", np.frombuffer(offsets, dtype=np.int64))


def _stored(passages: Iterable[Filed], file: IO[bytes], offsets: "array[int]") -> Iterator[str]:
    """Store passages one by one, and yield the searched text of each."""
    for filed in passages:
        passage = filed.passage
        row = json.dumps([filed.id, passage.title, passage.text], ensure_ascii=False)
        # A lone surrogate, which JSON can contain, cannot be encoded.
        offsets.append(offsets[-1] + file.write(row.encode("utf-8", "replace") + b"\n"))
        yield str(passage)


def _encode(folder: Path, texts: Iterator[str], embedder: Any) -> None:
    rows: list[Any] = []
    while some := list(islice(texts, _ENCODED_TOGETHER)):
        rows.append(embedder.encode_skills(some).astype(np.float16))
    np.save(folder / "vectors.npy", np.concatenate(rows))


def shown(found: Sequence[Filed], most_chars: int) -> str:
    """Format passages as in Search-R1, each truncated to its share of ``most_chars`` >= 1."""
    share = max(1, most_chars // max(1, len(found)))
    lines = []
    for number, filed in enumerate(found, start=1):
        title, text = filed.passage.title, filed.passage.text
        said = f"(Title: {title}) {text}" if title else f" {text}"
        lines.append(f"Doc {number}{said if len(said) <= share else said[:share] + '...'}")
    return "\n".join(lines)
