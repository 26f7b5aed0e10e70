"""SkillOpt's own benchmarks by name, and how each is played by its own adapter."""

from typing import Final

BENCHMARKS: Final = {
    "alfworld": "ALFWorldAdapter",
    "docvqa": "DocVQAAdapter",
    "livemathematicianbench": "LiveMathematicianBenchAdapter",
    "officeqa": "OfficeQAAdapter",
    "searchqa": "SearchQAAdapter",
    "spreadsheetbench": "SpreadsheetBenchAdapter",
}
"""SkillOpt's name of a benchmark -> its adapter. By the first of them there is one of ours, too."""


def how_to_play(name: str) -> str:
    """Say how a benchmark of SkillOpt's is played by its own adapter; ``""`` for other names."""
    if name not in BENCHMARKS:
        return ""
    adapter = f"skillopt.envs.{name}.adapter:{BENCHMARKS[name]}"
    return (
        f" It is a benchmark of SkillOpt's: where its package is installed, say --adapter {adapter}"
        " --compat skillopt."
    )
