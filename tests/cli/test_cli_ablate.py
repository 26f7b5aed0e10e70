"""`skill ablate` and `skill test` on the command line: what is said, written and refused."""

import json
import re
import sqlite3
from contextlib import closing

import pytest

from doors import doors_settings, write_tasks
from skillwright.core.skill import skill_hash

SKILL = "## Manners\nStay calm.\n\n## Mood\nKeep a cheerful attitude.\n\n## Pace\nBe quick.\n"

# What each section of a skill of houses says; a planted one says nothing that helps.
HOUSES = """## Searching
- Go through all locations in a fixed order and skip the ones already searched.
- Never walk away from a closed container without opening it first.
- Take the wanted object as soon as you see it.

## Manners
- Stay patient, stay focused, and keep a positive attitude in all that you do.

## Treating
- An object that has to be clean must be washed at a sinkbasin before it is placed.
- A hot object is wanted? Heat it with the microwave first, then deliver it.
- Never deliver an object that should be cool before you have cooled it with the fridge.

## Delivering
- When the task mentions a lamp, bring the object to it and turn on the light.
- If two objects are wanted, put down the first, then fetch the second and put it in the same
  receptacle.
- Open the receptacle named in the task before you put anything into it.
"""


@pytest.fixture
def evaluated(cli, write_config, tmp_path):
    """An evaluation of a skill that changes nothing: its agent opens no door."""
    write_tasks(tmp_path / "tasks", val=80)
    (tmp_path / "skill.md").write_text(SKILL, encoding="utf-8")
    cli("eval", write_config(), "--skill", "skill.md", "--split", "val", "--json")
    return "doors"


def test_useless_sections_are_proposed_tested_together_and_left_out(cli, evaluated, tmp_path):
    words = ("skill", "ablate", evaluated, "--write", "shorter.md", "--json")
    first = cli(*words)
    assert "560 rollouts to play (80 are stored)" in " ".join(first.stderr.split())
    found = json.loads(first.stdout)
    assert [one["proposal"] for one in found["sections"]] == ["delete"] * 3
    assert found["joint"]["proposal"] == "delete"
    assert (tmp_path / "shorter.md").read_text() == ""
    written = json.loads((tmp_path / "runs" / "doors" / "ablation.json").read_text())
    assert written == {name: found[name] for name in written}
    assert found["rollouts"] == 560 + 2 * 4 * 80
    (tmp_path / "shorter.md").unlink()
    again = json.loads(cli(*words).stdout)
    assert again["rollouts"] == 0
    assert again["sections"] == found["sections"]


