"""Power analysis: the detectable gain before a run, and the data needed for proof after one.

Both use a normal approximation and only affect hints, not decisions; ``benchmarks/gates.py``
compares the hints with simulated runs.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, variance

from skillwright.core import Pair
from skillwright.evaluation.intervals import normal_quantile

POWER = 0.8
"""Share of runs in which a detectable gain is detected."""

# Variance of a task's measured gain, for success rates distributed as Beta(0.6, 0.6) and edits that
# help only some tasks: the part that shrinks with more draws, the part that does not, and the part
# that grows with the gain. Fitted to simulated tests of 20 to 200 tasks.
_NOISE_OF_A_DRAW = 0.27
_REST = 0.05
_UNEVENNESS = 0.45

_MOST_TIMES = 8  # do not advise to multiply tasks or draws by more than this


def detectable_gain(tasks: int, draws: int, alpha: float) -> float | None:
    """Return the smallest true gain that a paired test detects in `POWER` of runs.

    Args:
        tasks: Held-out tasks, at least 1.
        draws: Draws per task and side, at least 1.
        alpha: Significance level, in (0, 1).

    Returns:
        A gain in success rate, in (0, 1); ``None`` if even the largest one is not detected.
    """
    reach = normal_quantile(1 - alpha) + normal_quantile(POWER)

    def is_found(gain: float) -> bool:
        noise = _REST + _NOISE_OF_A_DRAW / draws
        # The gain's own variance decreases again when most tasks gain.
        spread = noise + max(0.0, _UNEVENNESS * gain - gain * gain)
        return gain * math.sqrt(tasks / spread) >= reach

    low, high = 0.0, 0.99
    if not is_found(high):
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def what_would_prove(pairs: Sequence[Pair], alpha: float) -> str:
    """Return a hint on how many more tasks or draws would prove the measured gain, or ""."""
    gains: defaultdict[str, list[float]] = defaultdict(list)
    for pair in pairs:
        if pair.gain is not None:
            gains[pair.task_id].append(pair.gain)
    means = [fmean(draws) for draws in gains.values()]
    if len(means) < 2 or fmean(means) <= 0:
        return ""
    n, spread = len(means), variance(means)
    needed = (fmean(means) / (normal_quantile(1 - alpha) + normal_quantile(POWER))) ** 2
    hints = []
    tasks = math.ceil(spread / needed) - n
    if tasks > (_MOST_TIMES - 1) * n:
        return ""
    if tasks > 0:
        hints.append(f"{tasks} more val tasks")
    noise = fmean(variance(one) / len(one) if len(one) > 1 else 0.0 for one in gains.values())
    most = max(len(one) for one in gains.values())
    room = n * needed - max(0.0, spread - noise)
    if noise > 0 and room > 0 and 1 < noise / room <= _MOST_TIMES:
        hints.append(f"{math.ceil(most * noise / room) - most} more draws of each")
    if not hints:
        return ""
    often = f"{POWER * 10:.0f} of 10 new runs"
    return f"{' or '.join(hints)} would prove a gain of this size in {often}"
