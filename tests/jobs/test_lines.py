"""Before a release test, lines of the current skill that do not help are taken out."""

import asyncio
import json
from dataclasses import replace

import numpy as np
import pytest

from doors import (
    ROOMS,
    Coach,
    Walker,
    doors_config,
    look,
    resumed,
    rule,
    story,
    trained,
    write_tasks,
)
from skillwright.core import ModelError, skill_hash
from skillwright.jobs.run import EpisodeFinished
from skillwright.jobs.text.state import LinesRecord

GOOD = [f"- {rule('attic')}", f"- {rule('hall')}"]
BAD = f"- {rule('cellar', 9)}"
START = f"# Doors\n\n- {rule('cellar')}\n"


def config_of(folder, **sections):
    file = write_tasks(folder / "tasks", val=60) / "val" / "items.json"
    items = json.loads(file.read_text(encoding="utf-8"))
    for at, item in enumerate(items):
        room = ("attic", "hall", "attic", "hall", "cellar")[at % 5]
        item |= {"task_type": room, "room": room, "door": ROOMS[room]}
    file.write_text(json.dumps(items), encoding="utf-8")
    gate = {"evaluation": {"gate": {"kind": "explore"}}}
    return doors_config(folder, **{**gate, "train": {"epochs": 1, "batch_size": 6}, **sections})


def lines_played(path):
    with look(path) as store:
        return store.episodes(phase="lines")


async def test_a_harmful_line_that_came_in_with_right_ones_is_taken_out(tmp_path):
    path, report = await trained(config_of(tmp_path), Walker(), Coach([[*GOOD, BAD]]), skill=START)
    (found,) = report.state.lines
    assert (found.judged, found.gone) == (3, (rule("cellar", 9),))
    assert found.gain > 0.02
    assert report.best_skill == report.final_skill
    assert BAD not in report.best_skill
    assert all(line in report.best_skill for line in (*GOOD, START.strip().splitlines()[-1]))
    assert found.rollouts == len(lines_played(path)) <= 2 * 60
    assert found.characters >= len(BAD)
    assert "1 of 3 lines that came in with others do not help" in report.state.release_text
    with look(path) as store:
        tested = store.episodes(phase="release")
        best = store.skills()[report.state.best_version]
    assert {one.skill_version for one in tested} == {best.hash, skill_hash(START)}
    assert best.origin == "lines_step_0002"


async def test_a_single_line_and_whole_bundles_of_an_agent_that_answers_alike_stay(tmp_path):
    path, report = await trained(config_of(tmp_path), Walker(), Coach([GOOD[:1]]), skill=START)
    assert report.state.lines == ()
    assert lines_played(path) == []


async def test_equal_lines_do_not_stay_twice(tmp_path):
    shout = GOOD[0].upper().replace("IN THE ATTIC TAKE DOOR", "In the attic take door")
    plan = [[*GOOD[:1], "- Be quick.", "- be   QUICK.", shout]]
    _, report = await trained(config_of(tmp_path), Walker(), Coach(plan), skill=START)
    (found,) = report.state.lines
    assert "be   QUICK." in found.twice
    assert report.best_skill.lower().count("be quick.") + report.best_skill.count("QUICK.") <= 1


async def test_an_equal_line_under_another_heading_stays(tmp_path):
    plan = [[f"## Halls\n\n{GOOD[1]}\n- Be quick.\n\n## Attics\n\n{GOOD[0]}\n- Be quick."]]
    _, report = await trained(config_of(tmp_path), Walker(), Coach(plan), skill=START)
    assert "Be quick." not in [title for one in report.state.lines for title in one.twice]


async def test_a_line_that_came_in_alone_with_its_heading_is_not_judged_with_the_next(tmp_path):
    start, plan = f"## Cellars\n\n- {rule('cellar')}\n", [[f"## Halls\n\n{GOOD[1]}"], GOOD[:1]]
    _, report = await trained(config_of(tmp_path), Walker(), Coach(plan), skill=start)
    assert [one.enters for one in report.state.steps] == [True, True]
    assert report.state.lines == ()


