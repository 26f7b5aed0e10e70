"""A zero that a fault left in an adapter's own files is never read back as a score."""

import pytest
from skillopt_runs import PLAN, evaluated, rereading

from doors import Walker, llms, look
from skillwright.core import ModelError
from skillwright.jobs import NullCallback, open_run, run_evaluation, start_run
from skillwright.plugins.skillopt.session import forget_unanswered
from skillwright.rollout import EngineDown


def down_until(last):
    def fail(number):
        if number <= last:
            raise ModelError("the endpoint is down")

    return Walker(fail)


@pytest.mark.parametrize("adapter", ["Rereading", "HalfTelling"])
async def test_an_outage_is_no_row_of_zeros_that_the_next_attempt_reads_back(tmp_path, adapter):
    with pytest.raises(EngineDown, match="endpoint is down"):
        await evaluated(rereading(tmp_path, adapter, retries=2), down_until(1000))
    with look(tmp_path / "runs" / "x") as store:
        assert [one.reward for one in store.episodes()] == [None] * 12


async def test_after_an_outage_every_episode_is_asked_again(tmp_path):
    walker = down_until(3)
    path, report = await evaluated(rereading(tmp_path, "Rereading", retries=2), walker)
    assert report.table.overall.failures == 0
    assert len(walker.calls) == 12 + 12
    # What was written meanwhile is kept for people.
    assert len(list(path.rglob("draw_00.unanswered_1/results.jsonl"))) == 1


async def test_a_run_that_was_stopped_while_faults_were_scored_does_not_read_them_later(tmp_path):
    config = rereading(tmp_path, "Rereading")
    with start_run(config, "", PLAN) as run, pytest.raises(EngineDown):
        await run_evaluation(run, PLAN, NullCallback(), llms(down_until(1000)))
    walker = Walker()
    with open_run(tmp_path / "runs" / "x") as run:
        report = await run_evaluation(run, PLAN, NullCallback(), llms(walker))
    assert (len(walker.calls), report.table.overall.failures) == (12, 0)


async def test_an_adapter_that_lets_faults_out_goes_on_where_it_stopped(tmp_path):
    def fail_once(number):
        if number == 5:
            raise ModelError("the endpoint is down")

    walker = Walker(fail_once)
    _, report = await evaluated(rereading(tmp_path, "Letting", retries=1), walker)
    assert report.table.overall.failures == 0
    assert len(walker.calls) == 13


async def test_a_question_of_a_forked_process_is_refused_and_is_no_zero(tmp_path):
    with pytest.raises(EngineDown, match="forked"):
        await evaluated(rereading(tmp_path, "Forking"), Walker())


def test_a_folder_that_a_killed_run_left_in_doubt_is_put_aside(tmp_path):
    folder = tmp_path / "rollout"
    for number in (1, 2):
        folder.mkdir(exist_ok=True)
        (folder / "results.jsonl").write_text('{"id": "a", "hard": 0}\n', encoding="utf-8")
        (tmp_path / "rollout.unanswered").touch()
        forget_unanswered(folder)
        assert list(folder.iterdir()) == []
        assert (tmp_path / f"rollout.unanswered_{number}" / "results.jsonl").is_file()
    (folder / "results.jsonl").write_text('{"id": "a", "hard": 0}\n', encoding="utf-8")
    forget_unanswered(folder)
    assert (folder / "results.jsonl").is_file()
