"""What the specification's compatibility list wants proven, not claimed."""

import json

import pytest
from spec_worlds import CutAt, Elder, PowerCut, everything_written, two_epochs, world

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Walker,
    doors_config,
    look,
    resumed,
    rule,
    stored_turns,
    story,
    trained,
)
from skillwright.core.concurrency import together

PLAN = [[rule("attic"), rule("hall")], [ALL_WRONG], [], []]
PLACES = [
    "## Patches",
    "Step 1:",
    "Step 3:",
    "## Previous guidance",
    "## Previous notes",
    "Step 4:",
]


def a_run(folder, name="doors"):
    folder.mkdir(exist_ok=True)
    return two_epochs(folder, 3, run={"name": name})


@pytest.mark.parametrize("place", PLACES)
async def test_8_10_a_resumed_run_equals_an_uninterrupted_one_byte_for_byte(tmp_path, place):
    whole, report = await trained(a_run(tmp_path / "whole"), Walker(), Elder(PLAN, ALL_RULES))
    with pytest.raises(PowerCut):
        await trained(a_run(tmp_path / "cut"), Walker(), CutAt(PLAN, place, guidance=ALL_RULES))
    path, target, coach = tmp_path / "cut" / "runs" / "doors", Walker(), Elder(PLAN, ALL_RULES)
    known, answered = stored_turns(path), answered_calls(path)
    assert await resumed(path, target, coach) == report
    assert story(path) == story(whole)
    assert known.isdisjoint(target.calls)
    assert answered + len(coach.calls) == answered_calls(whole)  # none was paid for twice


def answered_calls(path):
    with look(path) as store:
        return store.counts()["calls"]


async def test_8_10_no_secret_is_in_any_artifact(tmp_path, monkeypatch):
    keys = {"target": "zq-first-canary-77", "optimizer": "zq-second-canary-88"}
    monkeypatch.setenv("OPENAI_API_KEY", keys["optimizer"])
    llm = {"backend": "openai_chat", "model": "household"}
    models = {
        "target": {**llm, "api_key": keys["target"]},
        "optimizer": {**llm, "model": "analyst"},
    }
    plan = [[" and ".join(keys.values()), ALL_RULES], []]
    path, _ = await trained(
        doors_config(tmp_path, models=models), Walker(), Coach(plan), skill=json.dumps(keys)
    )
    texts = everything_written(path)
    assert any("<redacted> and <redacted>" in text for text in texts)  # they were there
    assert not [text[:200] for text in texts for key in keys.values() if key in text]


async def test_8_10_a_key_that_a_world_tells_reaches_nobody_else_and_a_resume_changes_nothing(
    tmp_path, monkeypatch
):
    key = "zq-third-canary-99"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    optimizer = {"backend": "scripted", "model": "analyst"}
    target = {"backend": "openai_chat", "model": "household"}

    def telling(name):
        return doors_config(
            tmp_path,
            run={"name": name},
            env=world(tmp_path, "Telling"),
            models={"target": target, "optimizer": optimizer},
        )

    coach = Elder([[], []])
    whole, _ = await trained(telling("whole"), Walker(), coach)
    assert coach.asked("A note says <redacted>.")
    assert not coach.asked(key)
    with pytest.raises(PowerCut):
        await trained(telling("cut"), Walker(), CutAt([[], []], "Step 1:"))
    await resumed(tmp_path / "runs" / "cut", Walker(), Elder([[], []]))
    assert story(tmp_path / "runs" / "cut") == story(whole)


async def test_8_10_two_concurrent_runs_in_one_process(tmp_path):
    async def run(name, skill):
        path, report = await trained(a_run(tmp_path / name), Walker(), Elder(PLAN), skill=skill)
        return story(path), report

    skills = {"one": "", "two": ALL_WRONG}
    both = await together(run(name, skill) for name, skill in skills.items())
    for name, skill in skills.items():
        assert await run(f"{name}-alone", skill) == both[list(skills).index(name)]
    assert both[0] != both[1]


async def test_8_10_a_run_that_scores_zero_resumes(tmp_path):
    plan = [["Be kind."], ["Be quick."], [], []]
    whole, report = await trained(a_run(tmp_path / "whole"), Walker(), Elder(plan), skill=ALL_WRONG)
    assert report.state.baseline.overall.success_rate == 0.0
    drawn = [score for seen in report.state.seen for score in seen.candidate.values()]
    assert {total for total, _ in drawn} == {0.0}
    beliefs = [step.verdict.incumbent_score for step in report.state.steps if step.verdict]
    assert beliefs
    assert all(0 < later < 0.1 for later in beliefs)  # shrunken: 24 zeros are not proof of never
    with pytest.raises(PowerCut):
        await trained(a_run(tmp_path / "cut"), Walker(), CutAt(plan, "Step 2:"), skill=ALL_WRONG)
    path = tmp_path / "cut" / "runs" / "doors"
    assert await resumed(path, Walker(), Elder(plan)) == report
    assert story(path) == story(whole)


async def test_8_10_where_everything_is_rejected_the_initial_skill_comes_out(tmp_path):
    skill = f"# Doors\t\r\n\n{ALL_RULES}   \n\n\n"
    plan = [[ALL_WRONG], [ALL_WRONG, "Be kind."], [ALL_WRONG], []]
    path, report = await trained(
        a_run(tmp_path / "run"), Walker(), Elder(plan, ALL_WRONG), skill=skill
    )
    judged = [*report.state.steps, *report.state.epochs]
    assert [one.action for one in judged if one.verdict] == ["reject"] * 5
    assert report.best_skill == report.initial_skill == skill
    assert (path / "best_skill.md").read_bytes() == skill.encode()
    tables = report.test.tables
    assert tables["initial"] == tables["best"] == tables["final"]
