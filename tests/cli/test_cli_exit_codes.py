"""The exit code says what became of it, also where the infrastructure failed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from doors import look
from shown import WIDTH, episodes, pipe
from skillwright.cli import tables
from skillwright.evaluation import ScoreTable, SplitReport
from skillwright.jobs.run import Cause
from skillwright.jobs.text import EvalPlan, EvalReport, read_plan

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BREAKING = """
from pathlib import Path

from doors import Doors


class Breaking(Doors):
    def step(self, action):
        named = Path("broken.txt")
        if named.exists() and self.extras["room"] in named.read_text().split():
            raise RuntimeError("the house is gone")
        return super().step(action)
"""
EVERY = {"retries": 0, "give_up_after": None, "max_failure_share": None}


@pytest.fixture
def breaking(tmp_path, write_config):
    """Doors whose rooms break as long as a file names them; a third of the tasks is each room's."""
    (tmp_path / "breaking.py").write_text(BREAKING, encoding="utf-8")
    return write_config(env={"name": f"{tmp_path / 'breaking.py'}:Breaking"}, rollout=EVERY)


def break_rooms(*names):
    Path("broken.txt").write_text(" ".join(names), encoding="utf-8")


def test_too_many_failed_episodes_are_no_answer(cli, breaking):
    break_rooms("attic")
    result = cli("eval", breaking, code=1)
    assert (
        "4 of 12 episodes ended by a fault (33%), and at most 10% may (--max-faults)"
        in result.stderr
    )
    assert "skillwright resume runs/doors" in result.stderr
    assert cli("eval", breaking, "--json", code=1).stdout.count("\n") == 1
    tolerant = cli("eval", breaking, "--max-faults", "0.4")
    assert "answer is no" not in tolerant.stderr
    assert "resume runs/doors-2" in tolerant.stderr
    cli("resume", "doors", code=1)  # it remembers what it was asked
    break_rooms()
    assert "answer" not in cli("resume", "doors").stderr


def test_a_run_remembers_how_many_may_fail(cli, breaking, tmp_path):
    cli("eval", breaking, "--max-faults", "0.25", "--min-pass", "0")
    with look(tmp_path / "runs" / "doors") as store:
        assert read_plan(store, tmp_path) == EvalPlan("test", 1, 0.0, 0.25)


@pytest.mark.parametrize(("failed", "answers"), [(0, 0), (1, 0), (2, 1), (9, 1)])
def test_a_tenth_of_the_episodes_may_fail(failed, answers):
    table = ScoreTable.of(episodes(10 - failed, 0, failed))
    assert len(EvalPlan("test", 1).why_not(table.overall)) == answers


def test_an_evaluation_without_a_score_is_no_answer(cli, breaking):
    assert EvalPlan("test", 1).why_not(ScoreTable.of([]).overall) == ["no episode has a score"]
    break_rooms("attic", "cellar", "hall")
    assert "all 12 episodes failed" in cli("eval", breaking, code=1).stderr


def test_a_training_whose_test_has_no_score_ends_with_1_and_is_resumed(cli, breaking, tmp_path):
    for split in ("train", "val", "test"):
        file = tmp_path / "tasks" / split / "items.json"
        items = json.loads(file.read_text("utf-8"))
        sealed = [{**item, "room": "hall", "door": 6} for item in items]
        awake = [{**item, "room": "attic", "door": 4} for item in items]
        file.write_text(json.dumps(sealed if split == "test" else awake), encoding="utf-8")
    break_rooms("hall")
    result = cli("train", breaking, code=1)
    assert "episodes failed, so there is no score" in " ".join(result.stderr.split())
    assert "continue with:  skillwright resume runs/doors" in result.stderr
    assert not json.loads(cli("runs", "show", "doors", "--json").stdout)["finished"]
    break_rooms()
    assert json.loads(cli("resume", "doors", "--json").stdout)["test"]["tables"]["best"]


@pytest.mark.parametrize("command", ["train", "eval", "estimate"])
def test_a_domain_that_is_not_there_is_refused_with_those_that_are(refused, command):
    config = EXAMPLES / "tau_bench" / "offline.yaml"
    said = refused(command, config, "--set", "env.config.domain=telecom")
    assert "domain is 'telecom', which is not there. Did you mean 'tau3_telecom'?" in said
    said = refused(command, config, "--set", "env.config.domain=hotel")
    assert "domain is 'hotel', which is not there." in said
    assert "Known: airline, retail, tau3_airline, tau3_banking, tau3_retail, tau3_telecom." in said


def test_the_doctor_names_a_domain_that_is_not_there(cli):
    config = EXAMPLES / "tau_bench" / "offline.yaml"
    said = cli("doctor", config, "--set", "env.config.domain=telecom", code=1).stdout
    assert "BAD  tasks and skill: tau_bench env_config: domain is 'telecom'" in said


