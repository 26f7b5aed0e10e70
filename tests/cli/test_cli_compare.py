"""`skillwright compare`: what it shows, what it prints as JSON, and how it ends."""

import asyncio
import json

import pytest

from doors import ALL_RULES, ALL_WRONG, Walker, doors_config, evaluated, rule, write_tasks
from shown import WIDTH, pipe, terminal
from skillwright.cli.compare import show_comparison
from skillwright.jobs.inspect import compare_runs
from skillwright.jobs.text import EvalPlan


@pytest.fixture
def play(tmp_path):
    """Evaluate a skill on the doors, in a run of a name; return the run's path."""

    def make(name, skill="", trials=1, split="test", **sections):
        config = doors_config(tmp_path, run={"name": name}, **sections)
        plan = EvalPlan(split, trials)
        return asyncio.run(evaluated(config, plan, Walker(), skill=skill))[0]

    return make


def words(result):
    return " ".join(result.stdout.split())


def test_two_runs_are_compared_in_words_with_every_number(cli, play):
    play("base", ALL_WRONG)
    play("cand", f"{rule('hall')}\n{rule('attic')}\n{rule('cellar', 9)}", trials=2)
    said = words(cli("compare", "base", "cand"))
    for part in (
        "A base evaluation on test, skill ",
        "B cand evaluation on test, skill ",
        "12 common tasks; scored attempts at them: 12 in A, 24 in B",
        "attic 4 0.0% 100.0% +100.0",
        "cellar 4 0.0% 0.0% +0.0",
        "all 12 0.0% 66.7% +66.7 +35.4 to +98.0",
        "by task type: not corrected",
        "Solved by B and not by A: 8 test-00 0% -> 100% test-02",
        "Solved by A and not by B: 0",
        "8 of 12 tasks scored higher in B, 0 lower. Interval: Student's t over the tasks' mean "
        "differences (clustered by task). Two-sided: p = 0.00066 (paired t test), p = 0.0078 "
        "(randomization test).",
        "B is better than A: B - A is +66.7 points (95%: +35.4 to +98.0).",
    ):
        assert part in said
    assert "cripted" in said  # the configuration names a scripted model


def test_it_fits_a_small_terminal(tmp_path, play):
    tasks = write_tasks(tmp_path / "tasks")
    file = tasks / "test" / "items.json"
    items = json.loads(file.read_text(encoding="utf-8"))
    for item in items:
        item["task_type"] = f"pick_clean_then_place_in_the_{item['room']}_of_somebody_else"
    file.write_text(json.dumps(items), encoding="utf-8")
    a, b = play("a", ALL_WRONG), play("b", ALL_RULES, env={**_env(tmp_path), "max_turns": 3})
    console = terminal()
    show_comparison(console, compare_runs(a, b))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= WIDTH
    said = " ".join(" ".join(lines).split())
    assert "settings of the environment differ: env.max_turns (2 in A, 3 in B)" in said
    assert "(randomization test). Scripted models" in said  # broken between words, and whole


def _env(tmp_path):
    return doors_config(tmp_path).env.model_dump()


def test_flipped_tasks_are_capped_unless_all_are_asked_for(cli, play):
    play("a", ALL_WRONG)
    play("b", ALL_RULES)
    said = cli("compare", "a", "b").stdout
    assert "Solved by B and not by A: 12" in said
    assert "  test-09" in said
    assert "  test-10" not in said
    assert "and 2 more; --all names them" in said
    said = cli("compare", "a", "b", "--all").stdout
    assert "  test-11" in said
    assert "more" not in said


def test_single_attempts_are_named_without_rates(cli, play):
    play("a", ALL_WRONG)
    play("b", ALL_RULES)
    assert "0% -> 100%" not in cli("compare", "a", "b").stdout


def test_what_was_left_out_is_counted(tmp_path, play):
    a = play("a", ALL_WRONG, evaluation={"test_tasks": 7})
    found = compare_runs(play("b", ALL_RULES), a)
    console = pipe()
    show_comparison(console, found)
    assert "  left out: 5 tasks of A that B lacks" in console.file.getvalue()


def test_a_minimum_sets_the_exit_code_and_says_which_bound_decides(cli, play):
    play("a", ALL_WRONG)
    play("b", f"{rule('hall')}\n{rule('attic')}\n{rule('cellar', 9)}")
    reached = words(cli("compare", "a", "b", "--min-effect", "0.35"))
    ending = "--min-effect 0.35: reached: the lower bound of the 95% interval is +35.4 points."
    assert reached.endswith(ending)
    missed = words(cli("compare", "a", "b", "--min-effect", "0.36", code=1))
    assert missed.endswith(
        "--min-effect 0.36: not reached: the lower bound of the 95% interval is +35.4 points, "
        "below +36.0 points."
    )
    cli("compare", "b", "a", "--min-effect", "0", code=1)
    cli("compare", "b", "a")  # without a minimum, worse is an answer too
    assert "--min-effect" in cli("compare", "a", "b", "--min-effect", "5", code=2).stderr


def test_a_comparison_as_json_is_one_object(cli, play):
    play("a", ALL_WRONG)
    play("b", ALL_RULES)
    told = json.loads(cli("compare", "a", "b", "--json").stdout)
    assert (told["overall"]["effect"], told["min_effect"], told["passed"]) == (1.0, None, None)
    assert len(told["now_solved"]) == 12
    told = json.loads(cli("compare", "b", "a", "--json", "--min-effect", "-0.1", code=1).stdout)
    assert (told["min_effect"], told["passed"], told["result"]) == (-0.1, False, "worse")
    assert "lower bound" in told["shortfall"]


def test_rewards_are_compared_where_they_are_asked_for(cli, play):
    play("a", ALL_WRONG)
    play("b", ALL_RULES)
    said = words(cli("compare", "a", "b", "--metric", "soft"))
    assert "Scores on the common tasks: mean reward; B - A in points" in said
    assert "0.000 1.000 +100.0" in said
    assert "B is better than A: B - A is +100.0 points (95%: " in said


def test_the_skills_that_a_training_tested_are_compared_by_name(cli, write_config):
    cli("train", write_config())
    said = words(cli("compare", "doors", "doors", "--skill-a", "initial"))
    assert "A doors training, initial skill" in said
    assert "B doors training, best skill" in said
    assert "No difference is shown: B - A is +0.0 points" in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("base", "bas"), "no run 'bas' here or in 'runs'. Did you mean 'base'?"),
        (("base", "runs/base"), "A and B are the same evaluation, 'base'"),
        (("base", "vals"), "no task has a score in both runs"),
        (("base", "vals", "--skill-b", "best"), "so leave the option out"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_message(cli, play, asked, said):
    play("base")
    play("vals", split="val")
    result = cli("compare", *asked, code=2)
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert result.stdout == ""
