"""The search engine: at most fifty product ids for a query, best first.

The scores are Lucene's BM25, as in the original, over the postings of SQLite's FTS5, whose own
``bm25()`` has fixed k1 and b (1.2 and 0.75) and is slow. Lucene stores lengths in one byte and has
its own stemmer, so rankings are close to the original's but not equal: scores over them are not
official WebShop numbers.
"""

import importlib
import math
import os
import re
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from skillwright.core import DataError
from skillwright.envs.bm25 import FloatArray, best
from skillwright.worlds.webshop.product import words

MOST_HITS: Final = 50
ENGINES: Final = ("fts5", "tantivy")

_K1: Final = 0.9
_B: Final = 0.4

TOKENS: Final = "porter unicode61"
"""The tokenizer's name in FTS5."""

_WORD: Final = re.compile(r"[^\W_]+")
_MOST_WORDS: Final = 48
_STOP_WORDS: Final = frozenset(
    words(
        "a an and are as at be but by for if in into is it no not of on or such that the "
        "their then there these they this to was will with "
    )
)


def searched_words(text: str) -> list[str]:
    """Return the words of a text in lower case and in order, without stop words."""
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]


def query_words(query: str) -> list[str]:
    """Return the words of a query; repeated words count repeatedly."""
    return searched_words(query)[:_MOST_WORDS]


class FtsEngine:
    """BM25 over the postings of FTS5."""

    name = "fts5"

    def __init__(self, connection: sqlite3.Connection, lock: threading.RLock) -> None:
        self._connection = connection
        self._lock = lock
        (lengths,) = connection.execute("SELECT counts FROM posting WHERE stem = ''").fetchone()
        self._lengths_N = np.frombuffer(lengths, dtype="<i4")
        mean = max(1.0, float(self._lengths_N.mean())) if len(self._lengths_N) else 1.0
        self._saturation_N = _K1 * (1 - _B + _B * self._lengths_N / mean)
        connection.execute(f"CREATE VIRTUAL TABLE temp.stems USING fts5(word, tokenize='{TOKENS}')")
        connection.execute("CREATE VIRTUAL TABLE temp.stem USING fts5vocab(temp, stems, instance)")
        self._stems = lru_cache(maxsize=65_536)(self._stems_of)

    def search(self, query: str) -> tuple[str, ...]:
        """Return the asins of the products that fit a query best; ties by asin."""
        with self._lock:
            asked = Counter(stem for word in query_words(query) for stem in self._stems(word))
            scores_N = np.zeros(len(self._lengths_N))
            for stem in sorted(asked):
                self._add(scores_N, stem, asked[stem])
            return tuple(map(self._asin, best(scores_N, MOST_HITS)))

    def _add(self, scores_N: FloatArray, stem: str, times: int) -> None:
        row = self._connection.execute(
            "SELECT docs, counts FROM posting WHERE stem = ?", (stem,)
        ).fetchone()
        if row is None:
            return
        docs, counts = np.frombuffer(row[0], dtype="<i4"), np.frombuffer(row[1], dtype="u1")
        idf = math.log(1 + (len(scores_N) - len(docs) + 0.5) / (len(docs) + 0.5))
        scores_N[docs] += times * idf * (counts / (counts + self._saturation_N[docs]))

    def _asin(self, doc: int) -> str:
        row = self._connection.execute("SELECT asin FROM doc WHERE id = ?", (int(doc),)).fetchone()
        return str(row[0])

    def _stems_of(self, word: str) -> tuple[str, ...]:
        run = self._connection.execute
        run("INSERT INTO temp.stems(word) VALUES (?)", (word,))
        stems = tuple(row[0] for row in run("SELECT term FROM temp.stem"))
        run("DELETE FROM temp.stems")
        return stems


class TantivyEngine:
    """Tantivy's BM25 (k1 1.2, b 0.75, English stems), for the full catalogue."""

    name = "tantivy"

    def __init__(self, folder: Path) -> None:
        index = import_tantivy().Index
        # Tantivy raises for a missing folder.
        if not (folder.is_dir() and index.exists(str(folder))):
            raise DataError(
                f"there is no tantivy index {str(folder)!r}; make it with "
                "`skillwright data webshop --tantivy`, or use engine 'fts5'"
            )
        self._index = index.open(str(folder))
        self._searcher = self._index.searcher()

    def search(self, query: str) -> tuple[str, ...]:
        """Return the asins of the products that fit a query best; ties by asin."""
        words = query_words(query)
        if not words:
            return ()
        asked = self._index.parse_query(" ".join(words), ["body"])
        # Twice the limit, so that ties at the last rank are complete.
        found = self._searcher.search(asked, 2 * MOST_HITS).hits
        hits = [(-score, self._searcher.doc(at)["asin"][0]) for score, at in found]
        return tuple(asin for _, asin in sorted(hits)[:MOST_HITS])


def tantivy_folder(catalogue: Path) -> Path:
    """Return the folder of the tantivy index of a catalogue's file, next to it."""
    return catalogue.with_name(f"{catalogue.name}.tantivy")


def build_tantivy(folder: Path, texts: Iterable[tuple[str, str]]) -> None:
    """Build an index of ``(asin, text)`` pairs; an existing one is replaced at the end."""
    tantivy = import_tantivy()
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _write_tantivy(tantivy, unfinished, texts)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_tantivy(tantivy: Any, folder: Path, texts: Iterable[tuple[str, str]]) -> None:
    folder.mkdir(parents=True)
    schema = (
        tantivy.SchemaBuilder()
        .add_text_field("asin", stored=True, tokenizer_name="raw")
        .add_text_field("body", tokenizer_name="en_stem")
        .build()
    )
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(heap_size=128_000_000, num_threads=1)
    for asin, text in texts:
        writer.add_document(tantivy.Document(asin=asin, body=text))
    writer.commit()
    writer.wait_merging_threads()


def import_tantivy() -> Any:
    """Import tantivy."""
    try:
        return importlib.import_module("tantivy")
    except ImportError as error:
        raise DataError(
            "webshop: engine 'tantivy' needs the package: pip install 'skillwright[webshop]'; "
            "engine 'fts5' needs nothing"
        ) from error
