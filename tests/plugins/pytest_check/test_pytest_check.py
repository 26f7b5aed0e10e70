"""The pytest fixture `skillwright_check` fails a test if a skill became worse."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clerk_table import write_table

MODULE = "skillwright.plugins.pytest_check"
TESTS = """
def test_kept(skillwright_check):
    report = skillwright_check("good.md", config="table.yaml", against="good.md")
    assert report.is_same
    assert report.costs["new"].input_tokens < 500

def test_harmed(skillwright_check):
    skillwright_check("harm.md", config="table.yaml", against="good.md", margin=0.05)

def test_missing(skillwright_check):
    skillwright_check("none.md", config="table.yaml", settings={"env.data.test": 20})
"""


def run(folder, *words):
    """Run pytest in a folder, with the plug-in alone."""
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", MODULE, "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True)


@pytest.mark.heavy
def test_a_harm_and_a_missing_skill_fail_their_tests(tmp_path):
    write_table(tmp_path)
    (tmp_path / "test_skills.py").write_text(TESTS)
    done = run(tmp_path, "-q", "--tb=short")
    assert "1 passed" in done.stdout
    assert "2 failed" in done.stdout
    assert "Worse: " in done.stdout
    assert "not checked: no run 'none.md' here or in" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_missing_skill_fails_its_test(tmp_path):
    write_table(tmp_path)
    (tmp_path / "test_skills.py").write_text(TESTS)
    done = run(tmp_path, "-q", "-k", "missing")
    assert "1 failed" in done.stdout
    assert "not checked: no run 'none.md' here or in" in done.stdout


def test_the_plug_in_imports_nothing_that_a_session_does_not_need():
    code = "import sys, pytest; old = {*sys.modules}; import MODULE; print({*sys.modules} - old)"
    code = code.replace("MODULE", MODULE)
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = "skillwright", "skillwright.version", "skillwright.plugins", MODULE
    assert eval(shown.stdout) == set(names)


def test_the_entry_point_names_the_plug_in():
    project = tomllib.loads(Path(__file__).parents[3].joinpath("pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"skillwright": MODULE}
