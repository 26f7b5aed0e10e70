"""``replay`` and ``fork`` on the command line: what they say, and with which exit code."""

import json

import pytest

HIDDEN = "max_turns: 2"


@pytest.fixture
def run(cli, write_config):
    cli("eval", write_config(), "--set", "run.name=base")
    return cli


def changed(tmp_path):
    """Let the environment end episodes a turn earlier than they were recorded."""
    config = tmp_path / "runs" / "base" / "config.yaml"
    text = config.read_text(encoding="utf-8")
    assert HIDDEN in text
    config.write_text(text.replace(HIDDEN, "max_turns: 1"), encoding="utf-8")


def test_equal_episodes_are_one_line_with_counts(run):
    assert run("replay", "base").stdout == "base: 12 episodes as recorded (24 turns played)\n"
    assert run("replay", "base", "--all").stdout.startswith("base: 12 episodes")
    assert run("replay", "base", "e3").stdout == "base: 1 episode as recorded (2 turns played)\n"
    told = json.loads(run("replay", "base", "e3", "e4", "--json").stdout)
    assert (told["equal"], told["differing"], told["reasons"]) == (2, 0, [])


def test_a_difference_is_shown_with_both_values_and_exits_with_1(run, tmp_path):
    changed(tmp_path)
    said = run("replay", "base", "e3", code=1).stdout.splitlines()
    assert said == [
        "e3 (test-02), turn 0: metadata.truncated",
        "  - false",
        "  + true",
        "  settings, data or version of the environment are not those of then",
        "base: 0 episodes as recorded, 1 otherwise (1 turn played)",
    ]
    told = json.loads(run("replay", "base", "--json", code=1).stdout)
    assert told["differing"] == 12
    assert told["differences"][0]["difference"]["field"] == "metadata.truncated"
    said = run("replay", "base", code=1).stdout
    assert "2 more episodes came out otherwise" in said


def test_what_cannot_be_replayed_is_counted_apart_and_is_not_equal(run, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "runs" / "base" / "run.sqlite").rename(tmp_path / "work" / "run.sqlite")
    said = run("replay", "work", code=1).stdout
    assert "12 episodes not replayed, such as e1: 'work' has no config.yaml" in said
    assert said.endswith("work: 0 episodes as recorded, 12 not replayed (0 turns played)\n")


def test_bad_words_are_refused(run):
    assert "no episode 'e99'" in run("replay", "base", "e99", code=2).stderr
    assert "name no episode with it" in run("replay", "base", "e1", "--all", code=2).stderr
    assert "no run 'nowhere'" in run("replay", "nowhere", code=2).stderr
    assert "none of them is turn 9" in run("fork", "base", "e1", "--turn", 9, code=2).stderr
    assert "is over after turn 1" in run("fork", "base", "e1", "--turn", 2, code=2).stderr
    gone = run("fork", "base", "e1", "--turn", 1, "--skill", "gone.md", code=2).stderr
    assert "'gone.md' cannot be read" in gone


def test_a_fork_is_a_run_of_its_own_that_every_command_opens(run, tmp_path):
    (tmp_path / "new.md").write_text("Take your time.", encoding="utf-8")
    said = run("fork", "base", "e1", "--turn", 1, "--skill", "new.md", "-k", 3).stdout
    assert "from turn 1 of e1 in runs/base, 3 times" in said
    assert "0 of 3 solved" in said
    assert "Scripted models took part" in said
    assert "continues from turn 1 of e1 in runs/base" in run("runs", "show", "base-fork").stdout
    assert "Take your time." in run("runs", "view", "base-fork", "e2").stdout
    assert run("replay", "base-fork").stdout.startswith("base-fork: 4 episodes as recorded")
    assert "0 of 3 solved" in run("resume", "base-fork").stdout
    told = json.loads(run("fork", "base", "e1", "--turn", 1, "-k", 2, "--json").stdout)
    assert told["fork"] == {"run": "runs/base", "episode": "e1", "turn": 1}
    assert told["run"] == "runs/base-fork-1"
    assert len(told["continuations"]) == 2
    assert told["recorded"]["episode"] == "e1"
    assert "base-fork" in run("runs", "list").stdout
    assert run("compare", "base-fork", "base-fork-1").exit_code == 0
    assert "base-fork" in run("report", "base-fork", "--format", "md").stdout
