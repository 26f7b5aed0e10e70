"""Groups, what leaves them, and the update."""

from dataclasses import replace

import pytest
import torch

from policy.errands import played, specs
from policy.fake_policies import CoinPolicy
from skillwright.core import (
    Act,
    ContractError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from skillwright.policy import (
    AdvantageSettings,
    GroupSettings,
    GroupTooSmall,
    GrpoObjective,
    GrpoSettings,
    ReferenceMissing,
    RewardInvalid,
    Row,
    StepAdvantage,
    check_reference,
    teach,
    update,
)
from skillwright.policy.update import dealt

PLAIN = GroupSettings(size=2, penalty=0.01)
FREE = GrpoObjective(kl_weight=0.0)


def episode(task, reward, actions=("look",), *, draw=0, stop=StopReason.DONE, offered=None):
    metadata = {} if offered is None else {"admissible_commands": offered}
    turns = tuple(
        Turn(index, (), Act(action, token_ids=(index,)), f"saw {index}", 0.0, metadata)
        for index, action in enumerate(actions)
    )
    return EpisodeResult(
        spec=EpisodeSpec(Task(task, "errand"), seed=draw, draw=draw),
        reward=reward,
        failure=Failure(FailureCause.MODEL, "503") if reward is None else None,
        stop_reason=stop,
        trajectory=Trajectory("opening", turns, metadata),
    )


def rows_of(result):
    return [
        Row(None, (turn.index % 5,), (-1.6,), (True,), "commands", turn=turn.index, group="")
        for turn in result.trajectory.turns
    ]


def taught(results, settings=PLAIN):
    return teach(results, rows_of, settings)


def test_every_turn_has_the_advantage_of_its_episode():
    rows, report = taught([episode("a", 1.0, ["x", "y"]), episode("a", 0.0, ["x"], draw=1)])
    assert [row.advantage for row in rows] == pytest.approx([0.70710578, 0.70710578, -0.70710578])
    assert {row.group for row in rows} == {"a"}
    assert (report.groups, report.episodes, report.zero_variance) == (1, 2, 0)


def test_a_group_of_equal_outcomes_is_counted_and_never_read():
    rows, report = taught([episode("a", 1.0, draw=n) for n in range(4)])
    assert rows == []
    assert report.zero_variance_share == 1.0
    backend = CoinPolicy()
    assert update(backend, rows, GrpoSettings(objective=FREE), seed=0).steps == ()
    assert backend.seen == []


def test_a_failure_leaves_its_group_and_the_rest_is_compared():
    results = [episode("a", 1.0), episode("a", None, draw=1), episode("a", 0.0, draw=2)]
    rows, report = taught(results, replace(PLAIN, size=3))
    assert [row.advantage for row in rows] == pytest.approx([0.70710578, -0.70710578])
    assert report.failures == 1


def test_a_lone_survivor_is_dropped_and_counted():
    rows, report = taught([episode("a", 1.0), episode("a", None, draw=1)])
    assert rows == []
    assert (report.lone, report.episodes, report.rewards) == (1, 0, (1.0,))


def test_a_truncated_episode_failed_its_task_and_is_counted_apart():
    cut = episode("a", 0.7, draw=1, stop=StopReason.MAX_TURNS)
    rows, report = taught([episode("a", 0.7), cut])
    assert report.rewards == (0.7, 0.0)
    assert report.truncated == 1
    assert rows[1].advantage < 0 < rows[0].advantage


def test_one_malformed_action_among_losers_costs_its_penalty_and_no_more():
    results = [episode("a", 0.0, ["x"] * 50, draw=n, offered=["x"]) for n in range(7)]
    results.append(episode("a", 0.0, ["x"] * 49 + ["nonsense"], draw=7, offered=["x"]))
    rows, report = taught(results, replace(PLAIN, size=8))
    assert [row.advantage for row in rows] == [-0.01]
    assert rows[0].turn == 49
    assert (report.malformed, report.zero_variance) == (1, 1)


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("step_advantage", [None, StepAdvantage()])
def test_an_episode_that_was_cut_before_its_first_turn_is_a_loss_without_rows(
    leave_one_out, step_advantage
):
    cut = episode("a", 0.0, [], draw=1, stop=StopReason.CONTEXT)
    advantage = AdvantageSettings(leave_one_out=leave_one_out)
    settings = replace(PLAIN, advantage=advantage, step_advantage=step_advantage)
    rows, report = taught([episode("a", 1.0), cut], settings)
    assert [row.advantage > 0 for row in rows] == [True]
    assert (report.episodes, report.truncated) == (2, 1)


def test_tags_around_an_action_do_not_make_it_malformed():
    said = "<think>hm</think><action>x</action>"
    _, report = taught([episode("a", 0.0, [said], draw=n, offered=["x"]) for n in range(2)])
    assert report.malformed == 0


def test_the_step_advantage_is_added():
    results = [
        episode("a", 1.0, ["x", "y"]),
        episode("a", 0.0, ["x", "z"], draw=1),
    ]
    solved = results[0]
    last = replace(solved.trajectory.turns[1], reward=1.0)
    turns = (solved.trajectory.turns[0], last)
    results[0] = replace(solved, trajectory=replace(solved.trajectory, turns=turns))
    plain, _ = taught(results)
    rows, _ = taught(results, replace(PLAIN, step_advantage=StepAdvantage(weight=2.0)))
    more = [row.advantage - was.advantage for row, was in zip(rows, plain, strict=True)]
    assert more == pytest.approx([1.41421, 1.41421, -1.41421, -1.41421], rel=1e-4)


def test_episodes_of_a_group_have_the_same_skills():
    results = [episode("a", 1.0), replace(episode("a", 0.0, draw=1), skill_version="other")]
    with pytest.raises(ContractError, match="retrieve once per task"):
        taught(results)


def test_a_reward_that_is_no_number_stops_the_update():
    broken = episode("a", 1.0)
    object.__setattr__(broken, "reward", float("nan"))
    with pytest.raises(RewardInvalid):
        taught([broken, episode("a", 0.0, draw=1)])


def test_a_group_of_one_is_refused_when_it_is_configured():
    with pytest.raises(GroupTooSmall, match="group_size is 1"):
        GroupSettings(size=1)


def test_rows_are_dealt_once_and_evenly():
    rows = [replace(rows_of(episode("a", 1.0))[0], turn=n) for n in range(23)]
    batches = list(dealt(rows, 5, seed=3))
    assert sorted(len(batch) for batch in batches) == [4, 4, 5, 5, 5]
    assert sorted(row.turn for batch in batches for row in batch) == list(range(23))
    assert batches == list(dealt(rows, 5, seed=3))
    assert batches != list(dealt(rows, 5, seed=4))
    assert list(dealt(rows, None, seed=3)) == [rows]


def test_each_epoch_reads_every_row_once():
    backend = CoinPolicy()
    rows, _ = taught([episode("a", float(n == 0), ["x"] * 6, draw=n) for n in range(4)])
    settings = GrpoSettings(objective=FREE, learning_rate=0.1, epochs=3, minibatch_rows=8)
    report = update(backend, rows, settings, seed=1)
    assert len(report.steps) == 9
    assert sum(len(batch) for batch in backend.seen) == 3 * len(rows)
    assert report.total().rows == 3 * len(rows)
    assert report.losses[0].drift < report.losses[-1].drift
    assert set(backend.rates) == {0.1}


def test_padding_is_dealt_to_no_step():
    rows = [row for result in (episode("a", 1.0, "xyz"),) for row in rows_of(result)]
    padding = [replace(row, weight=0.0) for row in rows] * 3
    settings = GrpoSettings(objective=FREE, learning_rate=0.1, minibatch_rows=2)
    report = update(CoinPolicy(), [*rows, *padding], settings, seed=0)
    assert [loss.rows for loss in report.losses] == [2, 1]
    assert update(CoinPolicy(), padding, settings, seed=0).steps == ()


def test_an_update_is_the_same_for_the_same_seed():
    rows, _ = taught([episode("a", float(n == 0), ["x"] * 6, draw=n) for n in range(4)])
    settings = GrpoSettings(objective=FREE, learning_rate=0.1, epochs=2, minibatch_rows=4)
    ended = []
    for seed in (1, 1, 2):
        backend = CoinPolicy()
        update(backend, rows, settings, seed=seed)
        ended.append(backend.likes.detach())
    assert torch.equal(ended[0], ended[1])
    assert not torch.equal(ended[0], ended[2])


async def test_playing_and_learning_raises_the_wins():
    backend = CoinPolicy()
    backend.freeze_reference()
    settings = GrpoSettings(objective=GrpoObjective(kl_weight=0.001), learning_rate=2.0, epochs=2)
    shares = []
    for round_ in range(25):
        results, agent = await played(backend, specs(tasks=1, draws=12, seed=round_))
        rows, report = teach(results, agent.rows, GroupSettings(size=12))
        update(backend, rows, settings, seed=round_)
        shares.append(sum(report.rewards) / 12)
    assert sum(shares[-5:]) / 5 > sum(shares[:5]) / 5 + 0.2
    assert sum(shares[-5:]) / 5 > 0.9


def test_a_divergence_needs_the_reference_that_was_agreed():
    backend = CoinPolicy()
    with pytest.raises(ReferenceMissing, match="freeze_reference"):
        update(backend, [], GrpoSettings(), seed=0)
    digest = backend.freeze_reference()
    check_reference(backend, digest)
    with pytest.raises(ReferenceMissing, match="the cold start ended with"):
        check_reference(backend, "another")


@pytest.mark.parametrize("wrong", [{"learning_rate": 0}, {"epochs": 0}, {"minibatch_rows": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GrpoSettings(**wrong)
