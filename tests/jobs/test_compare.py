"""Two runs on the same tasks: paired by task, clustered, against scipy and a bootstrap."""

import json
import math
from collections import defaultdict
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from bank_doors import bank_config, bank_file
from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Walker,
    doors_config,
    evaluated,
    llms,
    look,
    rule,
    trained,
    write_tasks,
)
from skillwright.core import DataError, ModelError, RunError
from skillwright.jobs.inspect import compare_runs, start_study
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import EvalPlan, open_run, run_evaluation, start_run
from skillwright.rollout import EngineDown
from somebodys import Chosen, adapter_config

TASKS = 60


def failing_at(*numbers):
    def on_call(number):
        if number in numbers:
            raise ModelError("503")

    return on_call


async def run_of(folder, name, skill="", *, trials=1, walker=None, split="test", **sections):
    """Evaluate a skill on the doors in a folder; return the run's path."""
    config = doors_config(folder, run={"name": name}, **sections)
    return (await evaluated(config, EvalPlan(split, trials), walker or Walker(), skill=skill))[0]


def rewards(path):
    """Read the rewards of a run by task, straight from its store."""
    found = defaultdict(list)
    with look(path) as store:
        for one in store.episodes():
            if one.reward is not None:
                found[one.task_id].append(one.reward)
    return found


@pytest.fixture
async def pair(tmp_path):
    """Two evaluations of 60 tasks, with two and with three attempts per task."""
    write_tasks(tmp_path / "tasks", test=TASKS)
    a = await run_of(tmp_path, "a", trials=2)
    b = await run_of(tmp_path, "b", rule("hall"), trials=3)
    return a, b


def oracle(a, b, chosen=lambda task: True):
    """Test the task means of two runs with scipy's paired t test."""
    tasks = [task for task in rewards(a) if chosen(task)]
    means = [[fmean(rewards(path)[task]) for task in tasks] for path in (b, a)]
    return stats.ttest_rel(*means), fmean(means[0]) - fmean(means[1])


async def test_the_effect_is_scipys_paired_t_test_on_the_task_means(pair):
    found = compare_runs(*pair)
    test, effect = oracle(*pair)
    bounds = test.confidence_interval(0.95)
    assert (len(found.tasks), found.a.attempts, found.b.attempts) == (TASKS, 120, 180)
    assert found.overall.effect == pytest.approx(effect, abs=1e-6)
    assert found.overall.p_value == pytest.approx(test.pvalue, abs=1e-6)
    assert found.overall.interval == pytest.approx((bounds.low, bounds.high), abs=1e-6)
    assert found.result == "better"


async def test_the_interval_is_that_of_a_bootstrap_that_draws_tasks_with_their_attempts(pair):
    found = compare_runs(*pair)
    a, b = map(rewards, pair)
    tasks, samples, random = sorted(a), 4000, np.random.default_rng(5)
    effects = []
    for drawn in random.integers(0, len(tasks), size=(samples, len(tasks))):
        names = [tasks[at] for at in drawn]
        effects.append(fmean(fmean(b[one]) - fmean(a[one]) for one in names))
    n = len(tasks)
    spread = np.std(effects) * math.sqrt(n / (n - 1))
    half = (found.overall.interval.high - found.overall.interval.low) / 2
    # Four standard errors of a standard deviation that was measured on so many samples.
    assert half / stats.t.ppf(0.975, n - 1) == pytest.approx(spread, rel=4 / math.sqrt(2 * samples))


async def test_every_task_type_is_compared_by_itself(pair):
    found = compare_runs(*pair)
    assert list(found.task_types) == ["attic", "cellar", "hall"]
    types = {task.id: task.task_type for task in found.tasks}
    test, effect = oracle(*pair, lambda task: types[task] == "hall")
    bounds = test.confidence_interval(0.95)
    hall = found.task_types["hall"]
    assert (hall.tasks, hall.second) == (20, 1.0)
    assert hall.effect == pytest.approx(effect, abs=1e-6)
    assert hall.interval == pytest.approx((bounds.low, bounds.high), abs=1e-6)


