"""A recorded episode is continued: its first turns are repeated, the rest is played anew."""

import pytest

from doors import Walker, doors_config, evaluated, llms, look, rule
from skillwright.core import ConfigError, ModelError, RunError
from skillwright.jobs.inspect import plan_fork, read_fork, read_run, replay_run
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import EvalPlan, open_run, run_evaluation
from somebodys import Chosen, adapter_config
from tau_models import Clerk, shop, tau_config, tau_evaluated
from tau_store import tool_call

SEVEN = {"env": {"max_turns": 7}}


@pytest.fixture
async def run(tmp_path):
    """A run whose agent guesses doors, seven times at most."""
    config = doors_config(tmp_path, **SEVEN)
    path, _ = await evaluated(config, EvalPlan("test", 1), Walker(), skill="Keep calm.")
    return path


def lost(path):
    """Name an episode that took all its turns."""
    with look(path) as store:
        return f"e{next(one.id for one in store.episodes() if one.turns > 4)}"


async def forked(path, episode, turn, target=None, skill=None, trials=4):
    planned = plan_fork(path, episode, turn, skill, trials, root=path.parent)
    with planned.start() as run:
        made = llms(target or Walker())
        report = await run_evaluation(run, planned.plan, NullCallback(), made)
        return run.folder.path, report


def turns_of(path):
    with look(path) as store:
        return {
            one.draw: store.load_episode(one.id).trajectory.turns
            for one in store.episodes(phase="fork")
        }


async def test_the_first_turns_are_those_of_the_record_and_the_rest_differs(run):
    name = lost(run)
    agent = Walker()
    path, report = await forked(run, name, 3, agent)
    with look(run) as store:
        record = store.load_episode(int(name[1:])).trajectory.turns
    continued = turns_of(path)
    assert sorted(continued) == [0, 1, 2, 3]
    for turns in continued.values():
        assert [one.act.text for one in turns[:3]] == [one.act.text for one in record[:3]]
        assert [one.observation for one in turns[:3]] == [one.observation for one in record[:3]]
        assert turns[0].prompt == record[0].prompt  # with the skill of the record
    assert len({tuple(one.act.text for one in turns[3:]) for turns in continued.values()}) > 1
    assert report.table.overall.episodes == 4
    # Only what was played anew is paid for.
    played = sum(len(turns) - 3 for turns in continued.values())
    assert len(agent.calls) == played
    assert report.usage["rollout"].calls == played


async def test_another_skill_takes_over_from_there(run):
    name = lost(run)
    with look(run) as store:
        room = store.load_episode(int(name[1:])).spec.task.extras["room"]
    path, report = await forked(run, name, 3, skill=rule(room))
    assert report.table.overall.success_rate == 1.0
    outcome = read_fork(path)
    assert outcome.recorded.summary.phase == "recorded"
    assert [one.summary.turns for one in outcome.continuations] == [4] * 4
    assert {one.solved for one in outcome.continuations} == {True}


async def test_a_fork_says_where_it_comes_from_and_its_episodes_are_replayed(run):
    path, _ = await forked(run, lost(run), 2)
    summary = read_run(path)
    assert summary.fork.run == str(run)
    assert (summary.fork.episode, summary.fork.turn) == (lost(run), 2)
    assert replay_run(path).equal == 5
    grandchild, _ = await forked(path, "e2", 1, trials=2)
    assert replay_run(grandchild).equal == 3
    assert grandchild.name == "doors-fork-fork"


async def test_the_same_fork_comes_out_the_same_and_another_turn_has_other_seeds(run):
    def story(path):
        with look(path) as store:
            return sorted((one.draw, one.seed, one.key) for one in store.episodes(phase="fork"))

    first, second = [(await forked(run, lost(run), 2))[0] for _ in range(2)]
    other, _ = await forked(run, lost(run), 1)
    assert first.name != second.name
    assert story(first) == story(second)
    assert not {one[1] for one in story(first)} & {one[1] for one in story(other)}


