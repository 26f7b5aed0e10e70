"""What produced a run."""

import json
import subprocess
import sys
from pathlib import Path

import skillwright
from skillwright.runs import provenance
from skillwright.runs.provenance import redact_command


def test_provenance_names_code_libraries_machine_and_command():
    facts = provenance(["skillwright", "train", "config.yaml"])
    assert facts["version"] == skillwright.__version__
    assert facts["command"] == ["skillwright", "train", "config.yaml"]
    assert facts["python"].endswith(".".join(map(str, sys.version_info[:3])))
    assert facts["dependencies"]["pydantic"].count(".") == 2
    assert "pytest" not in facts["dependencies"]
    assert json.loads(json.dumps(facts)) == facts


def test_the_process_own_command_line_is_the_default(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["skillwright", "demo"])
    assert provenance()["command"] == ["skillwright", "demo"]


def test_a_command_line_is_stored_without_its_secrets():
    words = [
        "x",
        "--api-key",
        "abc",
        "--token=abc",
        "--max-tokens",
        "5",
        "--api-key",
        "--name",
        "n",
    ]
    assert redact_command(words) == [
        "x",
        "--api-key",
        "<redacted>",
        "--token=<redacted>",
        "--max-tokens",
        "5",
        "--api-key",
        "--name",
        "n",
    ]


def test_the_commit_is_that_of_the_package_and_absent_without_git(monkeypatch):
    git = provenance([])["git"]
    root = Path(skillwright.__file__).resolve().parents[2]
    if (root / ".git").exists():
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True
        )
        assert git["commit"] == head.stdout.strip()
        assert git["is_changed"] in (True, False)
    monkeypatch.setenv("PATH", "")
    assert provenance([])["git"] is None
