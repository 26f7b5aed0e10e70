"""The GitHub action and the pre-commit hook run as their files say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clerk_table import write_table

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "examples" / "ci" / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


def run_action(folder, **inputs):
    """Run the steps of the action in a shell, as GitHub does; return code, outputs and summary."""
    known = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | inputs
    files = {name: folder / name for name in ("output", "summary")}
    for path in files.values():
        path.write_text("")
    code = 0
    for step in ACTION["runs"]["steps"]:
        given = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: known[found[1]], value)
            for name, value in step["env"].items()
        }
        variables = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "GITHUB_WORKSPACE": str(folder),
            "RUNNER_TEMP": str(folder),
            "GITHUB_OUTPUT": str(files["output"]),
            "GITHUB_STEP_SUMMARY": str(files["summary"]),
        }
        assert "${{" not in step["run"]
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, env=variables | given, capture_output=True, text=True)
        code = code or done.returncode
    outputs = dict(line.split("=", 1) for line in files["output"].read_text().splitlines())
    return code, outputs, files["summary"].read_text()


@pytest.mark.parametrize(
    ("skill", "against", "code", "answer"),
    [
        pytest.param("good.md", "", 0, "better", marks=pytest.mark.heavy),
        ("harm.md", "good.md", 1, "worse"),
        ("$(touch broken).md", "", 2, ""),
    ],
)
def test_the_action_fails_a_harm_and_writes_its_summary(tmp_path, skill, against, code, answer):
    write_table(tmp_path)
    found, outputs, summary = run_action(
        tmp_path, skill=skill, config="table.yaml", against=against
    )
    assert (found, outputs["answer"]) == (code, answer)
    assert Path(outputs["comment"]).read_text() == summary
    assert f"Skill check: {answer or 'not made'}" in summary
    assert not (tmp_path / "broken").exists()


@pytest.mark.heavy
def test_every_output_of_the_action_is_written(tmp_path):
    write_table(tmp_path)
    _, outputs, _ = run_action(tmp_path, skill="good.md", config="table.yaml")
    asked = {one["value"] for one in ACTION["outputs"].values()}
    assert asked == {f"${{{{ steps.check.outputs.{name} }}}}" for name in outputs}


def test_the_hook_verifies_the_skills_of_changed_files(tmp_path):
    (hook,) = HOOKS
    names = ["skills/queue/SKILL.md", "skills/queue/references/evidence.json"]
    assert all(re.search(hook["files"], one) for one in [*names, "SKILL.md"])
    assert not re.search(hook["files"], "docs/MY_SKILL.md")
    folder = tmp_path / "skills" / "queue"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: queue\ndescription: Names it.\n---\n\nHi.\n")

    def verified(*changed):
        program = Path(sys.executable).parent / "skillwright"
        words = [str(program), *hook["entry"].split()[1:], *changed]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)

    assert verified(names[0]).returncode == 0
    (folder / "references").mkdir()
    (folder / "references" / "evidence.json").write_text("{}")
    done = verified(*names)
    assert (done.returncode, done.stdout.count("skills/queue\n")) == (1, 1)
