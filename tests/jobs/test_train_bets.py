"""What is played while a decision is open changes when it is played, and what it costs."""

import asyncio

import pytest
from test_train_resume import LONG, VARIANTS, StopAfter

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Notebook,
    Veteran,
    Walker,
    doors_config,
    look,
    resumed,
    story,
    trained,
)
from skillwright.core import ModelError, ModelRefused
from skillwright.core.paths import AHEAD, gives_way
from skillwright.jobs import BudgetSpent, EpisodeFinished, open_run, run_training, start_run
from skillwright.jobs.text.bets import Bets

KEPT = {"epochs": 3, "batch_size": 4}
# Three steps an epoch: what is accepted in one of them loses the bet on the next batch.
MIXED = [[ALL_WRONG], [ALL_RULES], [ALL_WRONG], [ALL_WRONG], [], [ALL_WRONG]]


def mixed(folder, speculate=True, **sections):
    folder.mkdir(exist_ok=True)
    train = {**KEPT, "speculate": speculate, **sections.pop("train", {})}
    return doors_config(folder, train=train, **sections)


def told(path):
    """Tell the story of a run without what it played in vain."""
    found = story(path)
    found["episodes"] = [row for row in found["episodes"] if row[1] != AHEAD]
    return found


def in_vain(path):
    with look(path) as store:
        return store.episodes(phase=AHEAD), store.usage_by_purpose().get(AHEAD)


class Judge(Walker):
    """Does what it is asked to while an episode is played ahead."""

    def __init__(self, ahead):
        super().__init__()
        self.ahead = []
        self._act = ahead

    async def complete(self, messages, **about):
        if gives_way():
            self.ahead.append(messages)
            await self._act()
        return await super().complete(messages, **about)


async def nothing():
    pass


FORCED = {"slow_update_samples": 5, "gate_slow_update": False}
SAME = {
    **VARIANTS,
    "mixed": ({"train": KEPT}, lambda: Veteran(MIXED, ALL_RULES)),
    "strict": (
        {"train": KEPT, "evaluation": {"gate": {"kind": "strict"}}},
        lambda: Veteran(MIXED, ALL_WRONG),
    ),
    "crowded": (
        {"train": KEPT, "rollout": {"max_concurrent": 3}},
        lambda: Veteran(MIXED, ALL_RULES),
    ),
    "parity": (
        {"run": {"parity": True}, "train": KEPT, "optimizer": FORCED},
        lambda: Veteran(MIXED, "Be quick."),
    ),
    "rejected": ({"train": {**KEPT, "patience": 4}}, lambda: Veteran(LONG, ALL_WRONG)),
}


@pytest.mark.parametrize("variant", SAME)
async def test_a_run_that_bets_takes_the_same_decisions(tmp_path, variant):
    sections, make_coach = SAME[variant]
    found = {}
    for speculate in (False, True):
        folder = tmp_path / str(speculate)
        folder.mkdir()
        train = {**sections.get("train", {}), "speculate": speculate}
        config = doors_config(folder, **{**sections, "train": train})
        path, report = await trained(config, Walker(), make_coach())
        found[speculate] = told(path), report
    assert found[True] == found[False]


async def test_where_the_skill_stays_nothing_is_played_twice_and_nothing_in_vain(tmp_path):
    plan, asked = [[ALL_WRONG], [], [ALL_WRONG], [ALL_WRONG], [ALL_WRONG], []], []
    for speculate in (False, True):
        target = Judge(nothing)
        config = mixed(tmp_path / str(speculate), speculate, train={"epochs": 2})
        path, _ = await trained(config, target, Veteran(plan, ALL_WRONG))
        asked.append(sorted(target.calls))
    assert asked[0] == asked[1]
    assert len(target.ahead) > 20
    assert in_vain(path) == ([], None)


async def test_what_was_played_in_vain_is_kept_apart_and_paid_for(tmp_path):
    calls = []
    for speculate in (False, True):
        target = Walker()
        config = mixed(tmp_path / str(speculate), speculate, train={"epochs": 1})
        path, _ = await trained(config, target, Coach(MIXED))
        calls.append(len(target.calls))
    episodes, used = in_vain(path)
    assert {one.step for one in episodes} == {3}  # the rules of step 2 are accepted
    assert used.calls == calls[1] - calls[0] > 0
    assert sum(one.usage.calls for one in episodes) == used.calls


