"""The cold start: which rows, what they cover, and how the rate falls."""

from dataclasses import replace

import pytest

from policy.errands import Errand, specs
from policy.fake_policies import CoinPolicy
from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import Act, ConfigError, PlainSkill, TurnContext, Usage
from skillwright.policy import Row, Schedule, SftSettings, demonstrations, train
from skillwright.policy.hf import HfPolicy, HfSettings
from skillwright.rollout import Limits, LocalEngine

SKILL = PlainSkill("### General skills\n- [g001] Look first: Look.\n- [t014] Go: Go there.")


class Expert:
    """Looks first, then goes where the text says; in one place it dances."""

    identity = "test:expert"

    def __init__(self, lost=(), says="{}"):
        self.lost, self.says = lost, says

    async def act_batch(self, contexts):
        acts = []
        for context in contexts:
            opening = next(m["content"] for m in context.messages if m["role"] == "user")
            place = opening.removeprefix("go to ")
            step = sum(m["role"] == "assistant" for m in context.messages)
            move = ["look", opening][step] if step < 2 else "wait"
            acts.append(Act(self.says.format("dance" if place in self.lost else move), Usage()))
        return acts


async def shown(expert, wanted):
    engine = LocalEngine(
        expert,
        lambda task: Errand(extras=dict(task.extras)),
        limits=Limits(max_turns=2, retries=0),
    )
    return await engine.run(wanted, SKILL)


async def test_only_wins_become_rows_and_all_is_counted():
    results = await shown(Expert(lost=["shelf"]), specs(tasks=4, draws=1))
    rows, coverage = demonstrations(CoinPolicy(), results, SKILL)
    assert len(rows) == coverage.rows == 6
    assert (coverage.episodes, coverage.wins, coverage.refused) == (4, 3, 0)
    assert coverage.by_type == {"going": 3}
    assert coverage.actions == {"look": 3, "go": 3}
    assert coverage.skill_blocks == 1
    assert coverage.skills_shown == {"g001": 3, "t014": 3}
    assert coverage.citation_rate == 0
    assert {row.old_logprobs for row in rows} == {(0.0,)}


async def test_citations_of_shown_skills_are_distinguished_from_made_up_ones():
    results = await shown(Expert(), specs(tasks=1, draws=1))
    turns = tuple(
        replace(turn, act=Act(said))
        for turn, said in zip(
            results[0].trajectory.turns, ["by [t014] look", "by [t014], [t099] go"], strict=True
        )
    )
    cited = replace(results[0], trajectory=replace(results[0].trajectory, turns=turns))
    free = HfPolicy(tiny_model(), tiny_tokenizer(), HfSettings(restrict=False))
    rows, coverage = demonstrations(free, [cited], SKILL)
    assert coverage.skills_cited == {"t014": 2}
    assert coverage.citation_rate == 1.0
    assert coverage.cited_unseen == 1
    assert len(rows) == 2


async def test_what_the_policy_cannot_say_is_counted_and_left_out():
    results = await shown(Expert(), specs(tasks=1, draws=1))
    trajectory = results[0].trajectory
    first = replace(trajectory.turns[0], act=Act("peek"))
    changed = replace(
        results[0], trajectory=replace(trajectory, turns=(first, trajectory.turns[1]))
    )
    rows, coverage = demonstrations(CoinPolicy(), [changed], SKILL)
    assert len(rows) == 1
    assert coverage.refused == 1


async def test_steps_are_counted_and_not_timed():
    results = await shown(Expert(), specs(tasks=4, draws=1))
    backend = CoinPolicy()
    rows, _ = demonstrations(backend, results, SKILL)
    seen_steps = []
    settings = SftSettings(steps=7, batch_rows=3, learning_rate=0.5)
    report = train(
        backend, rows, settings, seed=0, on_step=lambda *seen: seen_steps.append(seen[0])
    )
    assert seen_steps == list(range(7))
    assert len(report.losses) == backend.steps == 7
    assert report.losses[-1].surprise < report.losses[0].surprise


async def test_whole_episodes_stay_together_and_every_row_comes_once_in_a_pass():
    results = await shown(Expert(), specs(tasks=6, draws=1))
    backend = CoinPolicy()
    rows, _ = demonstrations(backend, results, SKILL)
    train(backend, rows, SftSettings(steps=3, batch_rows=4, rows="episodes"), seed=1)
    met = [(row.episode, row.turn) for batch in backend.seen for row in batch]
    assert sorted(met) == sorted((row.episode, row.turn) for row in rows)
    assert [turn for _, turn in met] == [0, 1] * 6
    assert met != [(row.episode, row.turn) for row in rows]


@pytest.mark.parametrize("form", ["steps", "trajectories"])
async def test_a_language_model_learns_to_do_what_was_shown(form):
    results = await shown(Expert(), specs(tasks=4, draws=2))
    settings = HfSettings(max_new_tokens=16, device="cpu", restrict=False)
    backend = HfPolicy(tiny_model(), tiny_tokenizer(), settings)
    rows, _ = demonstrations(backend, results, SKILL)
    steps = SftSettings(steps=40, batch_rows=8, learning_rate=1e-2, rows=form)
    report = train(backend, rows, steps, seed=0)
    assert report.losses[0].surprise > 2
    assert report.losses[-1].surprise < 0.1
    context = results[0].trajectory.turns[0].prompt

    (one,) = backend.sample([TurnContext(context, 0)], temperature=0.0)
    assert one.act.text == "look"
    assert one.act.finish_reason == "stop"


def test_nothing_to_learn_from_is_an_error():
    with pytest.raises(ConfigError, match="solved no episode"):
        train(CoinPolicy(), [], SftSettings(), seed=0)


def test_demonstrations_without_weight_are_nothing_to_learn_from():
    row = Row(None, (0,), (0.0,), (True,), "commands", weight=0.0)
    with pytest.raises(ConfigError, match="no demonstration to learn from"):
        train(CoinPolicy(), [row], SftSettings(), seed=0)


def test_a_cosine_rises_and_falls_to_nothing():
    rates = [Schedule(shape="cosine", warmup=0.1).rate(1.0, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([(n + 1) / 10 for n in range(10)])
    assert rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 0.001


@pytest.mark.parametrize("shape", ["cosine", "linear"])
def test_a_run_that_continues_beyond_its_steps_stays_at_the_floor(shape):
    schedule = Schedule(shape=shape, warmup=0.0, floor=0.25)
    assert [schedule.rate(2.0, step, 4) for step in (4, 5, 9)] == pytest.approx([0.5] * 3)


def test_a_line_falls_evenly_to_its_floor_and_a_constant_stays():
    line = Schedule(shape="linear", warmup=0.0, floor=0.5)
    assert [line.rate(2.0, step, 4) for step in range(4)] == [2.0, 1.75, 1.5, 1.25]
    assert {Schedule(shape="constant", warmup=0).rate(3.0, step, 9) for step in range(9)} == {3.0}


@pytest.mark.parametrize("wrong", [{"warmup": 1.0}, {"floor": 2.0}])
def test_shares_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Schedule(**wrong)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"batch_rows": 0}, {"learning_rate": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SftSettings(**wrong)