def test_the_table_fits_eighty_columns_and_says_how_alpha_is_spent(cli, evaluated, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli("skill", "ablate", evaluated, "--items").stdout
    table = shown.split("value: success")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert "Manners" in table
    assert "hold together with 95%" in shown
    assert "rollouts played" in shown
    assert "Scripted models took part" in " ".join(shown.split())


def test_an_estimate_plays_nothing(cli, evaluated, tmp_path):
    said = cli("skill", "ablate", evaluated, "--estimate").stderr
    assert "560 rollouts to play (80 are stored), $0.00" in " ".join(said.split())
    assert not (tmp_path / "runs" / "doors" / "ablation.json").exists()


def test_where_no_deletion_can_be_proven_that_is_said_before(cli, evaluated):
    said = cli("skill", "ablate", evaluated, "--margin", "0.01", "--estimate").stderr
    assert "none can be proposed for deletion" in " ".join(said.split())


def test_where_no_deletion_can_be_proven_nothing_is_played(cli, evaluated, tmp_path):
    words = ("skill", "ablate", evaluated, "--write", "shorter.md", "--margin")
    said = " ".join(cli(*words, "0.01", code=1).stderr.split())
    assert "none can be proposed for deletion: nothing is played" in said
    assert not (tmp_path / "runs" / "doors" / "ablation.json").exists()
    least = re.search(r"--margin above (0\.\d+)", said)[1]
    assert cli(*words, f"{float(least) + 0.002:.3f}").stdout


def test_what_is_not_proven_is_not_written(cli, evaluated, tmp_path):
    cli("skill", "ablate", evaluated)
    with closing(sqlite3.connect(tmp_path / "runs" / "doors" / "run.sqlite")) as store, store:
        solved = "UPDATE episodes SET reward = 1, hard = 1 WHERE skill_version = ?"
        store.execute(solved, [skill_hash(SKILL)])  # without any section it solves nothing
    words = ("skill", "ablate", evaluated, "--write", "shorter.md")
    assert "was not written: nothing is proposed" in " ".join(cli(*words, code=1).stderr.split())
    assert not (tmp_path / "shorter.md").exists()


def test_a_file_that_is_there_is_not_overwritten(cli, evaluated, tmp_path):
    (tmp_path / "mine.md").write_text("mine")
    said = cli("skill", "ablate", evaluated, "--write", "mine.md", code=2).stderr
    assert "is there already" in said
    assert (tmp_path / "mine.md").read_text() == "mine"


def test_an_empty_skill_has_nothing_to_measure(cli, write_config):
    cli("eval", write_config(), "--split", "val", "--json")
    assert "is empty" in cli("skill", "ablate", "doors", code=2).stderr


def test_a_test_without_another_model_is_refused(cli, evaluated):
    said = cli("skill", "test", evaluated, code=2).stderr
    assert "--config FILE" in said
    said = cli("skill", "test", evaluated, "--set", "models.target.noise=0.2", code=2).stderr
    assert "no lesson to test" in " ".join(said.split())


@pytest.mark.heavy
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_in_houses_what_helps_is_kept_and_what_was_planted_is_deleted(cli, tmp_path, noise):
    settings = doors_settings(tmp_path) | {"run": {"name": "houses"}}
    settings["env"] = {"name": "alfworld", "data": {"kind": "generated", "val": 72, "test": 6}}
    settings["models"]["target"]["noise"] = noise
    (tmp_path / "houses.yaml").write_text(json.dumps(settings))
    (tmp_path / "skill.md").write_text(HOUSES)
    cli("eval", "houses.yaml", "--skill", "skill.md", "--split", "val", "--trials", "2", "--json")
    found = json.loads(cli("skill", "ablate", "houses", "--json").stdout)
    by_title = {one["title"]: one for one in found["sections"]}
    assert found["rollouts"] == 4 * 2 * 72  # the whole was played by the evaluation
    assert {name: one["proposal"] for name, one in by_title.items()} == {
        "Searching": "keep",
        "Manners": "delete",
        "Treating": "keep",
        "Delivering": "keep",
    }


@pytest.mark.heavy
def test_the_lessons_of_a_trained_skill_are_tested_with_a_model_that_errs_more(cli, tmp_path):
    settings = doors_settings(tmp_path) | {"run": {"name": "houses"}}
    data = {"kind": "generated", "train": 40, "val": 60, "test": 6}
    settings["env"] = {"name": "alfworld", "data": data}
    settings["train"] = {"epochs": 1, "batch_size": 10}
    (tmp_path / "houses.yaml").write_text(json.dumps(settings))
    cli("train", "houses.yaml", "--json")
    settings["models"]["target"]["noise"] = 0.05
    (tmp_path / "other.yaml").write_text(json.dumps(settings))
    shown = cli("skill", "test", "houses", "--config", "other.yaml").stdout
    table = re.split(r"step \d+:", shown)[0]
    assert max(map(len, table.splitlines())) <= 80
    assert "still helps" in shown
    assert "rollouts played, $0.00" in shown
    told = json.loads(cli("skill", "test", "houses", "--config", "other.yaml", "--json").stdout)
    assert told["rollouts"] == 0
    assert told["target"] == "scripted:household noise=0.05"
    assert all(one["lost"] == 0 and one["pairs"] == 120 for one in told["lessons"])
    (folder,) = (tmp_path / "runs" / "houses" / "lessons").iterdir()
    assert cli("runs", "episodes", folder, "--limit", 3).stdout.count("lessons") >= 3