async def test_the_other_way_round_the_answer_is_the_opposite(pair):
    one, other = compare_runs(*pair), compare_runs(*reversed(pair))
    assert (one.result, other.result) == ("better", "worse")
    assert [task.id for task in one.now_solved] == [task.id for task in other.no_longer_solved]
    assert "B is worse than A: B - A is -" in other.sentence


async def test_tasks_that_flipped_are_named_in_both_directions(tmp_path):
    a = await run_of(tmp_path, "a", f"{rule('attic')}\n{rule('hall', 9)}")
    b = await run_of(tmp_path, "b", f"{rule('attic', 9)}\n{rule('hall')}")
    found = compare_runs(a, b)
    rooms = {task.id: task.task_type for task in found.tasks}
    lost = [task.id for task in found.no_longer_solved]
    won = [task.id for task in found.now_solved]
    assert lost == ["test-00", "test-03", "test-06", "test-09"]
    assert {rooms[task] for task in lost} == {"attic"}
    assert won == ["test-02", "test-05", "test-08", "test-11"]
    assert (found.overall.better, found.overall.worse, found.overall.effect) == (4, 4, 0.0)
    assert found.result == "not shown"


async def test_an_attempt_that_failed_is_left_out_and_counted_and_never_a_zero(tmp_path):
    limits = {"retries": 0, "max_concurrent": 1}
    a = await run_of(tmp_path, "a", ALL_RULES, trials=2)
    b = await run_of(
        tmp_path, "b", ALL_RULES, trials=2, walker=Walker(failing_at(1, 5)), rollout=limits
    )
    found = compare_runs(a, b)
    assert (found.b.failures, found.b.attempts, found.b.unscored) == (2, 22, 0)
    assert found.overall.second == 1.0
    assert len(found.tasks) == 12
    assert {task.attempts_b for task in found.tasks} == {1, 2}


async def test_a_task_without_a_score_on_one_side_is_left_out_and_counted(tmp_path):
    limits = {"retries": 0, "max_concurrent": 1}
    a = await run_of(tmp_path, "a", ALL_WRONG)
    b = await run_of(tmp_path, "b", ALL_RULES, walker=Walker(failing_at(1)), rollout=limits)
    found = compare_runs(a, b)
    assert (found.a.unscored, found.b.unscored, found.b.failures) == (0, 1, 1)
    assert (len(found.tasks), found.overall.first, found.overall.second) == (11, 0.0, 1.0)


async def test_an_attempt_that_was_tried_again_after_a_resume_is_no_failure(tmp_path):
    limits = {"retries": 0, "max_concurrent": 1}
    a = await run_of(tmp_path, "a", ALL_WRONG)
    b = await run_of(tmp_path, "b", ALL_RULES, walker=Walker(failing_at(1)), rollout=limits)
    with open_run(b) as run:
        await run_evaluation(run, run.plan, NullCallback(), llms(Walker()))
    found = compare_runs(a, b)
    assert (found.b.failures, found.b.attempts, len(found.tasks)) == (0, 12, 12)


async def test_tasks_of_one_side_only_are_left_out_and_counted(tmp_path):
    a = await run_of(tmp_path, "a", ALL_WRONG)
    b = await run_of(tmp_path, "b", ALL_RULES, evaluation={"test_tasks": 5})
    found = compare_runs(a, b)
    assert (len(found.tasks), found.a.only_here, found.b.only_here) == (5, 7, 0)
    assert found.a.attempts == 5  # what is left out does not count as an attempt at common tasks


