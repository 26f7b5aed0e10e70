"""Several seeds of one configuration: ordinary runs in one folder, stopped and continued with."""

import asyncio
import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, llms, story
from shown import episodes
from skillwright.core import ConfigError, ModelRefused, RunError
from skillwright.evaluation import AlphaLedger, SplitReport
from skillwright.jobs.inspect import (
    RunSummary,
    SeedResult,
    StudySummary,
    find_study,
    open_study,
    read_run,
    read_study,
    run_study,
    start_study,
    summarize_runs,
    summarize_studies,
)
from skillwright.jobs.run import BudgetSpent, NullCallback
from skillwright.jobs.text import TrainState
from skillwright.textopt import StepMemory

PLAN = [[ALL_RULES], ["Be quick."]]


@contextmanager
def unwatched():
    yield NullCallback()


def study_of(tmp_path, count=3, **sections):
    return start_study(doors_config(tmp_path, **sections), "", count)


def worked(study, target=None):
    with study:
        made = llms(target or Walker(), Coach(PLAN))
        return asyncio.run(run_study(study, unwatched, made))


def test_every_seed_is_an_ordinary_run_in_the_folder_of_the_study(tmp_path):
    summary = worked(study_of(tmp_path))
    path = tmp_path / "runs" / "doors"
    assert [one.seed for one in summary.seeds] == [42, 43, 44]
    assert sorted(item.name for item in path.iterdir()) == [
        "run.lock",
        "seed_42",
        "seed_43",
        "seed_44",
        "study.yaml",
        "summary.json",
    ]
    for one in summary.seeds:
        run = read_run(path / f"seed_{one.seed}")
        assert run.is_finished
        assert one.best == 1.0
        assert one.initial is not None
        assert one.gain == pytest.approx(1.0 - one.initial)
    assert len({json.dumps(story(path / f"seed_{s}")["episodes"]) for s in (42, 43, 44)}) == 3


def test_the_seeds_are_summed_up_with_an_interval_over_them(tmp_path):
    summary = worked(study_of(tmp_path))
    gains = summary.gains
    assert len(set(gains)) > 1, "the tiny world should give seeds some luck"
    assert summary.mean_gain == pytest.approx(sum(gains) / 3)
    low, high = summary.interval
    assert low < min(gains) <= max(gains) < high <= 1.0  # t over 3 seeds is wide
    assert summary.highest.gain == max(gains)
    assert summary.lowest.gain == min(gains)
    written = json.loads((summary.path / "summary.json").read_text(encoding="utf-8"))
    assert written == summary.to_dict()
    assert (written["job"], written["finished"], written["scripted"]) == ("study", True, True)
    assert summary.result.startswith(f"mean gain {100 * summary.mean_gain:+.1f} points (95%: ")


def result(seed, gain):
    return SeedResult(RunSummary(name="s", path=Path("s"), job="train"), seed, gain=gain)


def test_the_interval_is_students_over_seeds(tmp_path):
    summary = StudySummary("s", tmp_path, tuple(map(result, range(5), (0.1, 0.2, 0.3, 0.4, 0.5))))
    low, high = summary.interval
    # t(0.975, 4) = 2.776445, standard deviation 0.158114, over the root of 5.
    assert (low, high) == (pytest.approx(0.103676, abs=1e-6), pytest.approx(0.496324, abs=1e-6))
    assert StudySummary("s", tmp_path, (result(1, 0.1),)).interval is None
    assert StudySummary("s", tmp_path, (result(1, 0.0), result(2, 0.4))).interval == (-1.0, 1.0)


def test_a_gain_is_in_tasks_won_and_that_in_rewards_stands_beside_it():
    half = episodes(4, 0)
    half = [replace(one, reward=0.5) for one in half]
    report = SplitReport.of(
        "test", dict.fromkeys(("initial", "final"), half) | {"best": episodes(4, 0)}
    )
    state = replace(TrainState(StepMemory(), AlphaLedger(0.05, 2)), report=report)
    run = RunSummary(name="s", path=Path("s"), job="train", state=state)
    one = SeedResult.of(1, run)
    assert (one.initial, one.best, one.gain, one.reward_gain) == (0.0, 1.0, 1.0, 0.5)
    assert StudySummary("s", Path("s"), (one,)).result == "mean gain +100.0 points"


