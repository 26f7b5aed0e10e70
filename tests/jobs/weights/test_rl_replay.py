"""Episodes that policies played are replayed as others are."""

import pytest

from rl_world import lanes_config, recipe
from skillwright.core import RunError
from skillwright.jobs.inspect import plan_fork, replay_run
from skillwright.runs import RunStore


def episodes_of(path):
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        return store.episodes()


async def test_everything_that_the_recipe_recorded_is_replayed(tmp_path):
    config = lanes_config(
        tmp_path,
        grpo={"iterations": 2, "keep_rollouts": True},
        distill={"max_turns": 3},
    )
    path, _ = await recipe(config)
    episodes = episodes_of(path)
    assert {"base", "expert", "grpo", "val", "test"} <= {one.phase for one in episodes}
    report = replay_run(path)
    assert (report.equal, report.differing) == (len(episodes), 0)


def test_an_episode_of_a_policy_is_not_forked_and_says_why(whole):
    with pytest.raises(RunError, match="whose policies act with weights of their"):
        plan_fork(whole["path"], "e1", 0, root=whole["path"].parent)
