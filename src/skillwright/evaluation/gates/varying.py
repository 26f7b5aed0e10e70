"""Draw again only where a further draw can tell something: tasks whose results differ so far.

Whether a task is drawn again depends on the results of both sides together, not on which side had
them, so a test that swaps the sides of a task stays exact. A task that is left out keeps the gain
of 0 that it showed: measured gains are conservative.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import fsum, inf, sqrt
from statistics import fmean

from skillwright.core import Pair


def doubling(first: int, most: int) -> Iterator[int]:
    """Return how many draws each look adds: the number of draws doubles, up to ``most``.

    ``doubling(1, 6)`` gives 1, 1, 2, 2: looks after 1, 2, 4 and 6 draws.
    """
    done = min(first, most)
    yield done
    while done < most:
        more = min(done, most - done)
        yield more
        done += more


def varying_tasks(task_ids: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    """Return the tasks whose scored results are not all equal; in order.

    A task of which both sides are one and the same episode, because their prompts are equal, is
    left out however it varies: its gain is 0 in every draw. So is a task without a scored pair:
    its episodes were tried again before they were given up, and a few tasks that always fail
    would be ever more of what is drawn, until too much was lost for any verdict.
    """
    seen: defaultdict[str, set[float]] = defaultdict(set)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if pair.candidate.key and pair.candidate.key == pair.incumbent.key:
            seen[pair.task_id] = {0.0}
        elif old is not None and new is not None:
            seen[pair.task_id] |= {old, new}
    return [task_id for task_id in task_ids if len(seen[task_id]) > 1]


def share_varying_within(pairs: Sequence[Pair]) -> float:
    """Return the share of tasks whose draws differ on one side, among those with several draws.

    0 where no task has several: then nothing is known.
    """
    sides: defaultdict[str, tuple[set[float], set[float]]] = defaultdict(lambda: (set(), set()))
    draws: defaultdict[str, int] = defaultdict(int)
    for pair in pairs:
        old, new = pair.incumbent.reward, pair.candidate.reward
        if old is not None and new is not None:
            sides[pair.task_id][0].add(old)
            sides[pair.task_id][1].add(new)
            draws[pair.task_id] += 1
    several = [sides[task_id] for task_id, count in draws.items() if count > 1]
    return fmean(len(old) > 1 or len(new) > 1 for old, new in several) if several else 0.0


def z_score(gains: Mapping[str, float]) -> float:
    """Return the mean of the tasks' gains in units of its standard error.

    0 where no task went differently; infinite, with the sign of the mean, where all tasks gained
    the same.
    """
    values = gains.values()
    n, total = len(values), fsum(values)
    spread = fsum(value * value for value in values) - total * total / n if n else 0.0
    if n > 1 and spread > 1e-12:
        return total / sqrt(n * spread / (n - 1))
    return inf if total > 0 else -inf if total < 0 else 0.0
