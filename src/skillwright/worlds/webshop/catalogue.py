"""The catalogue: products, search and goals, shared by all episodes of a process.

An episode names its catalogue (`CatalogueSource`); `open_catalogue` opens each one once. It is
read-only, so any number of episodes and threads share it.
"""

import hashlib
import itertools
import json
import math
import os
import re
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final
from urllib.parse import quote

import numpy as np
from pydantic import TypeAdapter

from skillwright.core import DataError
from skillwright.core.jsonio import PackedDamaged, canonical, inflate
from skillwright.datasets import cache_dir
from skillwright.worlds.webshop.builtin import built_in_products
from skillwright.worlds.webshop.product import (
    Goal,
    GoalKind,
    Product,
    Wish,
    drawn_price,
    limit_text,
    price_limit,
)
from skillwright.worlds.webshop.search import (
    TOKENS,
    FtsEngine,
    TantivyEngine,
    build_tantivy,
    searched_words,
    tantivy_folder,
)

# The SQLite layout. Products are staged in any order, then indexed in order of their asins, so that
# ties in a search are broken by asin. Only one product and the counts of attributes are in memory.


SCHEMA_VERSION: Final = "1"

MOST_COMBINATIONS: Final = 100_000
"""Maximum number of synthetic goals per product: its first combinations of options."""

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
_MOST_COUNTED: Final = 255  # maximum count of a word in a text, which is stored in one byte


class CatalogueWriter:
    """Writes one catalogue into an empty database: `add` every product, then `finish`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._goals_with: Counter[str] = Counter()
        connection.executescript(_TABLES)
        # A catalogue of a million products is flushed in a few large pieces.
        connection.execute("INSERT INTO searched(searched, rank) VALUES ('hashsize', 33554432)")

    def add(self, product: Product) -> bool:
        """Stage a product unless its asin is known; return whether it was new."""
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
        """Index the staged products and return the digest of the catalogue."""
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
        """Store FTS5's postings as they are read: two arrays for each stem."""
        lengths_N = np.zeros(count, dtype="<i4")
        cursor = self._connection.execute("SELECT term, doc FROM instances")
        for stem, rows in groupby(cursor, key=itemgetter(0)):
            every = np.fromiter((doc for _, doc in rows), dtype="<i4")
            docs, counts = np.unique(every, return_counts=True)
            lengths_N[docs] += counts.astype("<i4")
            times = np.minimum(counts, _MOST_COUNTED).astype("u1")
            self._keep(stem, docs.astype("<i4").tobytes(), times.tobytes())
        # The lengths are stored under the empty stem, which no word has.
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
    """Return the number of a product's synthetic goals, at most `MOST_COMBINATIONS`."""
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


BUILT_IN: Final = "built-in"
IMPORTED: Final = "imported"
IMPORT_COMMAND: Final = "skillwright data webshop --from DIR"

_GOAL_KEY: Final = re.compile(r"(?P<asin>.+)/(?P<kind>human|synthetic)/(?P<number>[0-9]{1,9})")
_PRODUCTS_KEPT: Final = 4_096
_QUERIES_KEPT: Final = 4_096
_CATALOGUES_KEPT: Final = 8
_opening: Final = threading.Lock()


def imported_path() -> Path:
    """Return the path of an imported catalogue; it may not exist yet."""
    return cache_dir() / "webshop" / "catalogue.sqlite"


@dataclass(frozen=True, slots=True)
class CatalogueSource:
    """The name of a catalogue in plain values, for tasks in other processes.

    Attributes:
        name: ``built-in``, ``imported``, or the path of a catalogue.
        seed: Seed of the built-in products, prices, price limits and splits.
        engine: ``fts5`` or ``tantivy``.
    """

    name: str = BUILT_IN
    seed: int = 0
    engine: str = "fts5"


