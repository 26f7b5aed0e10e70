"""The ways to install and try it from a clone: make and Docker."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = ROOT / "Dockerfile"


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_demo_shows_the_text_half_before_pytorch_is_installed(tmp_path):
    asked = ["make", "-n", f"VENV={tmp_path}/venv", "demo"]
    lines = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    def at(text):
        return lines.index(text)

    assert at(" -e .\n") < at("Part 1 of 2") < at("demo --half text") < at("Part 2 of 2")
    assert at("Part 2 of 2") < at("torch==") < at("'.[train]'") < at("demo --half weights")
    assert "[train,dev]" not in lines  # the developers' tools are for developers


def test_the_dockerfile_is_short_and_copies_all_that_the_build_reads():
    lines = DOCKERFILE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 15
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    read = set(re.findall(r'^(?:readme = |license-files = \[)"([^"]+)"', project, re.M))
    assert read | {"pyproject.toml", "constraints.txt", "src"} <= copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_dockerfile_has_no_finding_of_hadolint():
    found = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("hadolint is not installed (make setup)")
    said = subprocess.run([found, str(DOCKERFILE)], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout
    wrong = subprocess.run([found, "-"], input="FROM python\n", capture_output=True, text=True)
    assert wrong.returncode != 0  # the linter works
