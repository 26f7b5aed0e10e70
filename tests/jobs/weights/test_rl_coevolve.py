"""Skills and weights under one gate: policy steps that lose are taken back."""

import asyncio
from dataclasses import replace

import pytest

from rl_world import (
    Notebook,
    Obedient,
    ObedientMaker,
    Stopped,
    Tutor,
    lanes_config,
    recipe,
    resumed,
    rule,
    story,
    write_tasks,
)
from skillwright.core import ConfigError
from skillwright.evaluation import Decision
from skillwright.jobs.run import EpisodeFinished, StageStarted
from skillwright.jobs.weights import IterationEnded, PolicyJudged, coevolving, restore
from skillwright.policy import Sampled
from skillwright.runs import RunStore


class Wavering(Obedient):
    """Reinforcement spoils it in some iterations, and no step undoes that: it takes a wrong door.

    Args:
        bad: The passes over rows that spoil it.
    """

    def __init__(self, bad=(), on_learn=lambda number: None):
        super().__init__(on_learn)
        self._bad, self.spoilt, self.learned = set(bad), 0, 0

    @property
    def identity(self):
        return f"wavering:{self.steps}:{self.spoilt}"

    def sample(self, contexts, *, temperature):
        sampled = super().sample(contexts, temperature=temperature)
        return [self._turned(one) for one in sampled] if self.spoilt else sampled

    def _turned(self, sampled):
        act = sampled.act
        door = int(act.text[-1]) % 4 + 1
        return Sampled(
            type(act)(f"take door {door}", token_ids=(door - 1,), logprobs=(-1.0,)), sampled.row
        )

    def forward_backward(self, rows, loss):
        if self.reference:
            self.learned += 1
            self.spoilt += self.learned in self._bad
        return super().forward_backward(rows, loss)

    def state(self):
        return {**super().state(), "spoilt": self.spoilt, "learned": self.learned}

    def load(self, state):
        super().load(state)
        self.spoilt, self.learned = state["spoilt"], state["learned"]


def config_of(folder, **sections):
    folder.mkdir(exist_ok=True)
    if not (folder / "tasks").is_dir():
        write_tasks(folder / "tasks", val=24)
    grpo = {"gate_every": 2, "iterations": 6, **sections.pop("grpo", {})}
    evaluation = {"gate": {"kind": "explore"}, "select": "last", **sections.pop("evaluation", {})}
    return lanes_config(folder, grpo=grpo, evaluation=evaluation, **sections)


async def played(folder, callback=None, bad=(), **sections):
    config = config_of(folder, **sections)
    maker = ObedientMaker(config, Wavering(bad))
    return config, *(await recipe(config, callback, maker=maker))


async def test_weights_that_lose_are_taken_back_and_each_step_has_its_verdict(tmp_path):
    notes = Notebook()
    # The second update of each policy step spoils the policy.
    config, path, report = await played(tmp_path, notes, bad=[2], evolve=None)
    state, steps = report.state, report.state.policy_steps
    assert list(steps) == [2, 4, 6]
    assert [one.since for one in steps.values()] == [0, 2, 4]
    assert {one.verdict.decision for one in steps.values()} == {Decision.REJECT}
    assert all(one.verdict.effect < -0.5 for one in steps.values())
    assert all(one.candidate.endswith(":1") for one in steps.values())
    # What comes after begins where the last kept step ended: nothing is left of the spoilt weights.
    assert {one.before for one in steps.values()} == {state.cold_start["policy"]}
    assert [one.record for one in notes.of(PolicyJudged)] == list(steps.values())
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        kept = [one for one in store.verdicts() if one.origin == "policy"]
        assert [(one.step, one.body) for one in kept] == [
            (number, one.verdict.to_dict()) for number, one in steps.items()
        ]
        assert restore(config, store) == state
    assert {one.policy for one in state.validations.values()} == {state.cold_start["policy"]}
    assert {one.success for one in state.validations.values()} == {state.validations[0].success}


class Growing(Obedient):
    """Every optimizer step of reinforcement teaches it another room."""

    ROOMS = ("attic", "cellar", "hall")

    def sample(self, contexts, *, temperature):
        first = int(self.reference.rsplit(" ", 1)[1]) if self.reference else self.steps
        known = self.ROOMS[: self.steps - first]
        given = [self._helped(one, known) for one in contexts]
        return super().sample(given, temperature=temperature)

    def _helped(self, context, known):
        return replace(context, skill="\n".join([context.skill, *map(rule, known)]))


async def test_weights_that_gain_are_kept_and_the_run_ends_with_them(tmp_path):
    config = config_of(tmp_path, evolve=None, grpo={"iterations": 4})
    tutor = Tutor(first=())
    _, report = await recipe(config, maker=ObedientMaker(config, Growing()), tutor=tutor)
    steps = report.state.policy_steps
    assert steps[2].verdict.accepted
    assert steps[2].verdict.reason.startswith("Accepted as current")
    assert steps[4].before == steps[2].candidate
    assert report.state.release.accepted
    assert report.state.ledger.made == 0  # a proof leaves its alpha for the next claim