async def test_where_all_new_lines_go_the_initial_skill_is_left_and_training_goes_on(
    tmp_path, monkeypatch
):
    effects = "skillwright.evaluation.gates.lines.LineEffects"
    monkeypatch.setattr(f"{effects}.more", lambda self, price, room: 20 if room > 60 else 0)
    monkeypatch.setattr(f"{effects}.gains", property(lambda self: -0.01 * np.ones(self._lines)))
    plan = "skillwright.evaluation.gates.plan.is_time_to_test"
    monkeypatch.setattr(plan, lambda known, spending, *, is_last: not is_last)
    config = config_of(tmp_path, budget={"rollouts": 600})
    start = START.rstrip()
    path, report = await trained(config, Walker(), Coach([GOOD, []]), skill=start)
    state = report.state
    assert (state.lines[0].step, state.lines[0].version) == (1, 0)
    assert (state.skill_version, state.last_step, report.final_skill) == (0, 2, start)
    with look(path) as store:
        assert store.episodes(phase="release") == []
        assert {one.step for one in store.episodes(phase="train")} == {1, 2}


def test_what_was_taken_out_is_said_in_words():
    record = LinesRecord(4, 3, ("x",), (), 0.03, 9, 40, 2)
    assert record.sentence == (
        "1 of 3 lines that came in with others do not help and are taken out (expected gain "
        "+3.0 points, 40 rollouts); the skill is 9 characters shorter."
    )
    stay = replace(record, gone=(), gain=0.0, characters=0, version=None)
    assert stay.sentence == "All 3 lines that came in with others stay (40 rollouts)."
    twice = replace(record, judged=0, gone=(), twice=("x",), rollouts=0)
    assert twice.sentence == "1 repeated line is taken out; the skill is 9 characters shorter."


async def test_what_the_release_test_had_played_does_not_change_the_price_of_lines(
    tmp_path, monkeypatch
):
    asked = []
    price = "skillwright.evaluation.gates.plan.price_before_test"
    monkeypatch.setattr(price, lambda known, left, cost: asked.append((left, cost)) or 1.0)
    stop = StopAfter(7, "release")
    config, plan = config_of(tmp_path, budget={"rollouts": 420}), Coach([[*GOOD, BAD]])
    stop.task = asyncio.create_task(trained(config, Walker(), plan, skill=START, callback=stop))
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    await resumed(tmp_path / "runs" / "doors", Walker(), plan)
    assert len(asked) == 2
    assert asked[0] == asked[1]


class StopAfter:
    def __init__(self, count, phase="lines"):
        self.task, self.left, self._phase = None, count, phase

    def on_event(self, event):
        if isinstance(event, EpisodeFinished) and event.result.spec.phase == self._phase:
            self.left -= 1
            if not self.left:
                self.task.cancel()


@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("rollouts", [None, 420])
async def test_a_run_that_was_stopped_there_decides_as_if_it_had_not_been(
    tmp_path, count, rollouts, monkeypatch
):
    # With a budget, so early in a run, the release test is worth more.
    price = "skillwright.evaluation.gates.plan.price_before_test"
    monkeypatch.setattr(price, lambda current, left, step_cost: 0.0)
    folders = [tmp_path / "a", tmp_path / "b"]
    configs = []
    for folder in folders:
        folder.mkdir()
        configs.append(config_of(folder, budget={"rollouts": rollouts}))
    plan = [[*GOOD, BAD]]
    whole, report = await trained(configs[0], Walker(), Coach(plan), skill=START)
    assert report.state.lines
    stop = StopAfter(count)
    stop.task = asyncio.create_task(
        trained(configs[1], Walker(), Coach(plan), skill=START, callback=stop)
    )
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    path = folders[1] / "runs" / "doors"
    await resumed(path, Walker(), Coach(plan))
    assert story(path) == story(whole)


async def test_lost_draws_decide_nothing(tmp_path):
    class Broken(Walker):
        async def complete(self, messages, **asked):
            if rule("attic") in messages[0]["content"] and "hall" not in messages[0]["content"]:
                raise ModelError("the endpoint is down")
            return await super().complete(messages, **asked)

    path, report = await trained(config_of(tmp_path), Broken(), Coach([[*GOOD, BAD]]), skill=START)
    assert report.state.finished
    assert any(one.failure is not None for one in lines_played(path))
