"""BM25 over many texts, with an index of memory-mapped arrays in a folder.

The contribution of a word to the score of a text is computed when the index is built, so a query
adds up slices. Building holds one part of the texts in memory, and all words.

Sources: BM25 as in Robertson and Zaragoza (2009), with the ``k1`` and ``b`` that Anserini uses for
passages; eager scores from BM25S (Lù, arXiv:2407.03618); plurals are removed as in Harman (1991).
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

VERSION: Final = "1"
"""Increase this if equal texts and queries may give another order."""

FloatArray = npt.NDArray[np.floating[Any]]

_K1: Final = 0.9
_B: Final = 0.4
_PIECE: Final = 1 << 16  # texts per part
_TEXT_BITS: Final = 32
_MOST_COUNTED: Final = 255  # of one word in one text
_STOPPED: Final = -1

# A letter of Chinese, Japanese or Korean is a word, because no blank separates words.
_NO_BLANKS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD: Final = re.compile(rf"[{_NO_BLANKS}]|[^\W_{_NO_BLANKS}]+")
_STOPPED_WORDS: Final = """
    a an and are as at be but by did do does for from had has have he her his how i if in into is it
    its me my no not of on or our she so such than that the their them then there these they this to
    was we were what when where which who whom whose why will with you your
"""
_STOP_WORDS: Final = frozenset(_STOPPED_WORDS.split())


def best(scores_N: FloatArray, most: int) -> list[int]:
    """Return the indices of up to ``most`` highest scores above 0, best first; ties by index.

    Args:
        scores_N: Scores, shape ``[texts]``, at least 0.
        most: Maximum number, at least 1.
    """
    found = np.flatnonzero(scores_N)
    if len(found) > most:
        least = np.partition(scores_N[found], -most)[-most]
        found = found[scores_N[found] >= least]
    order = np.lexsort((found, -scores_N[found]))
    return [int(place) for place in found[order[:most]]]


def terms_of(text: str) -> list[str]:
    """Return the terms of a text: words without case, accents, plurals and stop words."""
    words = (_term(word) for word in _WORD.findall(text.lower()))
    return [word for word in words if word]


def _term(word: str) -> str:
    """Return the term of a word in lower case; ``""`` for one that is left out."""
    if word in _STOP_WORDS:
        return ""
    if not word.isascii():
        parts = unicodedata.normalize("NFKD", word)
        word = "".join(one for one in parts if not unicodedata.combining(one))
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else word[:-1]


class _Numbers(dict[str, int]):
    """Word -> number of its term; a new term gets the next number."""

    def __init__(self) -> None:
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        term = _term(word)
        number = self.terms.setdefault(term, len(self.terms)) if term else _STOPPED
        self[word] = number
        return number


def build_bm25(folder: Path, texts: Iterable[str]) -> int:
    """Write the index of texts into an existing folder, and return the number of texts.

    Raises:
        OSError: It cannot be written.
    """
    numbers = _Numbers()
    pieces: list[Path] = []
    lengths: list[npt.NDArray[np.int64]] = []
    remaining = iter(texts)
    while piece := list(islice(remaining, _PIECE)):
        path = folder / f"piece-{len(pieces)}.npy"
        lengths.append(_invert(path, piece, numbers))
        pieces.append(path)
    lengths_N = np.concatenate(lengths) if lengths else np.zeros(0, dtype=np.int64)
    _gather(folder, pieces, lengths_N, list(numbers.terms))
    for path in pieces:
        path.unlink()
    return len(lengths_N)


def _invert(path: Path, texts: Sequence[str], numbers: _Numbers) -> npt.NDArray[np.int64]:
    """Write sorted ``term, text, count`` of a part's texts; return the lengths of the texts."""
    flat: list[int] = []
    ends: list[int] = []
    for text in texts:
        flat += map(numbers.__getitem__, _WORD.findall(text.lower()))
        ends.append(len(flat))
    terms = np.array(flat, dtype=np.int64)
    places = np.repeat(np.arange(len(texts)), np.diff([0, *ends]))
    kept = terms >= 0
    pairs, counts = np.unique(terms[kept] << _TEXT_BITS | places[kept], return_counts=True)
    np.save(path, np.stack([pairs, np.minimum(counts, _MOST_COUNTED)]))
    return np.bincount(places[kept], minlength=len(texts)).astype(np.int64)


