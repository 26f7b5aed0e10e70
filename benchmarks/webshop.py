"""How fast the shop is: a step, a search, an import, and the memory of many episodes.

A step is one of a walk over every kind of page of the built-in shop: search, results, next page,
item, option, description and features, and the purchase; each goal has its own search. A search is
one that was never asked before, in a catalogue of 100,000 products from the built-in shop's
generator: the content words of an instruction (`search_commands`). Memory is that of 128 episodes
that are open on one catalogue, with it, above a process that has imported the environment.

    .venv/bin/python benchmarks/webshop.py [--import N]

With ``--import N``, N products in the shape of the original's files are written, imported by the
command's own code in a process of its own, and opened; the time for 1.18 million is that times
their share, which is an extrapolation. A step is given in pieces of plain work that is timed beside
it, and a search, which is spent inside numpy, in pieces of plain numpy work. The figures are
medians, the spread their quartiles. One thread; nothing waits.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from measuring import Kind, arrays_s, at_most, compared, report
from measuring.machine import resident_bytes
from skillwright.core import Task
from skillwright.worlds.webshop import (
    Catalogue,
    CatalogueSource,
    WebShopEnv,
    import_webshop,
    open_catalogue,
    webshop_tasks,
)
from skillwright.worlds.webshop.builtin import built_in_products
from skillwright.worlds.webshop.goals import search_commands

PRODUCTS = 100_000
OFFICIAL = 1_180_000
SEARCHES = 300
LIVE = 128
MEGABYTE = 1_000_000
CONFIG = {"tagger": "rule"}
STEP, SEARCH = 0.115, 2.6
"""In pieces of plain work, and of plain numpy work."""
MOST_MB = 200.0
BATCH = 10


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds of CPU time that one call takes."""
    start = process_time()
    work()
    return 1e3 * (process_time() - start)


def walk(task: Task) -> list[float]:
    """Visit the shop; return the milliseconds of every step."""
    env = WebShopEnv(CONFIG, dict(task.extras))
    env.init([])
    *gold, buy = WebShopEnv.gold_actions(task.extras, CONFIG)
    asked = search_commands(task.description)[1]
    pages = ["click[description]", "click[< prev]", "click[features]", "click[< prev]"]
    actions = [asked, "click[next >]", "click[< prev]", *gold, *pages, buy]
    return [timed(lambda action=action: env.step(action)) for action in actions]


def live_bytes(tasks: list[Task], before: int) -> int:
    """Hold episodes open on a product's page; return what they take, with their catalogue."""
    held = []
    for task in islice(cycle(tasks), LIVE):
        env = WebShopEnv(CONFIG, dict(task.extras))
        opened = env.init([])
        outputs = [env.step(one) for one in WebShopEnv.gold_actions(task.extras, CONFIG)[:-1]]
        held.append((env, opened, outputs))
    return resident_bytes() - before


def official_files(folder: Path, products: int) -> int:
    """Write files in the shape of the original's; return their size in bytes."""
    with (
        (folder / "items_shuffle.json").open("w", encoding="utf-8") as items,
        (folder / "items_ins_v2.json").open("w", encoding="utf-8") as about,
    ):
        first = True
        for product in built_in_products(1, products):
            options = {
                name: [{"value": value, "image": None} for value in values]
                for name, values in product.options.items()
            }
            item = {
                "asin": product.asin,
                "name": product.title,
                # The originals are about five times as long as ours.
                "full_description": " ".join([product.description] * 8),
                "small_description": [*product.bullets] * 4,
                "pricing": "".join(f"${price}" for price in product.prices),
                "customization_options": options,
                "category": product.category,
                "query": product.query,
                "product_category": product.crumbs,
                "images": [f"https://images.example/{product.asin}/{n}.jpg" for n in range(6)],
            }
            entry = {"attributes": product.attributes, "instruction": None}
            items.write(("[" if first else ",") + json.dumps(item))
            about.write(("{" if first else ",") + f'"{product.asin}":{json.dumps(entry)}')
            first = False
        items.write("]")
        about.write("}")
    return sum(path.stat().st_size for path in folder.glob("*.json"))


