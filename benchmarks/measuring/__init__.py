"""How benchmarks decide: by ratios, counts and shares, and never by the clock of one machine.

The same machine is two to four times slower on a busy day. What is measured in seconds is
therefore set against something that was timed beside it in the same run: a peer that does the same
job, a computed ideal, or a fixed piece of plain work (`plain_s`). A target leaves room for noise,
and not for a result that is twice as slow.
"""

from measuring.checks import Check, Kind, at_least, at_most, report
from measuring.plain import arrays_s, compared, cpu_s, long_plain_s, plain_s, plain_work, ratios_of

__all__ = [
    "Check",
    "Kind",
    "arrays_s",
    "at_least",
    "at_most",
    "compared",
    "cpu_s",
    "long_plain_s",
    "plain_s",
    "plain_work",
    "ratios_of",
    "report",
]