async def test_a_training_brings_the_test_episodes_of_its_best_skill(tmp_path):
    path, report = await trained(
        doors_config(tmp_path, evaluation={"placebo": True}), Walker(), Coach([[ALL_RULES]])
    )
    tables, gain = report.test.tables, report.test.gains["best"]
    found = compare_runs(path, path, skill_a="initial")
    assert (found.a.skill, found.b.skill, len(found.tasks)) == ("initial", "best", 12)
    assert found.overall.first == tables["initial"].overall.success_rate
    assert found.overall.second == tables["best"].overall.success_rate == 1.0
    assert found.overall.effect == pytest.approx(gain.gain)
    assert compare_runs(path, path, skill_a="placebo", skill_b="final").result == "better"
    again = await run_of(tmp_path, "again", ALL_RULES)
    assert compare_runs(path, again).overall.effect == 0.0


async def test_a_blank_skill_with_a_bank_below_it_is_found_too(tmp_path):
    bank = bank_file(tmp_path / "bank.sqlite", rooms=("attic",))
    config = bank_config(tmp_path, skill={"bank": str(bank)})
    path, report = await trained(config, Walker(), Coach([[ALL_RULES]]))
    found = compare_runs(path, path, skill_a="initial")
    assert found.overall.first == report.test.tables["initial"].overall.success_rate
    assert found.overall.effect == pytest.approx(report.test.gains["best"].gain)


async def test_an_adapters_own_success_and_its_reward_are_compared_as_asked(tmp_path):
    # Its rows say hard = 0 or 1, and soft = 1 or 0.25.
    plan, paths = EvalPlan("test", 1), []
    for name, skill in (("a", ""), ("b", rule("hall"))):
        config = adapter_config(tmp_path, Chosen, run={"name": name})
        paths.append((await evaluated(config, plan, None, skill=skill))[0])
    assert compare_runs(*paths).overall.effect == pytest.approx(1 / 3)
    assert compare_runs(*paths, metric="soft").overall.effect == pytest.approx(0.25)
    assert compare_runs(*paths).notes == ()


class Described(Chosen):
    """Says in its rows what its class attribute holds about every task."""

    about = "find the door"

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        return [{**row, "task_description": self.about} for row in rows]


async def test_an_adapters_tasks_that_read_otherwise_are_a_doubt(tmp_path, monkeypatch):
    paths = []
    for name, about in (("a", "find the door"), ("b", "find the way out")):
        monkeypatch.setattr(Described, "about", about)
        config = adapter_config(tmp_path, Described, run={"name": name})
        paths.append((await evaluated(config, EvalPlan("test", 1), None, skill=name))[0])
    [note] = compare_runs(*paths).notes
    assert note.startswith("12 common tasks differ in type or description ('test-00', 'test-01', ")


async def test_settings_of_the_environment_that_differ_are_noted(tmp_path):
    a = await run_of(tmp_path, "a")
    b = await run_of(tmp_path, "b", env={**doors_config(tmp_path).env.model_dump(), "max_turns": 3})
    assert compare_runs(a, b).notes == (
        "settings of the environment differ: env.max_turns (2 in A, 3 in B)",
    )


async def test_other_tasks_under_equal_ids_are_refused(tmp_path):
    a = await run_of(tmp_path, "a")
    file = tmp_path / "tasks" / "test" / "items.json"
    items = json.loads(file.read_text(encoding="utf-8"))
    items[4]["door"] += 1
    file.write_text(json.dumps(items), encoding="utf-8")
    b = await run_of(tmp_path, "b")
    with pytest.raises(DataError, match=r"1 of 12 common task ids .* \('test-04'\): the data"):
        compare_runs(a, b)


async def test_another_environment_is_refused(tmp_path):
    a = await run_of(tmp_path, "a")
    config = adapter_config(tmp_path, Chosen, run={"name": "b"})
    b, _ = await evaluated(config, EvalPlan("test", 1), None)
    with pytest.raises(DataError, match=r"A plays '.*doors.py:Doors' and B 'somebodys:Chosen'"):
        compare_runs(a, b)


