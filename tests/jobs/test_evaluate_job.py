"""An evaluation: how often a skill wins, and how reliably."""

import asyncio
import json

import pytest

from doors import ALL_RULES, Walker, doors_config, evaluated, llms, look, rule, story
from skillwright.core import ConfigError, ModelError
from skillwright.jobs.inspect import read_run
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import EvalPlan, EvalReport, open_run, run_evaluation, start_run
from skillwright.models import ContextOverflow
from skillwright.rollout import EngineDown

TEST = EvalPlan("test", 3)


def failing_at(*numbers):
    def on_call(number):
        if number in numbers:
            raise ModelError("503")

    return on_call


async def resumed(path, target):
    with open_run(path) as run:
        return await run_evaluation(run, run.plan, NullCallback(), llms(target))


async def test_every_task_is_played_as_often_as_asked_with_its_own_luck(tmp_path):
    path, report = await evaluated(doors_config(tmp_path), TEST, Walker())
    with look(path) as store:
        episodes = store.episodes()
        sittings = [event for event in store.events() if event.kind == "session"]
    assert len(episodes) == report.table.overall.episodes == 12 * 3
    assert {e.phase for e in episodes} == {"test"}
    assert len(sittings) == 1  # from it on, the minutes of a budget are counted
    assert len({(e.task_id, e.draw) for e in episodes}) == len({e.seed for e in episodes}) == 36


async def test_pass_k_falls_from_the_success_rate_to_what_is_reliable(tmp_path):
    path, report = await evaluated(doors_config(tmp_path), TEST, Walker(), skill=rule("hall"))
    assert report.complete_tasks == 12
    assert report.pass_k[0] == pytest.approx(report.table.overall.success_rate)
    assert list(report.pass_k) == sorted(report.pass_k, reverse=True)
    assert report.pass_k[2] >= 1 / 3  # the hall is known, a third of the tasks
    assert report.table.task_types["hall"].success_rate == 1.0
    _, perfect = await evaluated(doors_config(tmp_path), TEST, Walker(), skill=ALL_RULES)
    assert perfect.pass_k == (1.0, 1.0, 1.0)
    assert path.name == "doors"


async def test_a_fault_is_left_out_of_every_rate(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})
    _, report = await evaluated(
        config, EvalPlan("test", 2), Walker(failing_at(1, 5)), skill=ALL_RULES
    )
    overall = report.table.overall
    assert (overall.episodes, overall.failures, overall.success_rate) == (22, 2, 1.0)
    assert report.complete_tasks == 10
    assert report.pass_k == (1.0, 1.0)


async def test_an_evaluation_without_a_single_score_is_no_result(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 0})
    with pytest.raises(EngineDown, match="all 12 episodes failed, so there is no score"):
        await evaluated(
            config, EvalPlan("test", 1), Walker(failing_at(*range(99))), skill=ALL_RULES
        )


@pytest.mark.parametrize(("split", "tasks"), [("train", 12), ("val", 24), ("test", 12)])
async def test_any_split_can_be_evaluated(tmp_path, split, tasks):
    path, report = await evaluated(doors_config(tmp_path), EvalPlan(split, 1), Walker())
    assert (report.split, report.table.overall.tasks) == (split, tasks)
    with look(path) as store:
        assert {e.split for e in store.episodes()} == {split}


async def test_an_evaluation_needs_no_optimizer(tmp_path):
    made = []

    def make(config, client):
        made.append(config.model)
        return Walker()

    with start_run(doors_config(tmp_path), "", TEST) as run:
        await run_evaluation(run, TEST, NullCallback(), make)
    assert made == ["household"]


async def test_a_stopped_evaluation_goes_on_with_the_skill_that_it_began_with(tmp_path):
    config = doors_config(tmp_path)
    whole, report = await evaluated(config, TEST, Walker(), skill=ALL_RULES)
    target = Walker()

    def stop(number):
        if number == 20:
            task.cancel()

    slow = doors_config(tmp_path, run={"name": "cut"}, rollout={"max_concurrent": 4})
    task = asyncio.create_task(evaluated(slow, TEST, Walker(stop), skill=ALL_RULES))
    with pytest.raises(asyncio.CancelledError):
        await task
    path = tmp_path / "runs" / "cut"
    with look(path) as store:
        known = store.counts()["episodes"]
    assert 0 < known < 36
    assert await resumed(path, target) == report
    assert len(target.calls) == 36 - known
    assert story(path)["episodes"] == story(whole)["episodes"]


async def test_resuming_a_finished_evaluation_plays_again_only_what_failed(tmp_path):
    config = doors_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})
    path, report = await evaluated(
        config, EvalPlan("test", 1), Walker(failing_at(1, 5)), skill=ALL_RULES
    )
    assert report.table.overall.failures == 2
    target = Walker()
    mended = await resumed(path, target)
    assert len(target.calls) == 2
    assert mended.table.overall.failures == 0
    assert read_run(path).evaluation == mended


async def test_a_report_survives_the_way_through_json(tmp_path):
    _, report = await evaluated(doors_config(tmp_path), TEST, Walker())
    assert EvalReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


class Narrow(Walker):
    """Its window takes no first prompt about one room."""

    async def complete(self, messages, **asked):
        if "hall" in messages[1]["content"] and len(messages) == 2:
            raise ContextOverflow("maximum context length is 9 tokens. Shorten the conversation.")
        return await super().complete(messages, **asked)


async def test_a_first_prompt_that_does_not_fit_stops_the_evaluation_and_is_no_failure(tmp_path):
    config = doors_config(tmp_path, rollout={"max_concurrent": 1})
    with pytest.raises(
        ConfigError, match=r"'test-02' does not fit.*length is 9.*shorten the skill"
    ):
        await evaluated(config, EvalPlan("test", 1), Narrow())
    with look(tmp_path / "runs" / "doors") as store:
        assert store.counts()["episodes"] == 2
        assert not store.events("evaluated")


async def test_a_later_prompt_that_does_not_fit_ends_its_episode_alone(tmp_path):
    class Short(Walker):
        async def complete(self, messages, **asked):
            if len(messages) > 2:
                raise ContextOverflow("maximum context length is 9 tokens")
            return await super().complete(messages, **asked)

    _, report = await evaluated(doors_config(tmp_path), EvalPlan("test", 1), Short())
    assert report.table.overall.failures == 0
