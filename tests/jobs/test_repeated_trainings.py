"""Repeated trainings of one skill folder share an error budget, and draw what no other drew."""

import asyncio
import shutil

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, resumed, trained
from skillwright.config.load import look_at_config
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError
from skillwright.core.skill_file import read_skill_file
from skillwright.evaluation import Decision, Verdict
from skillwright.jobs.kinds import MADE
from skillwright.jobs.text import restore, restore_version, start_run
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME

SECOND, THIRD = 0.02187, 0.00722


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "skills" / "doors"
    made.mkdir(parents=True)
    (made / "SKILL.md").write_text("---\nname: doors\ndescription: Opens doors.\n---\n\n# Doors\n")
    return made


def config_of(tmp_path, folder, **evaluation):
    return doors_config(tmp_path, skill={"init": str(folder)}, evaluation=evaluation)


def train(tmp_path, folder, rules=ALL_RULES):
    config = config_of(tmp_path, folder)
    text = read_skill_file(folder).text()
    path, _ = asyncio.run(trained(config, Walker(), Coach([[rules]]), skill=text))
    return path


def facts_of(path):
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        return store.events(MADE)[0].payload


def state_of(path):
    config = look_at_config(path / CONFIG_NAME, RunConfig)
    with RunStore.open(path / STORE_NAME, read_only=True) as store:
        return restore(config, store), store.episodes(phase="release")


def test_a_repetition_has_a_level_of_its_own_and_new_draws_and_says_so(tmp_path, folder):
    first, second = train(tmp_path, folder), train(tmp_path, folder)
    assert "release_level" not in facts_of(first)
    assert facts_of(second)["release_level"] == pytest.approx(SECOND, abs=1e-5)
    (before, drawn), (after, again) = state_of(first), state_of(second)
    assert before.final.accepted
    assert after.final.accepted
    assert after.ledger.total == pytest.approx(SECOND, abs=1e-5)
    assert "Training 2 of this skill folder has alpha 0.022" in after.final.reason
    assert "at most 0.1 are expected to be without a gain" in after.final.reason
    assert "of this skill folder" not in before.final.reason
    assert not {one.draw for one in drawn} & {one.draw for one in again}


def test_an_unfinished_training_counts_and_two_at_once_take_different_levels(tmp_path, folder):
    train(tmp_path, folder)
    text = read_skill_file(folder).text()
    levels = []
    with start_run(config_of(tmp_path, folder), text) as one:
        levels.append(facts_of(one.folder.path)["release_level"])
        with start_run(config_of(tmp_path, folder), text) as two:
            levels.append(facts_of(two.folder.path)["release_level"])
    assert levels == pytest.approx([SECOND, THIRD], abs=1e-5)


def test_a_training_that_ended_without_a_test_and_another_folder_count_nothing(tmp_path, folder):
    path = train(tmp_path, folder, rules="- Nothing that helps.")
    assert state_of(path)[0].final is None
    assert "release_level" not in facts_of(train(tmp_path, folder))
    other = folder.with_name("others")
    shutil.copytree(folder, other)
    assert "release_level" not in facts_of(train(tmp_path, other))


def test_a_training_that_is_continued_later_takes_its_share_then(tmp_path, folder):
    text = read_skill_file(folder).text()
    gate = {"gate": {"kind": "explore"}}
    config = doors_config(
        tmp_path,
        skill={"init": str(folder)},
        train={"epochs": 20},
        evaluation=gate,
        budget={"rollouts": 100},
    )
    path, report = asyncio.run(trained(config, Walker(), Coach([[ALL_RULES]]), skill=text))
    assert (report.state.final, report.state.cut_by_budget) == (None, 40)
    between, drawn = state_of(train(tmp_path, folder))
    assert (between.repeat, bool(between.final)) == (0, True)
    more = asyncio.run(resumed(path, Walker(), Coach([[ALL_RULES]]), "budget.rollouts=400"))
    assert (more.state.repeat, len(more.state.tested)) == (1, 1)
    assert more.state.ledger.total == pytest.approx(SECOND, abs=1e-5)
    after, again = state_of(path)
    assert after.ledger == more.state.ledger
    assert not {one.draw for one in drawn} & {one.draw for one in again}


def test_a_version_that_was_restored_by_hand_earns_no_alpha(tmp_path, folder, monkeypatch):
    async def failed(self, duel, ledger, terms):
        return Verdict(Decision.REJECT, "Not proven better.", 0.1, p_value=0.9, alpha=ledger.share)

    train(tmp_path, folder)
    monkeypatch.setattr("skillwright.evaluation.gates.release.ReleaseTest.judge", failed)
    for _ in range(2):
        path = train(tmp_path, folder)
        assert restore_version(path, 1).best_version == 1
    fourth = 0.05 / 2.28577 / 3**1.6
    assert facts_of(train(tmp_path, folder))["release_level"] == pytest.approx(fourth, abs=1e-5)


def test_a_folder_whose_budget_is_spent_is_refused_and_leaves_no_run(tmp_path, folder):
    for _ in range(2):
        train(tmp_path, folder)
    text = read_skill_file(folder).text()
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    with pytest.raises(ConfigError, match=r"have spent the error budget .* raise evaluation.alpha"):
        start_run(config_of(tmp_path, folder, alpha=0.001), text)
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == runs
