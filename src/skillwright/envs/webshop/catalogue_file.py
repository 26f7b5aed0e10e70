"""How a catalogue is laid out in SQLite, and how one is written.

Products are staged in any order, then indexed in order of their asins: ties in a search go by
the row number, and so by asin. Nothing is held in memory but one product and the counts of
attributes.
"""

import hashlib
import json
import math
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
from pydantic import TypeAdapter

from skillwright.core.inflate import inflate
from skillwright.core.jsonio import canonical
from skillwright.envs.webshop.product import Product
from skillwright.envs.webshop.search import TOKENS, searched_words

SCHEMA_VERSION: Final = "1"

MOST_COMBINATIONS: Final = 100_000
"""Ways to choose one product's options that are goals: the first of them. A product with twenty
options of twenty values has more ways than could ever be listed."""

_TABLES: Final = f"""
CREATE TABLE product(asin TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE doc(id INTEGER PRIMARY KEY, asin TEXT NOT NULL);
CREATE TABLE goals(asin TEXT PRIMARY KEY, human INTEGER, synthetic INTEGER) WITHOUT ROWID;
CREATE TABLE attribute(name TEXT PRIMARY KEY, goals INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE posting(stem TEXT PRIMARY KEY, docs BLOB NOT NULL, counts BLOB NOT NULL);
CREATE VIRTUAL TABLE searched USING fts5(body, content='', tokenize='{TOKENS}');
CREATE VIRTUAL TABLE instances USING fts5vocab(searched, instance);
"""
_PRODUCT: Final = TypeAdapter(Product)
_MOST_COUNTED: Final = 255  # times that a word stands in one text


class CatalogueWriter:
    """Writes one catalogue into an empty database: `add` every product, then `finish`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._goals_with: Counter[str] = Counter()
        connection.executescript(_TABLES)
        # A catalogue of a million products is flushed in some pieces, and not in thousands.
        connection.execute("INSERT INTO searched(searched, rank) VALUES ('hashsize', 33554432)")

    def add(self, product: Product) -> bool:
        """Stage a product; the first with an asin counts.

        Returns:
            Whether it was new.
        """
        run = self._connection.execute
        stored = run(
            "INSERT OR IGNORE INTO product VALUES (?, ?)", (product.asin, pack_product(product))
        )
        if not stored.rowcount:
            return False
        combinations = synthetic_goals(product)
        for name in product.template.attributes if product.template else ():
            self._goals_with[name] += combinations
        human = sum(bool(wish.attributes) for wish in product.wishes)
        if human or combinations:
            run("INSERT INTO goals VALUES (?, ?, ?)", (product.asin, human, combinations))
        return True

    def finish(self) -> str:
        """Index what was staged.

        Returns:
            The digest of the catalogue: equal products give equal digests.
        """
        run = self._connection.execute
        sha, count = hashlib.sha256(), 0
        for product in staged_products(self._connection):
            sha.update(canonical([product.asin, asdict(product)]).encode())
            run("INSERT INTO doc VALUES (?, ?)", (count, product.asin))
            run(
                "INSERT INTO searched(rowid, body) VALUES (?, ?)",
                (count, " ".join(searched_words(product.searched_text))),
            )
            count += 1
        self._invert(count)
        self._connection.executemany(
            "INSERT INTO attribute VALUES (?, ?)", sorted(self._goals_with.items())
        )
        digest = sha.hexdigest()
        facts = {"schema": SCHEMA_VERSION, "products": str(count), "digest": digest}
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        return digest

    def _invert(self, count: int) -> None:
        """Keep FTS5's postings in the form in which they are read: two arrays for each stem."""
        lengths_N = np.zeros(count, dtype="<i4")
        cursor = self._connection.execute("SELECT term, doc FROM instances")
        for stem, rows in groupby(cursor, key=itemgetter(0)):
            every = np.fromiter((doc for _, doc in rows), dtype="<i4")
            docs, counts = np.unique(every, return_counts=True)
            lengths_N[docs] += counts.astype("<i4")
            times = np.minimum(counts, _MOST_COUNTED).astype("u1")
            self._keep(stem, docs.astype("<i4").tobytes(), times.tobytes())
        # The lengths stand under the empty stem, which no word has.
        self._keep("", b"", lengths_N.tobytes())
        self._connection.execute("DROP TABLE instances")
        self._connection.execute("DROP TABLE searched")

    def _keep(self, stem: str, docs: bytes, counts: bytes) -> None:
        self._connection.execute("INSERT INTO posting VALUES (?, ?, ?)", (stem, docs, counts))


def staged_products(connection: sqlite3.Connection) -> Iterator[Product]:
    """Return all products of a database, in order of their asins."""
    rows = connection.execute("SELECT body FROM product ORDER BY asin")
    return (unpack_product(body) for (body,) in rows)


def synthetic_goals(product: Product) -> int:
    """Return how many synthetic goals a product has: one for every way to choose its options.

    At most `MOST_COMBINATIONS`.
    """
    if product.template is None or not product.template.attributes:
        return 0
    return min(MOST_COMBINATIONS, math.prod(map(len, product.options.values())))


def pack_product(product: Product) -> bytes:
    """Return a product as it is stored."""
    text = json.dumps(asdict(product), ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), level=1)


def unpack_product(body: bytes) -> Product:
    """Read a stored product."""
    return _PRODUCT.validate_json(inflate(body, "a product of this shop"))