async def test_success_at_another_threshold_is_refused_and_rewards_are_compared(tmp_path):
    a = await run_of(tmp_path, "a")
    env = {**doors_config(tmp_path).env.model_dump(), "success_threshold": 0.5}
    b = await run_of(tmp_path, "b", env=env)
    with pytest.raises(RunError, match=r"reward of 1 as a success and B one of 0.5"):
        compare_runs(a, b)
    assert len(compare_runs(a, b, metric="soft").tasks) == 12


async def test_a_run_is_not_compared_with_itself(tmp_path):
    a = await run_of(tmp_path, "a")
    with pytest.raises(RunError, match="the same evaluation, 'a'"):
        compare_runs(a, "a", root=tmp_path / "runs")
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([]))
    with pytest.raises(RunError, match="run 'doors', skill 'best'"):
        compare_runs(path, path)


async def test_runs_on_other_tasks_are_refused_with_what_each_attempted(tmp_path):
    a = await run_of(tmp_path, "a")
    b = await run_of(tmp_path, "b", split="val")
    with pytest.raises(RunError) as refusal:
        compare_runs(a, b)
    said = str(refusal.value)
    assert "A (a, evaluation on test" in said
    assert "attempted 12 ('test-00', 'test-01', 'test-02', ...)" in said
    assert "attempted 24 ('val-00'" in said


async def test_a_skill_that_was_not_tested_is_refused_with_the_nearest_name(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([]))
    a = await run_of(tmp_path, "a")
    with pytest.raises(
        RunError, match=r"--skill-b: run 'doors' tested no 'finl'. Did you mean 'fi"
    ):
        compare_runs(a, path, skill_b="finl")
    with pytest.raises(RunError, match="--skill-a names a skill that a training tested; run 'a'"):
        compare_runs(a, path, skill_a="best")


async def test_a_run_without_scores_is_refused_with_what_to_do(tmp_path):
    a = await run_of(tmp_path, "a")
    stuck = Walker(failing_at(*range(99)))
    with pytest.raises(EngineDown):
        await run_of(tmp_path, "dead", walker=stuck, rollout={"retries": 0})
    with pytest.raises(RunError, match=r"'dead' has no scores .* skillwright resume .*dead"):
        compare_runs(a, tmp_path / "runs" / "dead")
    untested, _ = await trained(
        doors_config(tmp_path, evaluation={"test": False}), Walker(), Coach([])
    )
    with pytest.raises(RunError, match=r"evaluation.test: false\). Evaluate its skill"):
        compare_runs(a, untested)
    start_run(doors_config(tmp_path, run={"name": "new"}), "").close()
    with pytest.raises(
        RunError, match=r"its training did not finish. Continue with: skillwright re"
    ):
        compare_runs(tmp_path / "runs" / "new", a)


async def test_an_unknown_run_and_a_study_are_refused(tmp_path):
    await run_of(tmp_path, "base")
    root = tmp_path / "runs"
    with pytest.raises(RunError, match=r"no run 'bsae' here .* Did you mean 'base'"):
        compare_runs("base", "bsae", root=root)
    start_study(doors_config(tmp_path, run={"name": "many"}), "", 2).close()
    with pytest.raises(RunError, match=r"'many' is a study .* such as '.*many/seed_42'"):
        compare_runs("base", "many", root=root)


async def test_a_comparison_is_plain_json(pair):
    found = compare_runs(*pair)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["overall"]["effect"] == found.overall.effect
    assert told["task_types"]["hall"]["tasks"] == 20
    assert told["tasks"][0] == {
        "id": "test-00",
        "task_type": "attic",
        "a": found.tasks[0].a,
        "b": found.tasks[0].b,
        "success_a": found.tasks[0].a,
        "success_b": found.tasks[0].b,
        "attempts_a": 2,
        "attempts_b": 3,
    }
    assert told["now_solved"] == [task.id for task in found.now_solved]
    assert (told["result"], told["metric"], told["a"]["run"]) == ("better", "hard", "a")
