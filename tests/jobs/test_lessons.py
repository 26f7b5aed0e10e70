"""Which lessons still help another model, which plays pairs of all val tasks."""

import re

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Walker,
    doors_config,
    llms,
    look,
    rule,
    trained,
    write_tasks,
)
from skillwright.core import Completion, ConfigError, ModelError, RunError
from skillwright.jobs.inspect import open_lessons, play_lessons
from skillwright.jobs.run import NullCallback

OTHER = ["models.target.noise=0.5"]


class Clever(Walker):
    """Knows the doors of the attic and the cellar without being told."""

    identity = "scripted:clever"

    async def complete(self, messages, **how):
        said = "\n".join(message["content"] for message in messages)
        if re.search(r"You are in the (attic|cellar|hall)\.", said):
            room = re.findall(r"You are in the (\w+)\.", said)[-1]
            return Completion({"attic": "4", "cellar": "2", "hall": "6"}[room])
        return await super().complete(messages, **how)


class Contrary(Clever):
    """Knows the doors, and takes another one than its skill says."""

    identity = "scripted:contrary"

    async def complete(self, messages, **how):
        is_told = "take door" in messages[0]["content"]
        return Completion("1") if is_told else await super().complete(messages, **how)


@pytest.fixture
async def run(tmp_path):
    """A run that accepted two changes, and refused one."""
    write_tasks(tmp_path / "tasks", train=18, val=72)
    config = doors_config(
        tmp_path,
        rollout={"retries": 0, "give_up_after": None},
        evaluation={"gate": {"kind": "paired"}},
    )
    plan = [[rule("attic")], [f"{rule('cellar')}\n{rule('hall')}"], [ALL_WRONG]]
    path, report = await trained(config, Walker(), Coach(plan))
    assert [one.action for one in report.state.steps] == [
        "accept_new_best",
        "accept_new_best",
        "reject",
    ]
    return path


async def played(run, target, overrides=OTHER):
    lessons = open_lessons(run, run.parent, None, overrides)
    with lessons.run:
        return await play_lessons(lessons, NullCallback(), llms(target))


async def test_the_model_of_the_run_needs_no_rollout_and_every_lesson_helps_it(run):
    agent = Walker()
    report = await played(run, agent)
    assert [one.accepted.where for one in report.lessons] == ["step 1", "step 2"]
    assert {one.outcome for one in report.lessons} == {"still helps"}
    assert (report.rollouts, agent.calls) == (0, [])
    for one in report.lessons:
        assert one.gain.gain == pytest.approx(one.accepted.verdict.effect)
        assert one.gain.effect.pairs == one.accepted.verdict.pairs


async def test_lessons_that_another_model_needs_no_more_or_is_hurt_by_are_said_so(run):
    clever, contrary = await played(run, Clever()), await played(run, Contrary())
    assert {one.outcome for one in clever.lessons} == {"no longer helps"}
    assert contrary.lessons[0].outcome == "hurts"
    assert contrary.lessons[1].outcome == "no longer helps"
    assert clever.target == "scripted:clever"
    assert clever.trained_with == "scripted:walker"


async def test_the_pairs_are_the_gates_own_and_are_kept_beside_the_run(run):
    with look(run) as store:
        before = store.counts()
        gate = {(one.task_id, one.draw, one.seed) for one in store.episodes(phase="gate")}
    report = await played(run, Clever())
    assert report.rollouts > 0
    assert report.folder.parent == run / "lessons"
    with look(report.folder) as store:
        ours = {(one.task_id, one.draw, one.seed) for one in store.episodes()}
        assert {one.agent for one in store.episodes()} == {"scripted:clever"}
    assert ours <= gate
    with look(run) as store:
        assert store.counts() == before  # nothing of the run itself changed
    again = await played(run, Clever())
    assert again.rollouts == 0
    assert [one.to_dict() for one in again.lessons] == [one.to_dict() for one in report.lessons]


async def test_failures_are_apart_and_too_many_leave_a_lesson_undecided(run):
    def fail(number):
        if number % 5 == 0:
            raise ModelError("no answer")

    report = await played(run, Hesitant(fail))
    assert {one.outcome for one in report.lessons} == {"undecided"}
    assert all(one.gain.effect.lost > 0 for one in report.lessons)
    assert "lost to failures" in report.lessons[0].to_dict()["problem"]


class Hesitant(Walker):
    """A walker that nothing is stored of."""

    identity = "scripted:hesitant"


def test_the_edits_of_a_lesson_are_said(run):
    lessons = open_lessons(run, run.parent, None, OTHER)
    with lessons.run:
        assert lessons.accepted[0].edits == (rule("attic"),)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], "--config FILE"),
        (["budget.usd=3"], "say which model"),
        ([*OTHER, "rollout.history_turns=3"], "rollout.history_turns"),
        (["models.target.nose=0.5"], "noise"),
    ],
)
def test_what_names_no_other_model_or_changes_more_is_refused(run, overrides, said):
    with pytest.raises(ConfigError, match=said):
        open_lessons(run, run.parent, None, overrides)
    assert not (run / "lessons").exists()


def test_a_training_of_weights_has_no_lessons(tmp_path):
    for name, text in (("run.sqlite", ""), ("config.yaml", "grpo: {}\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(RunError, match="trains no skill document"):
        open_lessons(tmp_path, tmp_path.parent, None, OTHER)


async def test_lessons_are_drawn_on_all_val_tasks_where_the_gate_drew_few(tmp_path):
    plan = [[rule("attic")], [f"{rule('cellar')}\n{rule('hall')}"]]
    path, report = await trained(doors_config(tmp_path), Walker(), Coach(plan))
    assert [one.action for one in report.state.steps] == ["accept", "accept"]
    with look(path) as store:
        val = {one.task_id for one in store.episodes() if one.split == "val"}
    tested = await played(path, Walker())
    assert [one.accepted.where for one in tested.lessons] == ["step 1", "step 2"]
    for one in tested.lessons:
        assert one.gain.effect.pairs == 2 * len(val) > one.accepted.verdict.rollouts
        assert one.gain.gain > 0
    drawn = sum(one.accepted.verdict.rollouts for one in tested.lessons)
    assert tested.rollouts <= 8 * len(val) - drawn  # those that the gate drew are reused


async def test_a_run_that_accepted_nothing_has_no_lessons(tmp_path):
    path, _ = await trained(doors_config(tmp_path), Walker(), Coach([]), skill=ALL_RULES)
    with pytest.raises(ConfigError, match="no lesson"):
        open_lessons(path, path.parent, None, OTHER)
