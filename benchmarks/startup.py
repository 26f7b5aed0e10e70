"""The CPU time of commands before they work: help, a list of runs, and a training's start.

Each is set against a program that imports what every command line of this kind needs (typer, rich,
pydantic, yaml), run in turns with it, and help also against the help of a typer program with two
empty commands: most of it is typer's. A list of runs, in an empty folder and in one with two
trainings, is set against help.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from measuring import Kind, at_most, ratios_of, report

REPEATS = 7
MOST_OF_LIBRARIES = 2.2
"""Help by the import of its libraries: typer draws its help with more than those."""
MOST_OF_BARE = 1.4
"""Help by that of the bare typer program."""
MOST_OF_HELP = 3.0
"""A list of runs by help."""
PYTHON = sys.executable
LIBRARIES = (PYTHON, "-c", "import typer, rich, pydantic, yaml")
BARE = """
import typer
app = typer.Typer()
@app.command()
def one(): "One."
@app.command()
def two(): "Two."
app()
"""


ROWS = Path(__file__).parents[1] / "examples" / "table_data" / "messages.csv"


def train_twice(folder: str) -> None:
    """Make two short trainings of scripted models on the example's rows."""
    ours = (PYTHON, "-m", "skillwright")
    make = (*ours, "init", str(ROWS), "--offline", "--yes")
    train = (*ours, "train", "train.yaml", "--set", "train.epochs=1")
    for command in (make, train, train):
        subprocess.run(command, cwd=folder, capture_output=True, check=True)


def cpu_of(command: Sequence[str], folder: str, *, until_line: bool = False) -> float:
    """Run a program, or let it run until its first line, and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        if until_line and program.stdout is not None:
            program.stdout.readline()
            program.kill()
        program.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    """Measure in turns, and print the checks."""
    ours = (PYTHON, "-m", "skillwright")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bare.py").write_text(BARE, encoding="utf-8")
        train_twice(folder)
        programs = {
            "libraries": LIBRARIES,
            "bare": (PYTHON, "bare.py", "--help"),
            "help": (*ours, "--help"),
            "runs list, no run": (*ours, "runs", "list", "--root", "none"),
            "runs list, two runs": (*ours, "runs", "list"),
            "demo, to its first line": (*ours, "demo", "--half", "text"),
        }
        cpu_s: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(REPEATS):
            for name, command in programs.items():
                cpu_s[name].append(cpu_of(command, folder, until_line="first line" in name))
    checks = [
        at_most(
            "help by the import of its libraries",
            Kind.PEER,
            ratios_of(cpu_s["help"], cpu_s["libraries"]),
            MOST_OF_LIBRARIES,
        ),
        at_most(
            "help by a bare typer program's",
            Kind.PEER,
            ratios_of(cpu_s["help"], cpu_s["bare"]),
            MOST_OF_BARE,
        ),
        *(
            at_most(
                f"{name} by help", Kind.PEER, ratios_of(cpu_s[name], cpu_s["help"]), MOST_OF_HELP
            )
            for name in ("runs list, no run", "runs list, two runs")
        ),
    ]
    return report(checks, cpu={name: round(median(times), 3) for name, times in cpu_s.items()})


if __name__ == "__main__":
    sys.exit(main())
