"""What the demo promises: the skill that it trains works, and harm is kept out by rollouts alone.

Every model in it is scripted. The figures show that the loop works, not what a model would score.
"""

import asyncio

import pytest

from doors import look
from skillwright.config import load_config
from skillwright.evaluation import RELEASE_DRAWS_FROM
from skillwright.jobs.inspect import blame, find_skill, replay_run
from skillwright.jobs.run import NullCallback, demo_file
from skillwright.jobs.text import run_training, start_run
from skillwright.worlds.scripted.skilltext import read_conduct, read_stances


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """The folder of one run of the demo, exactly as it is shipped, and its report."""
    root = tmp_path_factory.mktemp("demo")
    with demo_file() as path:
        config = load_config(path, [f"run.root={root}"])

    async def play():
        with start_run(config, "") as run:
            return run.folder.path, await run_training(run, NullCallback())

    return asyncio.run(play())


def test_the_best_skill_wins_where_the_empty_and_the_irrelevant_one_do_not(demo_run):
    _, report = demo_run
    scores = {name: table.overall for name, table in report.test.tables.items()}
    assert scores["best"].tasks >= 100
    assert scores["best"].success_rate >= 0.85
    assert scores["initial"].success_rate < 0.30
    assert scores["placebo"].success_rate < 0.30
    assert all(score.failures == 0 for score in scores.values())
    assert report.test.gains["best"].interval.low > 0.4


def test_harmful_edits_were_proposed_and_none_is_in_effect_in_what_is_released(demo_run):
    path, report = demo_run
    with look(path) as store:
        tried = [edit for edit in store.edits() if edit.status.startswith("applied_")]
    by_step = {one.step: [e for e in tried if e.step == one.step] for one in tried}
    harmful = [
        step for step, edits in by_step.items() if any(harm_in(one.edit.content) for one in edits)
    ]
    assert len(harmful) >= 2
    for step in harmful:  # one that came in beside useful edits may stand, overridden later
        alone = all(harm_in(one.edit.content) for one in by_step[step])
        assert not alone or by_step[step][0].verdict in {"reject", "undecided"}
    assert not harm_in_effect(report.best_skill)


@pytest.mark.heavy
def test_every_episode_is_replayed_to_the_last_value(demo_run):
    path, _ = demo_run
    report = replay_run(path)
    with look(path) as store:
        episodes = store.episodes()
    assert report.equal == len(episodes) > 1000
    assert (report.differing, report.not_replayed) == (0, 0)
    assert report.turns == sum(one.turns for one in episodes)


def harm_in(text):
    return [stance for stance in read_stances(text) if stance.is_harmful]


def harm_in_effect(text):
    return [one for one in read_conduct(text).stances.values() if one.is_harmful]


def test_steps_change_the_current_skill_and_one_test_proves_what_is_released(demo_run):
    path, report = demo_run
    state = report.state
    assert sum(step.accepted for step in state.steps) >= 2
    assert {step.action for step in state.steps if step.accepted} == {"accept"}
    assert state.final.accepted
    assert state.final.p_value <= state.final.alpha
    assert (state.ledger.made, state.ledger.left) == (0, state.ledger.total)  # a proof leaves all
    with look(path) as store:
        played = {
            phase: {one.draw for one in store.episodes(phase=phase)}
            for phase in ("gate", "release")
        }
    assert min(played["release"]) >= RELEASE_DRAWS_FROM > max(played["gate"])


def test_every_line_of_the_best_skill_comes_from_episodes_that_can_be_read(demo_run):
    path, report = demo_run
    best = find_skill(str(path / "best_skill.md"))
    with look(path) as store:
        lines = blame(store, best.version)
        episodes = {one.id: one for one in store.episodes()}
        edits = {one.id for one in store.edits()}
    assert [one.text for one in lines] == report.best_skill.splitlines()
    for line in lines:  # the demo begins with a blank skill: each was learned
        assert line.witnesses, line
        assert set(line.edits) <= edits, line
        for witness in line.witnesses:
            seen = episodes[witness.episode]
            assert (seen.task_id, seen.split, seen.step) == (witness.task_id, "train", line.step)
            assert max(witness.turns, default=0) < seen.turns