async def test_a_lost_bet_is_stopped_before_the_next_step(tmp_path):
    stuck = asyncio.Event()
    target = Judge(stuck.wait)
    config = doors_config(tmp_path, train={"speculate": True})
    path, report = await trained(config, target, Coach([[ALL_RULES], []]))
    assert report.state.steps[0].action == "accept"
    assert len(target.ahead) == 6  # the second batch, under the skill that lost
    assert len(asyncio.all_tasks()) == 1
    assert in_vain(path)[0] == []


@pytest.mark.parametrize("error", [ModelError("down"), ModelRefused("no")])
async def test_what_fails_ahead_of_time_fails_for_nobody(tmp_path, error):
    async def fail():
        raise error

    rollout = {"give_up_after": 2, "retries": 0}
    path, report = await trained(
        mixed(tmp_path / "failing", rollout=rollout), Judge(fail), Veteran(MIXED, ALL_RULES)
    )
    plain, wanted = await trained(
        mixed(tmp_path / "plain", False, rollout=rollout), Walker(), Veteran(MIXED, ALL_RULES)
    )
    assert told(path) == told(plain)
    assert report == wanted


async def test_a_bug_in_what_is_played_ahead_stops_the_run(tmp_path):
    async def fail():
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await trained(mixed(tmp_path / "bug"), Judge(fail), Coach(MIXED))


@pytest.mark.parametrize("part", [0.2, 0.42, 0.7])
async def test_a_run_that_bets_may_be_stopped_anywhere(tmp_path, part):
    whole = StopAfter(object, 0)
    plain, wanted = await trained(
        mixed(tmp_path / "plain", False), Walker(), Veteran(MIXED, ALL_RULES), callback=whole
    )
    stopper = StopAfter(object, int(part * whole.seen))
    work = trained(mixed(tmp_path / "cut"), Walker(), Veteran(MIXED, ALL_RULES), callback=stopper)
    stopper.task = asyncio.create_task(work)
    with pytest.raises(asyncio.CancelledError):
        await stopper.task
    assert len(asyncio.all_tasks()) == 1
    path, target = tmp_path / "cut" / "runs" / "doors", Walker()
    with look(path) as store:
        known = {one.key for one in store.episodes() if one.failure is None}
    assert await resumed(path, target, Veteran(MIXED, ALL_RULES)) == wanted
    assert told(path) == told(plain)
    with look(path) as store:
        keys = [one.key for one in store.episodes()]
    assert known <= set(keys)
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("tokens", [900, 1_500])
async def test_a_budget_that_ends_ahead_of_time_stops_the_run_and_a_larger_one_resumes_it(
    tmp_path, tokens
):
    plain, wanted = await trained(
        mixed(tmp_path / "plain", False), Walker(), Veteran(MIXED, ALL_RULES)
    )
    config = mixed(tmp_path / "spent", budget={"tokens": tokens})
    with start_run(config, "") as run, pytest.raises(BudgetSpent):
        await run_training(run, Notebook(), lambda c, _: _mind(c))
    path = tmp_path / "spent" / "runs" / "doors"
    with look(path) as store:
        used = sum(
            one.input_tokens + one.output_tokens for one in store.usage_by_purpose().values()
        )
    assert tokens <= used < tokens + 400
    with open_run(path, overrides=["budget.tokens=null"]) as run:
        assert await run_training(run, Notebook(), lambda c, _: _mind(c)) == wanted
    assert told(path) == told(plain)


def _mind(config):
    return Veteran(MIXED, ALL_RULES) if config.model == "analyst" else Walker()


async def test_progress_counts_what_is_used_and_not_what_is_played(tmp_path):
    notebook = Notebook()
    plan = [[ALL_WRONG], [], [ALL_WRONG]]
    config = mixed(tmp_path / "seen", train={"epochs": 1})
    await trained(config, Walker(), Coach(plan), callback=notebook)
    events = notebook.of(EpisodeFinished)
    wanted = [one.result.key for one in events if one.result.spec.phase == "train"]
    assert len(wanted) == 12
    ahead = {one.result.key for one in events if one.result.spec.phase == AHEAD}
    assert len(ahead) == 8
    assert ahead < set(wanted)


async def test_without_a_bench_that_plays_ahead_nobody_bets():
    async with Bets(None) as bets:
        bets.place(lambda bench: bench.measure("", "val", phase="gate"))
        assert len(asyncio.all_tasks()) == 1
