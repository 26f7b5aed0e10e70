"""A check plays both skills on held-out tasks, continues after a stop, and needs scores."""

import pytest

from doors import ALL_RULES, ALL_WRONG, Walker, doors_config, llms, look
from skillwright.core import ModelError, Usage
from skillwright.jobs.inspect import compare_runs, read_run, summarize_runs
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import CheckPlan, open_run, read_check, run_check, start_check
from skillwright.rollout import EngineDown

PLAN = CheckPlan("new.md", "old.md", "val")


async def checked(config, target, new, old="", plan=PLAN):
    with start_check(config, new, old, plan) as run:
        return run.folder.path, await run_check(run, NullCallback(), llms(target))


def dies_at(number):
    def on_call(count):
        if count >= number:
            raise ModelError("503")

    return on_call


async def test_rules_that_help_are_better_and_wrong_ones_worse(tmp_path):
    path, report = await checked(doors_config(tmp_path), Walker(), ALL_RULES)
    assert report.verdict.answer == "better"
    assert report.is_fine
    assert [one.new for one in report.tasks] == [1.0] * 24
    assert report.noise.tasks == 24
    assert report.costs["new"].input_tokens == 9
    assert read_run(path).result == "better"
    assert (read_run(path).job, read_run(path).is_finished) == ("check", True)
    _, report = await checked(doors_config(tmp_path), Walker(), ALL_WRONG, ALL_RULES)
    assert report.verdict.answer == "worse"
    assert [one.job for one in summarize_runs(tmp_path / "runs")] == ["check", "check"]


async def test_the_old_skill_and_its_noise_have_draws_of_their_own(tmp_path):
    path, _ = await checked(doors_config(tmp_path), Walker(), ALL_RULES)
    with look(path) as store:
        episodes = store.episodes()
    noise = [one for one in episodes if one.draw >= 1_000_000]
    assert {(one.draw, one.skill_version) for one in noise} == {
        (1_000_000, noise[0].skill_version),
        (1_000_001, noise[0].skill_version),
    }
    assert {one.phase for one in episodes} == {"check"}


async def test_a_dead_endpoint_is_no_answer_and_the_check_continues(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})
    with (
        start_check(config, ALL_RULES, "", PLAN) as run,
        pytest.raises(EngineDown),
    ):
        await run_check(run, NullCallback(), llms(Walker(dies_at(60))))
    with look(run.folder.path) as store:
        before = sum(one.reward is not None for one in store.episodes())
        assert read_check(store) == PLAN
    again, fresh = Walker(), Walker()
    with open_run(run.folder.path) as run:
        report = await run_check(run, NullCallback(), llms(again))
    _, whole = await checked(config, fresh, ALL_RULES)
    assert report.verdict == whole.verdict
    assert report.tasks == whole.tasks
    assert before > 20
    assert len(again.calls) <= len(fresh.calls) - before  # what was scored is not played again
    with open_run(run.folder.path) as run:
        nothing = Walker(dies_at(1))
        assert await run_check(run, NullCallback(), llms(nothing)) == report


async def test_the_two_skills_of_a_check_are_compared_afterwards(tmp_path):
    path, report = await checked(doors_config(tmp_path), Walker(), ALL_RULES)
    found = compare_runs(path, path, skill_a="old", skill_b="new")
    assert found.overall.effect == pytest.approx(report.verdict.effect.gain)
    assert found.b.what == "check, new skill on val"


async def test_the_cost_of_an_episode_is_unknown_without_prices(tmp_path):
    class Unpriced(Walker):
        async def complete(self, *words, **named):
            found = await super().complete(*words, **named)
            usage = Usage(calls=1, input_tokens=9, output_tokens=1, cost_usd=None)
            return found.__class__(found.text, usage=usage)

    _, report = await checked(doors_config(tmp_path), Unpriced(), ALL_RULES)
    assert report.cost_usd is None
    assert report.costs["new"].cost_usd is None