def import_once(folder: str, target: str) -> None:
    """Import in this process, and print what it took."""
    start, cpu = perf_counter(), process_time()
    import_webshop(Path(folder), Path(target))
    figures = {
        "s": perf_counter() - start,
        "cpu_s": process_time() - cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE,
    }
    print(json.dumps(figures))


def imported(products: int) -> dict[str, float]:
    """Write official files, import and open them; return what it took."""
    with tempfile.TemporaryDirectory() as name:
        folder, target = Path(name), Path(name) / "shop.sqlite"
        size = official_files(folder, products)
        command = [sys.executable, __file__, "--import-once", str(folder), str(target)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        figures = json.loads(printed)
        opened: list[Catalogue] = []
        open_ms = timed(lambda: opened.append(open_catalogue(CatalogueSource(str(target)))))
        share = OFFICIAL / products
        return {
            "products": products,
            "source_mb": round(size / MEGABYTE),
            "catalogue_mb": round(target.stat().st_size / MEGABYTE),
            "import_s": round(figures["s"], 1),
            "import_cpu_s": round(figures["cpu_s"], 1),
            "peak_mb": round(figures["peak_mb"]),
            "open_ms": round(open_ms, 1),
            "first_search_ms": round(timed(lambda: opened[0].search("wool scarf gift boxed")), 1),
            "extrapolated_import_s": round(figures["s"] * share),
        }


def queries(catalogue: Catalogue) -> Iterator[str]:
    """Yield searches that were never asked."""
    asins = [asin for asin, _ in catalogue.products_with_goals("human")]
    for asin in random.Random(0).sample(asins, SEARCHES):
        goal = next(catalogue.goals_of(asin, "human"))
        yield search_commands(goal.instruction_text)[1].removeprefix("search[")[:-1]


def searched(catalogue: Catalogue, asked: Iterator[str], times: list[float]) -> float:
    """Ask a batch of searches; return the seconds of one, their median."""
    batch = [
        timed(lambda query=query: catalogue.engine.search(query)) for query in islice(asked, BATCH)
    ]
    times += batch
    return median(batch) / 1e3


def walked(tasks: Iterator[Task], times: list[float]) -> float:
    """Walk through the shop for the next task; return the seconds of a step, their median."""
    steps = walk(next(tasks))
    times += steps
    return median(steps) / 1e3


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--import", dest="imports", type=int, default=0)
    parser.add_argument("--import-once", nargs=2)
    asked = parser.parse_args()
    if asked.import_once:
        import_once(*asked.import_once)
        return 0
    before = resident_bytes()
    build_ms = timed(lambda: open_catalogue(CatalogueSource()))
    tasks = webshop_tasks("test", env_config=CONFIG)
    memory = live_bytes(tasks, before)
    steps: list[float] = []
    found: list[float] = []
    walks = iter(tasks)
    step_ratios = compared(lambda: walked(walks, steps), len(tasks))
    large = Catalogue.of_products(built_in_products(2, PRODUCTS), CatalogueSource())
    asks = queries(large)
    searched(large, asks, [])  # warm
    rounds = SEARCHES // BATCH - 1
    search_ratios = compared(lambda: searched(large, asks, found), rounds, arrays_s)
    checks = [
        at_most("step in the built-in shop", Kind.PLAIN, step_ratios, STEP),
        at_most("new search of 100,000 products, to numpy", Kind.PLAIN, search_ratios, SEARCH),
        at_most(
            "128 live episodes with their catalogue", Kind.MEMORY, [memory / MEGABYTE], MOST_MB
        ),
    ]
    return report(
        checks,
        step_ms=round(median(steps), 4),
        step_p99_ms=round(sorted(steps)[int(0.99 * len(steps))], 3),
        search_ms=round(median(found), 3),
        steps=len(steps),
        built_in_ms=round(build_ms, 1),
        search_products=PRODUCTS,
        imported=imported(asked.imports) if asked.imports else None,
    )


if __name__ == "__main__":
    sys.exit(main())