async def test_draws_are_fresh_after_each_accepted_change_of_bank_or_weights(tmp_path):
    config = config_of(tmp_path, evolve={"every": 2}, grpo={"iterations": 4})
    tutor = Tutor(first=(), later=(("attic",), ("cellar",)))
    path, report = await recipe(config, maker=ObedientMaker(config, Growing()), tutor=tutor)
    state, draws = report.state, config.evaluation.gate.draws
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        played = store.episodes(phase="gate")
    accepted, first = 0, {}
    for number in (2, 4):
        first[number] = min(one.draw for one in played if one.step == number)
        accepted += state.policy_steps[number].verdict.accepted
        accepted += state.evolutions[number].action == "accept"
    assert first == {2: 1, 4: 1 + draws * (state.accepts - (accepted - _accepts(state, 2)))}
    assert state.policy_steps[2].verdict.accepted


def _accepts(state, number):
    steps = state.policy_steps[number].verdict.accepted
    return steps + (state.evolutions[number].action == "accept")


async def test_each_decision_of_a_gate_that_proves_has_its_share_of_one_alpha(tmp_path):
    config, _, report = await played(
        tmp_path, evolve={"every": 2}, evaluation={"gate": {"kind": "paired"}}
    )
    assert config.policy_steps == config.evolutions == 3
    assert report.state.ledger.planned == 6
    judged = [one.alpha for one in report.state.verdicts]
    assert all(one in (None, pytest.approx(0.05 / 6)) for one in judged)
    assert report.state.ledger.made == sum(one is not None for one in judged)


async def test_the_last_iterations_are_a_step_too(tmp_path):
    config, _, report = await played(tmp_path, evolve=None, grpo={"iterations": 5})
    assert config.policy_steps == 3
    assert list(report.state.policy_steps) == [2, 4, 5]


async def test_without_the_key_nothing_is_judged_but_the_bank(tmp_path):
    notes = Notebook()
    config, _, report = await played(tmp_path, notes, evolve=None, grpo={"gate_every": None})
    assert (config.policy_steps, report.state.policy_steps) == (0, {})
    assert "policy gate" not in [one.stage for one in notes.of(StageStarted)]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
async def test_a_run_that_is_stopped_while_weights_are_judged_ends_as_one_that_is_not(
    tmp_path, share
):
    whole = Notebook()
    await played(tmp_path / "whole", whole, bad=[2], evolve={"every": 2})
    in_it = [
        number
        for number, event in enumerate(whole.events, start=1)
        if (isinstance(event, EpisodeFinished) and event.result.spec.phase == "gate")
        or isinstance(event, PolicyJudged)
    ]
    moment = in_it[round(share * (len(in_it) - 1))]
    config = config_of(tmp_path / "part", evolve={"every": 2})
    maker = ObedientMaker(config, Wavering([2]))
    with pytest.raises(Stopped):
        await recipe(config, Notebook(stop_at=moment), maker=maker)
    path = tmp_path / "part" / "runs" / "lanes"
    report = await resumed(path, maker=ObedientMaker(config, Wavering([2])))
    assert report.state.finished
    assert story(path) == story(tmp_path / "whole" / "runs" / "lanes")


async def test_a_damaged_checkpoint_costs_no_more_than_the_way_from_the_one_before(tmp_path):
    sections = {"evolve": None, "evaluation": {"select": "best", "val_every": 3}}
    whole = Notebook()
    config, whole_path, done = await played(tmp_path / "whole", whole, bad=[4], **sections)
    assert [one.verdict.accepted for one in done.state.policy_steps.values()][1] is False
    after = next(
        number
        for number, event in enumerate(whole.events, start=1)
        if isinstance(event, IterationEnded) and event.record.iteration == 5
    )
    config = config_of(tmp_path / "part", **sections)
    maker = ObedientMaker(config, Wavering([4]))
    with pytest.raises(Stopped):
        await recipe(config, Notebook(stop_at=after), maker=maker)
    path = tmp_path / "part" / "runs" / "lanes"
    latest = path / "checkpoints" / "iteration_00004.ckpt"
    latest.write_bytes(latest.read_bytes()[:-1])
    report = await resumed(path, maker=ObedientMaker(config, Wavering([4])))
    assert report.state.finished
    assert story(path) == story(whole_path)


def test_any_number_of_episodes_at_once_gives_the_same_run(tmp_path):
    stories = []
    for slots in (1, 64):
        config = config_of(tmp_path / str(slots), rollout={"max_concurrent": slots})
        path, _ = asyncio.run(recipe(config, maker=ObedientMaker(config, Growing())))
        stories.append(story(path))
    assert stories[0] == stories[1]


def test_a_network_of_its_own_is_judged_the_same_twice(tmp_path):
    stories = []
    for name in ("one", "two"):
        path, report = asyncio.run(recipe(config_of(tmp_path / name)))
        stories.append(story(path))
        assert list(report.state.policy_steps) == [2, 4, 6]
        assert not (path / "checkpoints" / "candidate.ckpt").exists()
    assert stories[0] == stories[1]


def test_coevolve_judges_weights_as_often_as_the_bank_unless_it_is_told(tmp_path):
    config = config_of(tmp_path, evolve={"every": 3}, grpo={"gate_every": None})
    assert coevolving(config).grpo.gate_every == 3
    told = config_of(tmp_path, evolve={"every": 3}, grpo={"gate_every": 1})
    assert coevolving(told) == told


@pytest.mark.parametrize(
    ("evolve", "why"), [(None, "evolve is null"), ({"every": 9}, r"evolve\.every is above")]
)
def test_without_changes_of_the_bank_there_are_no_turns(tmp_path, evolve, why):
    with pytest.raises(ConfigError, match=f"coevolve changes bank and weights in turns, and {why}"):
        coevolving(config_of(tmp_path, evolve=evolve))