def test_a_seed_that_failed_leaves_the_study_resumable(tmp_path):
    study = study_of(tmp_path)
    first, calls = Walker(), []

    def refuse_later(number):
        calls.append(number)
        if len(calls) > 500:
            raise ModelRefused("key revoked")

    with pytest.raises(ModelRefused, match="key revoked"):
        worked(study, Walker(refuse_later))
    before = read_study(study.path)
    assert 0 < before.finished < 3
    assert before.result.startswith("mean gain")
    again = Walker()
    summary = worked(open_study(study.path), again)
    assert summary.finished == 3
    assert len(again.calls) > 0
    untouched = study_of(tmp_path, run={"name": "whole", "root": str(tmp_path / "runs")})
    worked(untouched, first)
    for seed in study.seeds:
        assert story(study.run_path(seed)) == story(untouched.run_path(seed))


def test_a_finished_study_is_gone_on_with_by_doing_nothing(tmp_path):
    study = study_of(tmp_path, 2)
    worked(study)
    before = {file: file.read_bytes() for file in study.path.rglob("*") if file.is_file()}
    nobody = Walker()
    summary = worked(open_study("doors", tmp_path / "runs"), nobody)
    assert (summary.finished, nobody.calls) == (2, [])
    assert {file: file.read_bytes() for file in study.path.rglob("*") if file.is_file()} == before


def test_one_process_works_on_a_study(tmp_path):
    with study_of(tmp_path, 2) as study:
        with pytest.raises(RunError, match="in use by process"):
            open_study(study.path)
        assert read_study(study.path).finished == 0


def test_a_second_study_of_a_name_gets_a_number(tmp_path):
    study_of(tmp_path, 2).close()
    with study_of(tmp_path, 2) as second:
        assert second.path.name == "doors-1"
    assert [one.name for one in summarize_studies(tmp_path / "runs")] in (
        ["doors", "doors-1"],
        ["doors-1", "doors"],
    )
    assert summarize_runs(tmp_path / "runs") == []


def test_a_study_that_cannot_begin_leaves_nothing(tmp_path):
    config = doors_config(tmp_path)
    (tmp_path / "runs").write_text("a file is in the way", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be made"):
        start_study(config, "", 2)
    (tmp_path / "runs").unlink()
    with pytest.raises(AttributeError):
        start_study(config, None, 2)  # type: ignore[arg-type]  # stands for any fault in the middle
    assert not (tmp_path / "runs" / "doors").exists()


def test_what_is_no_study_is_named(tmp_path):
    study_of(tmp_path, 2).close()
    assert find_study("dors", tmp_path / "runs") is None
    assert find_study("doors", tmp_path / "runs") == tmp_path / "runs" / "doors"
    with pytest.raises(RunError, match="Did you mean 'doors'"):
        open_study("dors", tmp_path / "runs")
    with pytest.raises(RunError, match="no study 'dors'"):
        read_study("dors", tmp_path / "runs")


def test_a_study_without_seeds_is_listed_with_what_to_write(tmp_path):
    study_of(tmp_path, 2).close()
    (tmp_path / "runs" / "doors" / "study.yaml").write_text("seed: 42\n", encoding="utf-8")
    (one,) = summarize_studies(tmp_path / "runs")
    assert "names no seeds. Write 'seeds: [42, 43]'" in one.result
    assert "seed_42, seed_43" in one.result


def test_untested_seeds_have_no_gain(tmp_path):
    summary = worked(study_of(tmp_path, 2, evaluation={"test": False}))
    assert (summary.mean_gain, summary.interval, summary.highest, summary.lowest) == (None,) * 4
    assert summary.result == "finished, not tested"


def test_the_seeds_share_everything_but_their_seed(tmp_path):
    with study_of(tmp_path, 2, run={"name": "a", "root": str(tmp_path), "seed": 7}) as study:
        texts = [(study.run_path(seed) / "config.yaml").read_text("utf-8") for seed in (7, 8)]
    assert texts[0].replace("seed: 7", "seed: 8").replace("seed_7", "seed_8") == texts[1]
    with pytest.raises(ConfigError):
        doors_config(tmp_path, run={"seed": -1})


def test_each_seed_has_the_whole_budget_and_a_larger_one_is_honored_on_resume(tmp_path):
    study = study_of(tmp_path, count=2, budget={"tokens": 500})
    with pytest.raises(BudgetSpent, match="of 500 tokens is spent"):
        worked(study)
    assert read_study(study.path).finished == 0
    with pytest.raises(ConfigError, match=r"'train\.epochs=9' cannot change"):
        open_study(study.path, overrides=["train.epochs=9"])
    summary = worked(open_study(study.path, overrides=["budget.tokens=99999"]))
    assert summary.finished == 2
