"""The recipe's release test: what it ends with, against the cold start and the first bank."""

from collections import Counter
from dataclasses import replace

import pytest

from rl_world import (
    COMMANDS,
    Notebook,
    Obedient,
    ObedientMaker,
    Stopped,
    Tutor,
    lanes_config,
    recipe,
    resumed,
    story,
    write_tasks,
)
from skillwright.core import Act
from skillwright.evaluation import RELEASE_DRAWS_FROM, Decision, Interval
from skillwright.jobs.run import EpisodeFinished, StageStarted
from skillwright.jobs.weights import RlReport, restore
from skillwright.policy import Sampled
from skillwright.runs import RunStore


def config_of(folder, gate="explore", **sections):
    folder.mkdir(exist_ok=True)
    if not (folder / "tasks").is_dir():
        write_tasks(folder / "tasks", val=24)
    evaluation = {"gate": {"kind": gate}, **sections.pop("evaluation", {})}
    return lanes_config(folder, evaluation=evaluation, **sections)


async def played(folder, callback=None, policy=None, **sections):
    config = config_of(folder, **sections)
    path, report = await recipe(config, callback, maker=ObedientMaker(config, policy))
    return config, path, report


def episodes(path, phase):
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        return store.episodes(phase=phase)


async def test_weights_and_bank_together_are_proven_better_than_what_they_began_as(tmp_path):
    notes = Notebook()
    config, path, report = await played(tmp_path, notes)
    state = report.state
    assert state.release.accepted
    assert state.release.reason.startswith("Proven better: 8 of 24 tasks went better and 0 worse")
    assert (state.ledger.planned, state.ledger.made) == (1, 0)
    assert state.release.alpha == pytest.approx(0.05)
    assert {one.verdict.alpha for one in state.evolutions.values() if one.verdict} == {None}
    stages = [event.stage for event in notes.of(StageStarted)]
    assert stages.index("release test") == stages.index("test") - 1
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        (verdict,) = [one for one in store.verdicts() if one.origin == "release"]
        assert (verdict.step, verdict.body) == (report.iteration, state.release.to_dict())
        assert restore(config, store) == state
    assert report.to_dict()["release"] == state.release.to_dict()
    assert isinstance(report, RlReport)


async def test_both_sides_draw_equally_often_what_decided_nothing_before(tmp_path):
    _, path, report = await played(tmp_path)
    released, others = episodes(path, "release"), episodes(path, "gate") + episodes(path, "val")
    assert min(one.draw for one in released) == RELEASE_DRAWS_FROM
    assert max(one.draw for one in others) < RELEASE_DRAWS_FROM
    assert {one.seed for one in released}.isdisjoint(one.seed for one in others)
    assert {one.split for one in released} == {"val"}
    sides = Counter((one.task_id, one.draw) for one in released)
    assert set(sides.values()) == {2}
    # At temperature 0 draws repeat what was judged on them: there is one look.
    assert len(released) == report.state.release.rollouts == 2 * 2 * 24
    injected = Counter("hall" in one.task_type and bool(one.skill_ids) for one in released)
    assert injected[True]


async def test_what_came_to_nothing_is_not_proven_and_is_tested_all_the_same(tmp_path):
    # Nothing evolves, and a policy that follows its skills learns nothing from its rollouts.
    _, path, report = await played(tmp_path, evolve=None)
    release = report.state.release
    assert release.decision is Decision.REJECT
    assert release.reason.startswith("Not proven better: 0 of 24 tasks went better and 0 worse")
    assert report.state.ledger.made == 1
    assert len(episodes(path, "release")) == 2 * 2 * 24  # everything ties: one look
    assert set(report.test.tables) >= {"cold_start", "final"}


class Spoilt(Obedient):
    """A policy that reinforcement spoils: it takes the next door then."""

    def _choose(self, context, temperature):
        sampled = super()._choose(context, temperature)
        if not self.reference or self.steps == int(self.reference.rsplit(" ", 1)[1]):
            return sampled
        worse = (COMMANDS.index(sampled.act.text) + 1) % len(COMMANDS)
        row = replace(sampled.row, token_ids=(worse,), context=worse)
        return Sampled(Act(COMMANDS[worse], token_ids=(worse,), logprobs=(-1.0,)), row)


async def test_where_the_cold_start_is_the_best_there_is_nothing_to_test(tmp_path):
    notes = Notebook()
    _, path, report = await played(tmp_path, notes, Spoilt(), evolve=None)
    assert report.iteration == 0
    assert report.state.release is None
    assert not episodes(path, "release")
    assert "release test" not in [event.stage for event in notes.of(StageStarted)]


async def test_the_last_weights_are_tested_where_they_were_asked_for_and_do_harm(tmp_path):
    _, _, report = await played(
        tmp_path, policy=Spoilt(), evolve=None, evaluation={"select": "last"}
    )
    assert report.iteration == 4
    assert report.state.release.decision is Decision.REJECT
    assert report.state.release.effect < 0


@pytest.mark.parametrize("gate", ["paired", "strict"])
async def test_gates_without_a_release_test_have_none(tmp_path, gate):
    _, path, report = await played(tmp_path, gate=gate)
    assert report.state.release is None
    assert not episodes(path, "release")


async def test_the_sealed_test_is_played_with_the_selected_weights_and_not_those_last_loaded(
    tmp_path,
):
    _, _, strict = await played(tmp_path / "strict", gate="strict")
    _, _, explore = await played(tmp_path / "explore")
    assert explore.test.tables == strict.test.tables
    assert explore.iteration == strict.iteration


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
async def test_a_run_that_is_stopped_in_its_release_test_ends_as_one_that_is_not(tmp_path, share):
    notes = Notebook()
    await played(tmp_path / "whole", notes)
    in_it = [
        number
        for number, event in enumerate(notes.events, start=1)
        if isinstance(event, EpisodeFinished) and event.result.spec.phase == "release"
    ]
    moment = in_it[round(share * (len(in_it) - 1))]
    config = config_of(tmp_path / "part")
    with pytest.raises(Stopped):
        await recipe(config, Notebook(stop_at=moment), maker=ObedientMaker(config))
    path = tmp_path / "part" / "runs" / "lanes"
    again = Notebook()
    report = await resumed(path, again, maker=ObedientMaker(config), tutor=Tutor())
    assert report.state.finished
    assert story(path) == story(tmp_path / "whole" / "runs" / "lanes")
    fresh = [e for e in again.of(EpisodeFinished) if not e.reused]
    assert not any(e.result.spec.phase in ("base", "evolution", "gate") for e in fresh)


async def test_a_release_that_test_contradicts_is_refuted(tmp_path):
    _, _, report = await played(tmp_path)
    state = report.state
    assert state.refuted == ""
    worse = replace(
        state.test.judged["final"], gain=-0.3, interval=Interval(-0.45, -0.15), incumbent=0.6
    )
    turned = replace(state, test=replace(state.test, judged={"final": worse}))
    assert turned.refuted.startswith("What was proven on val does not hold on test: a gain of +")