async def test_a_fork_that_was_stopped_goes_on_and_plays_nothing_twice(run):
    whole, _ = await forked(run, lost(run), 3)

    def dies(number):
        if number == 6:
            raise RuntimeError("killed")

    planned = plan_fork(run, lost(run), 3, trials=4, root=run.parent)
    with planned.start() as begun:
        path, made = begun.folder.path, llms(Walker(dies))
        with pytest.raises((RuntimeError, ExceptionGroup)):
            await run_evaluation(begun, planned.plan, NullCallback(), made)
    (run / "run.sqlite").unlink()  # the fork has what it needs
    with open_run(path) as again:
        assert again.plan == planned.plan
        await run_evaluation(again, again.plan, NullCallback(), llms(Walker()))
    assert turns_of(path) == turns_of(whole)


async def test_a_fault_is_a_failure_and_no_score(run):
    def dies(number):
        if number <= 3:
            raise ModelError("503")

    with look(run) as store:
        draws = store.episode(int(lost(run)[1:])).turns
    planned = plan_fork(run, lost(run), draws - 1, trials=3, root=run.parent)
    with planned.start() as begun:
        made = llms(Walker(dies))
        with_faults = await run_evaluation(begun, planned.plan, NullCallback(), made)
    assert with_faults.table.overall.failures == 0  # three retries were enough
    assert with_faults.usage["rollout"].failed_calls == 3


async def test_an_episode_that_a_fault_ended_is_continued_where_it_stopped(tmp_path):
    def dies(number):
        if number == 3:
            raise ModelError("503")

    config = doors_config(tmp_path, **SEVEN, rollout={"retries": 0, "max_concurrent": 1})
    path, _ = await evaluated(config, EvalPlan("test", 1), Walker(dies), skill="Keep calm.")
    with look(path) as store:
        (failed,) = [one for one in store.episodes() if one.failure]
    assert failed.turns > 0
    fork, report = await forked(path, f"e{failed.id}", failed.turns)
    assert report.table.overall.episodes == 4
    assert read_fork(fork).recorded.solved is None


@pytest.mark.parametrize(
    ("turn", "said"), [(7, "is over after turn 6"), (8, "turns 0 to 6, so none of them is turn 8")]
)
def test_a_turn_that_does_not_continue_is_refused(run, turn, said):
    with pytest.raises(RunError, match=said):
        plan_fork(run, lost(run), turn, root=run.parent)


def test_an_environment_that_would_not_repeat_the_first_turns_is_refused(run):
    with pytest.raises(RunError, match=r"turn 3, metadata.truncated: 'false' then, 'true' now"):
        plan_fork(run, lost(run), 5, root=run.parent, overrides=["env.max_turns=4"])
    assert plan_fork(run, lost(run), 3, root=run.parent, overrides=["env.max_turns=4"])
    with pytest.raises(ConfigError, match="no_such"):
        plan_fork(run, lost(run), 3, root=run.parent, overrides=["env.no_such=4"])


async def test_what_an_adapter_played_is_refused(tmp_path):
    path, _ = await evaluated(adapter_config(tmp_path, Chosen), EvalPlan("test", 1), Walker())
    with pytest.raises(RunError, match="plays by itself"):
        plan_fork(path, "e1", 0, root=path.parent)


async def test_a_simulated_user_continues_the_conversation_of_the_record(tmp_path):
    data = shop(tmp_path / "shop", count=2)
    replies = ["Hello, it is about my order.", "Number one.", "Number two.", "Number three."]
    config = tau_config(tmp_path, data, user_replies=replies)
    talks = ["Which one?", tool_call("think", thought="?"), "Sure?", "Really?", "Bye."]
    path, _ = await tau_evaluated(config, EvalPlan("test", 1), Clerk(turns=talks))
    planned = plan_fork(path, "e1", 3, trials=2, root=path.parent)
    with planned.start() as begun:
        fork = begun.folder.path
        made = llms(Clerk(turns=[*talks[:3], "Anything more?", "Good bye."]))
        await run_evaluation(begun, planned.plan, NullCallback(), made)
    for turns in turns_of(fork).values():
        assert [one.observation for one in turns if one.metadata.get("source") == "user"] == [
            "Number one.",
            "Number two.",
            "Number three.",
            "###STOP###",
        ]
        assert turns[3].act.text == "Anything more?"
