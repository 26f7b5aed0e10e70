"""How fast passages are indexed and found, beside tantivy.

100,000 passages of 100 words, drawn from a vocabulary whose words are as frequent as those of a
language (Zipf's law), are indexed by our BM25 and by tantivy in one thread, out of the same list.
Then both are asked for the best three passages for 300 queries of eight words out of a passage,
none asked before.

    .venv/bin/python benchmarks/passages.py [--passages N]

Times are CPU time; the ratios are ours by tantivy's. `index_mb` is the size of our index without
the passages themselves. With `--passages 1000000` the texts are those 100,000 ten times over.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
import tantivy

from measuring import Kind, at_most, report
from measuring.machine import resident_bytes
from skillwright.envs.bm25 import Bm25, build_bm25

PASSAGES = 100_000
WORDS = 100
VOCABULARY = 300_000
QUERIES = 300
BATCH = 10
BUILD, SEARCH = 4.0, 4.0
"""To tantivy."""
MEGABYTE = 1_000_000


def drawn(count: int) -> list[str]:
    """Draw texts."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, VOCABULARY + 1) ** 1.05
    ends = np.cumsum(shares / shares.sum())
    words = [f"w{number:x}q" for number in range(VOCABULARY)]
    return [
        " ".join([words[at] for at in np.searchsorted(ends, rng.random(WORDS))])
        for _ in range(count)
    ]


def asked(texts: list[str]) -> Iterator[str]:
    """Yield queries: eight words of a text."""
    rng = np.random.default_rng(1)
    for at in rng.integers(0, len(texts), QUERIES):
        yield " ".join(rng.choice(texts[at].split(), 8))


def timed_s(work: Callable[[], object]) -> float:
    """Return the seconds of CPU time that a call takes."""
    start = process_time()
    work()
    return process_time() - start


def build_tantivy(folder: Path, texts: Iterator[str]) -> tantivy.Index:
    """Make the peer's index."""
    builder = tantivy.SchemaBuilder().add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build(), path=str(folder))
    writer = index.writer(heap_size=128_000_000, num_threads=1)
    for text in texts:
        writer.add_document(tantivy.Document(body=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, default=PASSAGES)
    count = parser.parse_args().passages
    some = drawn(min(count, PASSAGES))
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = Path(name) / "ours", Path(name) / "theirs"
        ours.mkdir()
        theirs.mkdir()
        before = resident_bytes()
        own_s = timed_s(lambda: build_bm25(ours, (some[at % len(some)] for at in range(count))))
        grown = resident_bytes() - before
        made: list[tantivy.Index] = []
        texts = (some[at % len(some)] for at in range(count))
        peer_s = timed_s(lambda: made.append(build_tantivy(theirs, texts)))
        index, searcher = Bm25(ours), made[0].searcher()
        queries = asked(some)
        own, peer = [], []
        while batch := list(islice(queries, BATCH)):
            own.append(timed_s(lambda batch=batch: [index.search(one, 3) for one in batch]))
            parsed = [made[0].parse_query(one, ["body"]) for one in batch]
            peer.append(timed_s(lambda parsed=parsed: [searcher.search(one, 3) for one in parsed]))
        own, peer = own[1:], peer[1:]  # the first warms both
        checks = [
            at_most("index of passages", Kind.PEER, [own_s / peer_s], BUILD),
            at_most(
                "new search", Kind.PEER, [a / b for a, b in zip(own, peer, strict=True)], SEARCH
            ),
        ]
        return report(
            checks,
            passages=count,
            build_s=round(own_s, 1),
            build_tantivy_s=round(peer_s, 1),
            search_ms=round(1e3 * median(own) / BATCH, 2),
            search_tantivy_ms=round(1e3 * median(peer) / BATCH, 2),
            index_mb=round(sum(one.stat().st_size for one in ours.iterdir()) / MEGABYTE),
            grown_mb=round(grown / MEGABYTE),
        )


if __name__ == "__main__":
    sys.exit(main())
