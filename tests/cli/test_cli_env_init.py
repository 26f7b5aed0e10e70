"""`env init` writes a benchmark that is checked and trains offline as it is written."""

import json
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

import skillwright.envs
from skillwright.envs import registry, spec
from skillwright.envs.registry import class_name

FILES = ["README.md", "env.py", "models.py", "tasks.jsonl", "test_my_bench.py", "train.yaml"]


def test_three_commands_lead_from_nothing_to_a_trained_skill(cli, tmp_path):
    told = cli("env", "init", "my_bench").stdout
    commands = [line.split()[1:] for line in told.splitlines() if line.startswith("  skillwright ")]
    assert sorted(path.name for path in (tmp_path / "my_bench").iterdir()) == FILES
    for words in commands:
        said = cli(*words).stdout
    assert "Scripted models took part" in said
    cli("resume", "runs/my_bench")
    report = json.loads(cli("runs", "show", "runs/my_bench", "--json").stdout)
    assert report["scripted"] is True
    best = (tmp_path / "runs" / "my_bench" / "best_skill.md").read_text(encoding="utf-8")
    assert "Put glass on the top shelf." in best


def test_the_doctor_finds_nothing_wrong_with_a_new_project(cli):
    cli("env", "init", "my_bench")
    said = cli("doctor", "my_bench/train.yaml").stdout
    assert "24 train, 48 val, 24 test" in said


def test_the_tasks_that_were_written_can_be_checked_all(cli):
    cli("env", "init", "my_bench")
    words = ("env", "check", "my_bench/env.py:MyBench", "--items", "my_bench/tasks.jsonl", "--json")
    report = json.loads(cli(*words, "--fuzz", "50").stdout)
    assert report["ok"]
    assert report["checks"][0]["detail"] == "96 tasks"


def test_the_tests_that_were_written_pass(cli, tmp_path):
    cli("env", "init", "my_bench")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "my_bench"]
    tested = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "3 passed" in tested.stdout


def test_a_project_is_written_into_an_empty_folder_that_is_there(cli, tmp_path):
    (tmp_path / "my_bench").mkdir()
    written = json.loads(cli("env", "init", "my_bench", "--json").stdout)
    assert sorted(Path(path).name for path in written) == FILES


def test_what_is_there_is_never_touched(refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep", encoding="utf-8")
    (tmp_path / "file").write_text("keep", encoding="utf-8")
    for name in ("mine", "file"):
        assert "is there already" in refused("env", "init", name)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("my-bench", "my_bench"),
        ("My Bench", "my_bench"),
        ("2048", "bench_2048"),
        ("class", "bench_class"),
        ("_x", "x"),
        ("../up", "up"),
        ("", "bench"),
        ("größe", "gr_e"),
    ],
)
def test_a_name_that_is_no_module_is_refused_with_one_that_is(refused, name, better):
    assert f"such as '{better}'" in " ".join(refused("env", "init", name).split())


def test_a_class_is_called_after_its_project():
    assert class_name("my_2nd_bench") == "My2ndBench"


def test_a_broken_environment_is_told_in_how_many_points(cli, tmp_path):
    cli("env", "init", "my_bench")
    file = tmp_path / "my_bench" / "env.py"
    text = file.read_text(encoding="utf-8").replace("reward=1.0", "reward=2.0")
    file.write_text(text, encoding="utf-8")
    said = cli("env", "check", "my_bench/env.py:MyBench", code=1).stdout
    assert "FAIL gold solutions win" in said
    assert "breaks its contract in 1 of 13 points." in said


def test_a_question_that_was_not_asked_is_marked_as_such(cli, tmp_path):
    cli("env", "init", "my_bench")
    file = tmp_path / "my_bench" / "env.py"
    file.write_text(file.read_text(encoding="utf-8").replace("gold_actions", "gold"), "utf-8")
    said = cli("env", "check", "my_bench/env.py:MyBench").stdout
    assert "--   gold solutions win" in said
    assert "keeps its contract." in said


def test_an_adapter_is_not_checked_as_an_environment(refused):
    root = Path(skillwright.envs.__file__).parents[3]
    adapter = f"{root / 'examples' / 'tickets_adapter.py'}:Tickets"
    assert "skillwright doctor" in " ".join(refused("env", "check", adapter).split())


def test_settings_that_are_no_object_are_refused(refused):
    assert "--env-config" in refused("env", "check", "qa", "--env-config", "[1]")


def test_a_project_is_found_by_import_path_and_by_entry_point(cli, tmp_path, monkeypatch):
    cli("env", "init", "my_bench")
    info = tmp_path / "my_bench-1.dist-info"
    info.mkdir()
    points = "[skillwright.envs]\nmy_bench = my_bench.env:MyBench\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    (info / "METADATA").write_text("Name: my-bench\nVersion: 1\n", encoding="utf-8")
    assert PathDistribution(info).entry_points
    monkeypatch.syspath_prepend(tmp_path)
    registry._installed.cache_clear()
    try:
        assert spec("my_bench").load() is spec("my_bench.env:MyBench").load()
        cli("env", "check", "my_bench", "--fuzz", "20")
    finally:
        registry._installed.cache_clear()
        for name in [name for name in sys.modules if name.split(".")[0] == "my_bench"]:
            del sys.modules[name]
