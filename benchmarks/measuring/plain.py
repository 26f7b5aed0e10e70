"""Fixed pieces of work, timed beside what is measured: how fast this machine is at this moment.

They stay as they are: another piece of work is another unit, and every target that is given in it
has to be measured anew.
"""

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median
from time import process_time
from typing import Any

REPEATS = 7


def plain_work() -> int:
    """Do what programs spend their time on: texts, dictionaries, lists, calls and a sort."""
    counts: dict[str, int] = {}
    pieces: list[str] = []
    for number in range(1_500):
        word = f"word{number * 7919 % 389}"
        counts[word] = counts.get(word, 0) + len(word)
        if number % 3 == 0:
            pieces.append(word.upper())
    text = " ".join(pieces)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return sum(_share(name, times) for name, times in ordered) + text.count("WORD1")


def _share(name: str, times: int) -> int:
    return times // len(name) if name.startswith("word") else 0


def cpu_s(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the CPU seconds of a piece of work: the median of some in a row.

    What is done once is done with a cold cache wherever other programs had the core before, and
    that says more about them.
    """
    return median(_seconds(work) for _ in range(repeats))


def plain_s(repeats: int = REPEATS) -> float:
    """Return the seconds of one piece of plain work: the median of some."""
    return cpu_s(plain_work, repeats)


def long_plain_s() -> float:
    """Return the same, over a tenth of a second: the unit of what takes seconds itself."""
    return plain_s(240)


def arrays_s() -> float:
    """Return the seconds of fixed work inside numpy: gather, multiply, add up."""
    numbers, order = _numbers()
    return cpu_s(lambda: (numbers[order] * 0.5).cumsum())


def compared(
    work: Callable[[], float], rounds: int, unit: Callable[[], float] = plain_s
) -> list[float]:
    """Measure in units of plain work, which is timed before and after every round.

    Args:
        work: Does one round and returns its seconds.
        rounds: How many.
        unit: Does plain work and returns its seconds.

    Returns:
        One ratio per round.
    """
    ratios, before = [], unit()
    for _ in range(rounds):
        took = work()
        after = unit()
        ratios.append(took / ((before + after) / 2))
        before = after
    return ratios


def ratios_of(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return our figure by theirs, turn by turn."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


@cache
def _numbers() -> tuple[Any, Any]:
    import numpy as np  # not every peer's Python has it, and they read this module too

    rng = np.random.default_rng(0)
    return rng.standard_normal(100_000), rng.permutation(100_000)


def _seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start