def reported(trials):
    chances = tuple(1 / k for k in range(1, trials + 1))
    return EvalReport("test", trials, "hash", ScoreTable.of(episodes(3, 1)), chances, 4)


@pytest.mark.parametrize(
    ("trials", "ks"),
    [(1, [1]), (3, [1, 2, 3]), (4, [1, 2, 4]), (1000, [2**n for n in range(10)] + [1000])],
)
def test_pass_k_is_listed_for_doubled_ks_and_for_all_trials(trials, ks):
    console = pipe()
    tables.show_evaluation(console, reported(trials), scripted=False)
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith("pass^")]
    assert [line.split(":")[0] for line in lines] == [f"pass^{k}" for k in ks]
    assert max(map(len, lines)) <= WIDTH
    assert lines[-1].startswith(f"pass^{trials}: {1 / trials:.3f}")


def test_nothing_is_listed_where_no_task_was_played_to_its_end():
    console = pipe()
    report = EvalReport("test", 2, "hash", ScoreTable.of(episodes(0, 0, 3)), (), 0)
    tables.show_evaluation(console, report, scripted=False)
    assert "pass^" not in console.file.getvalue()


def test_an_estimate_prices_the_evaluation_beside_the_training(cli, write_config):
    said = cli("estimate", write_config()).stdout
    assert "A training (skillwright train)" in said
    assert re.search(r"^ eval alone +12 ", said, re.MULTILINE)
    told = json.loads(cli("estimate", write_config(), "--json").stdout)
    assert told["evaluation"]["total"]["episodes"] == 12
    assert told["total"]["episodes"] > 12


def test_an_estimate_of_trials_is_one_of_the_evaluation_alone(cli, write_config):
    words = ("estimate", write_config(), "--trials", 4, "--split", "val")
    said = cli(*words).stdout
    assert "every val task 4 times" in said
    for word in ("A training", "optimiser", "optimizer", "candidates"):
        assert word not in said
    told = json.loads(cli(*words, "--json").stdout)
    assert told["total"]["episodes"] == 24 * 4
    assert [stage["name"] for stage in told["stages"]] == ["evaluate"]
    assert "evaluation" not in told


def test_an_evaluation_of_the_recipe_is_not_estimated(refused):
    said = refused("estimate", EXAMPLES / "rl" / "tau_bench.yaml", "--trials", "4")
    assert "--split and --trials are of an evaluation" in said


def test_a_success_rate_just_below_is_told_with_all_its_digits():
    table = ScoreTable.of(episodes(9_998, 2))
    (reason,) = EvalPlan("test", 1, min_pass=0.9999).why_not(table.overall)
    assert reason == "99.98% solved, and --min-pass is 99.99%"


def test_a_run_ends_with_its_most_frequent_causes_of_failure(cli, write_config):
    said = cli("eval", write_config(), "--min-pass", "0").stdout
    causes = json.loads(cli("eval", write_config(), "--min-pass", "0", "--json").stdout)["causes"]
    assert causes
    assert "Unsolved, the most frequent first" in said
    counts = [cause["count"] for cause in causes]
    assert counts == sorted(counts, reverse=True)
    shown = cli("runs", "view", "doors", causes[0]["episode"]).stdout
    assert "outcome" in shown
    assert shown.split("outcome")[1].split()[0] == "unsolved:"


def test_a_training_whose_released_skill_has_no_score_on_test_says_why():
    report = SplitReport.of("test", {"initial": episodes(1, 1), "best": episodes(0, 0, 4)})
    cause = Cause("cool", "fault (environment)", 4, "e7")
    assert tables.why_no_score(report, "initial", []) == ""
    assert tables.why_no_score(None, "best", []) == ""
    assert tables.why_no_score(report, "best", [cause]) == (
        "no test episode has a score, only 4 faults; the most frequent: cool: fault (environment), "
        "4 (such as e7)"
    )


def test_a_finished_run_says_so_when_it_is_resumed_and_others_how_to_go_on(cli, breaking):
    cli("eval", breaking)
    again = cli("resume", "doors")
    said = " ".join(again.stderr.split())
    assert "doors is finished: nothing is left to play. Its report: skillwright report" in said
    assert "rollout" not in again.stdout + again.stderr
    assert "continue with" not in cli("runs", "show", "doors").stdout
    break_rooms("attic", "cellar", "hall")
    cli("eval", breaking, code=1)
    said = " ".join(cli("runs", "show", "doors-1").stdout.split())
    assert "not finished; continue with: skillwright resume runs/doors-1" in said


def test_a_reader_that_leaves_ends_the_program_quietly(tmp_path):
    words = [sys.executable, "-m", "skillwright", "models", "list"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        program.stdout.close()
        complaint = program.stderr.read()
        program.wait()
    assert (program.returncode, complaint) == (141, b"")