class Catalogue:
    """A catalogue that is open for reading.

    Args:
        connection: Its database, used from any thread.
        source: Its name.
        folder: A tantivy index for searches; ``None`` searches by SQLite.
    """

    def __init__(
        self, connection: sqlite3.Connection, source: CatalogueSource, folder: Path | None = None
    ) -> None:
        self.source = source
        self._connection = connection
        self._lock = threading.RLock()
        self.size = int(self._fact("products"))
        self.digest = self._fact("digest")
        self.engine: FtsEngine | TantivyEngine = (
            TantivyEngine(folder) if folder is not None else FtsEngine(connection, self._lock)
        )
        self.product = lru_cache(maxsize=_PRODUCTS_KEPT)(self._read_product)
        self.search = lru_cache(maxsize=_QUERIES_KEPT)(self._search)

    @classmethod
    def of_products(cls, products: Iterable[Product], source: CatalogueSource) -> "Catalogue":
        """Make a catalogue of products in memory."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        writer = CatalogueWriter(connection)
        for product in products:
            writer.add(product)
        writer.finish()
        connection.commit()
        return cls(connection, source)

    def price(self, product: Product) -> float:
        """Return the price of a product in this world, in dollars."""
        return drawn_price(product.asin, product.prices, self.source.seed)

    def products_with_goals(self, kind: GoalKind) -> list[tuple[str, int]]:
        """Return the asins with goals of a kind, in order, and the number of their goals."""
        with self._reading() as connection:
            return connection.execute(
                f"SELECT asin, {kind} FROM goals WHERE {kind} > 0 ORDER BY asin"
            ).fetchall()

    def goals_of(self, asin: str, kind: GoalKind) -> Iterator[Goal]:
        """Yield a product's goals of a kind; raise `DataError` if there is no such product."""
        product = self.product(asin)
        if kind == "human":
            wishes = (wish for wish in product.wishes if wish.attributes)
            for number, wish in enumerate(wishes):
                yield self._goal(product, wish, f"human/{number}")
        elif product.template is not None and product.template.attributes:
            names = sorted(product.options)
            choices = itertools.product(*(product.options[name] for name in names))
            for number, chosen in enumerate(itertools.islice(choices, MOST_COMBINATIONS)):
                named = tuple(zip(names, chosen, strict=True))
                yield self._goal(product, product.template, f"synthetic/{number}", named)

    def goal(self, key: str) -> Goal:
        """Return a goal by its key, ``asin/kind/number``, or raise `DataError`."""
        named = _GOAL_KEY.fullmatch(key)
        if named:
            kind: GoalKind = "human" if named["kind"] == "human" else "synthetic"
            goals = self.goals_of(named["asin"], kind)
            found = next(itertools.islice(goals, int(named["number"]), None), None)
            if found is not None:
                return found
        raise DataError(
            f"webshop: catalogue {self.source.name!r} has no goal {key!r}; a goal is named "
            "asin/human/number or asin/synthetic/number, as webshop_tasks() lists them"
        )

    def _goal(
        self,
        product: Product,
        wish: Wish,
        number: str,
        named: tuple[tuple[str, str], ...] | None = None,
    ) -> Goal:
        limit = price_limit(product.asin, self.price(product), self.source.seed)
        options = tuple(("", value) for value in wish.options) if named is None else named
        choice = ", and ".join(f"{name}: {value}" for name, value in named or ())
        return Goal(
            key=f"{product.asin}/{number}",
            asin=product.asin,
            category=product.category,
            query=product.query,
            name=product.title,
            product_category=product.crumbs,
            instruction_text=wish.text + (choice and f" with {choice}") + limit_text(limit),
            attributes=wish.attributes,
            price_upper=limit,
            goal_options=options,
            weight=1.0 if named is None else self._weight(wish.attributes),
        )

    def _weight(self, attributes: tuple[str, ...]) -> float:
        with self._reading() as connection:
            found = [
                connection.execute("SELECT goals FROM attribute WHERE name = ?", (name,))
                for name in attributes
            ]
            counts = [int(rows.fetchone()[0]) for rows in found]
        return sum(1 / count for count in counts) / len(counts)

    def _read_product(self, asin: str) -> Product:
        with self._reading() as connection:
            row = connection.execute("SELECT body FROM product WHERE asin = ?", (asin,)).fetchone()
            if row is not None:
                return unpack_product(row[0])
        raise DataError(f"webshop: catalogue {self.source.name!r} has no product {asin!r}")

    def _search(self, query: str) -> tuple[str, ...]:
        with self._reading():
            return self.engine.search(query)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection
            except (sqlite3.DatabaseError, PackedDamaged) as error:
                raise DataError(
                    f"webshop: the catalogue {self.source.name!r} is damaged ({error}); make it "
                    f"again with `{IMPORT_COMMAND}`"
                ) from error

    def _fact(self, name: str) -> str:
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0])


def open_catalogue(source: CatalogueSource) -> Catalogue:
    """Open a catalogue, once per process.

    Raises:
        DataError: The file is missing or not a catalogue, or its engine is not installed.
    """
    if source.name == BUILT_IN:
        with _opening:
            return _open_built_in(source, os.getpid())
    path = imported_path() if source.name == IMPORTED else Path(source.name).expanduser()
    try:
        found = path.stat()
    except OSError as error:
        raise DataError(
            f"webshop: the catalogue {str(path)!r} cannot be read: {error.strerror}. Make it with "
            f"`{IMPORT_COMMAND}`, or use catalogue 'built-in'"
        ) from error
    # A forked process must not use its parent's connection, nor a replaced file.
    with _opening:
        return _open_file(source, path, found.st_mtime_ns, found.st_size, os.getpid())


@lru_cache(maxsize=_CATALOGUES_KEPT)
def _open_built_in(source: CatalogueSource, process: int) -> Catalogue:
    if source.engine != "fts5":
        raise DataError(
            f"webshop: the built-in catalogue has no index for engine {source.engine!r}; "
            "use engine 'fts5'"
        )
    return Catalogue.of_products(built_in_products(source.seed), source)


@lru_cache(maxsize=_CATALOGUES_KEPT)
def _open_file(
    source: CatalogueSource, path: Path, mtime_ns: int, size: int, process: int
) -> Catalogue:
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    folder = tantivy_folder(path) if source.engine == "tantivy" else None
    try:
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        if row == (SCHEMA_VERSION,):
            return Catalogue(connection, source, folder)
    except sqlite3.DatabaseError as error:
        raise DataError(
            f"webshop: {str(path)!r} is no catalogue ({error}); make one with `{IMPORT_COMMAND}`"
        ) from error
    raise DataError(
        f"webshop: {str(path)!r} was written by another version; make it again with "
        f"`{IMPORT_COMMAND}`"
    )


def index_with_tantivy(path: Path) -> Path:
    """Build the tantivy index next to a catalogue's file, and return its folder.

    Raises:
        DataError: Tantivy is not installed.
    """
    folder = tantivy_folder(path)
    with closing(sqlite3.connect(path)) as connection:
        products = staged_products(connection)
        build_tantivy(folder, ((one.asin, one.searched_text) for one in products))
    return folder
