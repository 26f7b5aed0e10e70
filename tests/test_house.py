"""The house keeps its limits."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import skillwright

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path(skillwright.__file__).parent
VAGUE = {"utils", "common", "helpers", "misc"}
MAX_LINES = 600


def test_every_source_file_is_short_and_named_for_an_idea():
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert not {path: lines for path, lines in sizes.items() if lines > MAX_LINES}
    assert not [path for path in sizes if VAGUE & {*Path(path).parent.parts, Path(path).stem}]


def test_every_declared_dependency_is_pinned_and_the_pins_are_what_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["train"], *extras["dev"]]
    names = {re.split(r"[<>=!~\[; ]", line, maxsplit=1)[0].lower() for line in declared}
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
        if line and not line.startswith("#")
    )
    assert not names - pins.keys(), "add these to constraints.txt"
    drifted = {name: version(name) for name in names if not version(name).startswith(pins[name])}
    assert not drifted, "installed versions differ from constraints.txt; run make clean setup"


def test_no_folder_of_tests_stands_in_for_a_package_that_is_not_installed():
    """Pytest puts a test file's folder on the path; there `skillopt` would be importable."""
    assert not [*(ROOT / "tests" / "plugins").glob("*.py")]


def test_no_mark_of_unfinished_work_is_left_in_the_source():
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if marks.search(line)
    ]
    assert not found