def _gather(
    folder: Path, pieces: Sequence[Path], lengths_N: npt.NDArray[np.int64], terms: Sequence[str]
) -> None:
    """Sort the postings of all parts by term, and compute their contributions to scores."""
    found_T = np.zeros(len(terms), dtype=np.int64)
    for path in pieces:
        found_T += np.bincount(np.load(path)[0] >> _TEXT_BITS, minlength=len(terms))
    keys_T = np.fromiter(map(_key, terms), dtype=np.uint64, count=len(terms))
    order = np.argsort(keys_T)
    starts = np.concatenate([[0], np.cumsum(found_T[order])])
    np.save(folder / "keys.npy", keys_T[order])
    np.save(folder / "starts.npy", starts)
    np.save(folder / "texts.npy", np.array([len(lengths_N)]))
    free_T = np.empty(len(terms), dtype=np.int64)  # where the next posting of a term goes
    free_T[order] = starts[:-1]
    idf_T = np.log1p((len(lengths_N) - found_T + 0.5) / (found_T + 0.5))
    mean = max(1.0, float(lengths_N.mean())) if len(lengths_N) else 1.0
    saturation_N = _K1 * (1 - _B + _B * lengths_N / mean)
    size = (int(starts[-1]),)
    texts_P = np.lib.format.open_memmap(folder / "postings.npy", "w+", np.int32, size)
    adds_P = np.lib.format.open_memmap(folder / "adds.npy", "w+", np.float32, size)
    for number, path in enumerate(pieces):
        pairs, counts = np.load(path)
        terms_p = pairs >> _TEXT_BITS
        texts_p = (pairs & ((1 << _TEXT_BITS) - 1)) + number * _PIECE
        met, first, times = np.unique(terms_p, return_index=True, return_counts=True)
        places = np.repeat(free_T[met] - first, times) + np.arange(len(pairs))
        texts_P[places] = texts_p
        adds_P[places] = idf_T[terms_p] * counts / (counts + saturation_N[texts_p])
        free_T[met] += times
    texts_P.flush()
    adds_P.flush()


def _key(term: str) -> int:
    """Return a 64-bit hash of a term; ten million have a collision once in 400,000 times."""
    return int.from_bytes(
        hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    )


class Bm25:
    """An index that is open for reading; any number of threads may search it.

    Args:
        folder: What `build_bm25` wrote.

    Raises:
        OSError: A file is missing.
        ValueError: A file is none of an index.
    """

    def __init__(self, folder: Path) -> None:
        self._keys, self._starts, self._texts, self._adds, size = (
            np.load(folder / f"{name}.npy", mmap_mode="r")
            for name in ("keys", "starts", "postings", "adds", "texts")
        )
        self.size = int(size[0])

    def search(self, query: str, most: int) -> list[int]:
        """Return up to ``most`` numbers of the best texts; repeated words count repeatedly."""
        scores_N = np.zeros(self.size, dtype=np.float32)
        # Sorted, because the last bit of a sum depends on the order.
        for term, times in sorted(Counter(terms_of(query)).items()):
            key = np.uint64(_key(term))
            at = int(np.searchsorted(self._keys, key))
            if at < len(self._keys) and self._keys[at] == key:
                part = slice(int(self._starts[at]), int(self._starts[at + 1]))
                scores_N[self._texts[part]] += np.float32(times) * self._adds[part]
        return best(scores_N, most)
