"""What training is compared with: the initial skill, and none; and how much that plays."""

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Notebook,
    Walker,
    doors_config,
    look,
    rule,
    trained,
    write_tasks,
)
from skillwright.core import skill_hash
from skillwright.jobs.run import RunStarted, StageStarted

SEED = f"# Doors\n\n{rule('attic')}\n"
TITLE = "# Doors\n"
PLAN = [[rule("cellar"), rule("hall")], []]
CONFIRM = {"confirm_tasks": 6}


def promised(notebook):
    (started,) = notebook.of(RunStarted)
    return started.episodes


def asked_for(notebook):
    return sum(stage.episodes for stage in notebook.of(StageStarted))


async def test_both_baselines_are_tested_and_confirmed(tmp_path):
    write_tasks(tmp_path / "tasks", val=48)
    config = doors_config(tmp_path, evaluation=CONFIRM)
    path, report = await trained(config, Walker(), Coach(PLAN), skill=SEED)
    assert list(report.test.tables) == ["initial", "empty", "best", "final"]
    won = {name: table.overall.success_rate for name, table in report.test.tables.items()}
    assert max(won["empty"], won["initial"]) < won["best"] == 1.0
    families = {name: table.task_types["attic"] for name, table in report.test.tables.items()}
    assert families["empty"].success_rate < families["initial"].success_rate == 1.0
    assert set(report.test.gains) == {"empty", "best", "final"}  # each over the initial skill
    found = report.state.confirmation
    assert list(found.report.tables) == ["initial", "empty", "best"]
    assert found.bias.confirmed.gain == found.report.gains["best"].gain
    with look(path) as store:
        (opened,) = store.events("test_opened")
        assert {e.skill_version for e in store.episodes(phase="test")} >= {skill_hash("")}
        assert len(store.episodes(phase="test")) == 3 * 12
        assert len(store.episodes(phase="confirm")) == 3 * 6
    assert opened.payload["skills"]["empty"] == skill_hash("")


@pytest.mark.parametrize(
    ("skill", "evaluation"), [(" \n", {}), ("", {}), (SEED, {"empty_baseline": False})]
)
async def test_a_blank_start_is_its_own_empty_baseline_and_it_can_be_left_out(
    tmp_path, skill, evaluation
):
    config = doors_config(tmp_path, evaluation={**evaluation, **CONFIRM})
    _, report = await trained(config, Walker(), Coach(PLAN), skill=skill)
    assert list(report.test.tables) == ["initial", "best", "final"]
    assert list(report.state.confirmation.report.tables) == ["initial", "best"]


OPEN, PAIRED = {"gate": {"kind": "open"}}, {"gate": {"kind": "paired"}}
BOTH = [[ALL_RULES], [ALL_WRONG], [ALL_WRONG, "Run."], [ALL_WRONG, "Walk."]]


@pytest.mark.parametrize(
    ("skill", "sections"),
    [
        ("", {}),
        (TITLE, {"evaluation": {**PAIRED, **CONFIRM}}),
        (TITLE, {"evaluation": {**PAIRED, "placebo": True, "empty_baseline": False}}),
        (TITLE, {"evaluation": {"test": False, "gate": {"kind": "paired", "draws": 2}}}),
        # Micro-batches of 5, 5, 2 and, because the 12 tasks are used up, 5 again.
        ("", {"train": {"batch_size": 5, "accumulation": 2}}),
        ("", {"train": {"epochs": 2}, "optimizer": {"use_slow_update": False}}),
    ],
)
async def test_a_run_says_beforehand_how_many_episodes_its_stages_ask_for(
    tmp_path, skill, sections
):
    notebook = Notebook()
    config = doors_config(tmp_path, **{"evaluation": PAIRED, **sections})
    await trained(config, Walker(), Coach(BOTH), skill=skill, callback=notebook)
    assert promised(notebook) == asked_for(notebook)


@pytest.mark.parametrize(
    ("skill", "sections", "lines"),
    [
        ("", {}, 48),
        (TITLE, {"evaluation": CONFIRM}, 36),
        (TITLE, {"evaluation": {"placebo": True, "empty_baseline": False}}, 48),
        ("", {"train": {"epochs": 2}, "optimizer": {"use_slow_update": False}}, 48),
    ],
)
async def test_a_release_test_is_promised_too(tmp_path, skill, sections, lines):
    notebook = Notebook()
    config = doors_config(tmp_path, **sections)
    await trained(config, Walker(), Coach(BOTH), skill=skill, callback=notebook)
    # What is released is not tested apart from the current skill, which could have been another,
    # and no edit of several lines came, whose lines would have been judged.
    assert promised(notebook) == asked_for(notebook) + 12 + lines
    assert [stage.stage for stage in notebook.of(StageStarted)].count("release test") == 1


async def test_what_two_incumbents_may_ask_for_is_counted_before(tmp_path):
    # The last skill met the best one already, and a second question of a step is rare.
    notebook = Notebook()
    config = doors_config(tmp_path, evaluation={**OPEN, "placebo": True})
    await trained(config, Walker(), Coach(BOTH), callback=notebook)
    assert promised(notebook) == asked_for(notebook) + 2 * 24
