"""What a section is worth: useful ones are kept, useless ones proposed for deletion, none by luck.

The agents walk through doors (`doors`): one obeys its skill, one also errs at random.
"""

import json
from contextlib import contextmanager

import pytest

from doors import ROOMS, Coach, Walker, doors_config, llms, look, rule, trained, write_tasks
from skillwright.core import Completion, ConfigError, ModelError, ModelRefused
from skillwright.core.jsonio import digest
from skillwright.evaluation import RELEASE_DRAWS_FROM, bound_gain
from skillwright.jobs.inspect import (
    ABLATION_NAME,
    AblationPlan,
    SectionValue,
    ablate,
    find_skill,
    plan_ablation,
    plan_fork,
    split_document,
)
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import open_run, run_evaluation

VAL = 90
USELESS = "Stay calm, and keep a cheerful attitude."
SKILL = "\n\n".join(
    [
        f"## Doors\n{rule('attic')}\n{rule('cellar')}",
        f"## Manners\n{USELESS}",
        f"## Last\n{rule('hall')}",
    ]
)
PLAN = AblationPlan()


class Erring(Walker):
    """Also takes any door, in a tenth of its turns, whatever its skill says: by seed and prompt."""

    identity = "scripted:walker errs"

    async def complete(self, messages, **how):
        answer = await super().complete(messages, **how)
        lot = int(digest([how["sampling"].seed, list(messages)])[:8], 16)
        return answer if lot % 10 else Completion(str(1 + lot // 10 % 6), usage=answer.usage)


@pytest.fixture
def config(tmp_path):
    write_tasks(tmp_path / "tasks", val=VAL)
    return doors_config(tmp_path, rollout={"retries": 0, "give_up_after": None})


@contextmanager
def planned(path, plan=PLAN):
    skill = find_skill(str(path))
    with open_run(path) as run:
        yield plan_ablation(run, skill, plan)


async def ablated(path, target, plan=PLAN):
    with planned(path, plan) as work:
        return await ablate(work, NullCallback(), llms(target))


def proposals(found):
    return {part.title: one.proposal for one in found.sections for part in one.sections}


@pytest.mark.parametrize("agent", [Walker, Erring])
async def test_a_useful_section_is_kept_and_a_planted_one_proposed_for_deletion(config, agent):
    path, _ = await trained(config, agent(), Coach([]), skill=SKILL)
    found = await ablated(path, agent())
    assert proposals(found) == {"Doors": "keep", "Manners": "delete", "Last": "keep"}
    assert found.sections[0].value > found.sections[2].value > 0.15
    assert abs(found.sections[1].value) < 0.05
    for one in found.sections:
        assert one.interval[0] < one.value < one.interval[1]
        assert (one.gain.effect.pairs, one.gain.effect.lost) == (2 * VAL, 0)
    assert found.shorter == SKILL.replace(f"## Manners\n{USELESS}\n\n", "")


async def test_the_file_in_the_runs_folder_has_what_the_pages_read(config):
    path, _ = await trained(config, Walker(), Coach([]), skill=SKILL)
    found = await ablated(path, Walker())
    written = json.loads((path / ABLATION_NAME).read_text())
    assert set(written) == {"skill", "skill_version", "split", "sections"}
    assert (written["skill"], written["split"]) == ("best_skill.md", "val")
    with look(path) as store:
        assert written["skill_version"] in {one.hash for one in store.skills()}
        assert written["skill_version"] in {one.skill_version for one in store.episodes()}
    first = written["sections"][0]
    assert list(first) == [
        *("title", "first_line", "last_line", "value", "interval", "pairs", "lost", "proposal"),
    ]
    assert (first["title"], first["first_line"], first["last_line"]) == ("Doors", 1, 3)
    assert first["value"] == found.sections[0].value


async def test_what_the_run_played_pairs_and_a_second_call_plays_nothing(config):
    path, _ = await trained(config, Walker(), Coach([["Be quick."]]), skill=SKILL)
    with planned(path) as work:
        assert work.stored >= VAL  # the gate's draws of the skill that is current
        expected = work.to_play
    first, agent = await ablated(path, Walker()), Walker()
    assert first.rollouts == expected
    again = await ablated(path, agent)
    assert (again.rollouts, agent.calls) == (0, [])
    assert again.to_dict() == first.to_dict()
    with planned(path) as work:
        assert work.to_play == 0


async def test_an_ablation_that_was_stopped_continues_with_what_it_played(config):
    path, _ = await trained(config, Walker(), Coach([]), skill=SKILL)

    def stop(number):
        if number > 100:
            raise ModelRefused("the key is refused")

    with pytest.raises(ModelRefused):
        await ablated(path, Walker(stop))
    assert not (path / ABLATION_NAME).exists()
    with planned(path) as work:
        left = work.to_play
        assert left < 4 * 2 * VAL - work.plan.draws
    found = await ablated(path, Walker())
    assert found.rollouts == left


async def test_no_test_task_is_played_and_the_release_draws_are_not_extended(config):
    path, _ = await trained(config, Walker(), Coach([]), skill=SKILL)
    with look(path) as store:
        before = [one.id for one in store.episodes(split="test")]
    await ablated(path, Walker(), AblationPlan(joint=True))
    with look(path) as store:
        assert [one.id for one in store.episodes(split="test")] == before
        played = store.episodes(phase="ablation")
        assert {one.split for one in played} == {"val"}
        assert not [one for one in played if 0 <= one.draw - RELEASE_DRAWS_FROM < 1_000_000]


async def test_of_sections_that_say_the_same_not_all_may_go(config):
    twice = "\n\n".join([f"## A\n{_all()}", f"## B\n{_all()}", f"## C\n{USELESS}"])
    path, _ = await trained(config, Walker(), Coach([]), skill=twice)
    found = await ablated(path, Walker(), AblationPlan(joint=True))
    assert set(proposals(found).values()) == {"delete"}  # each is there once more
    assert found.joint.proposal == "keep"
    assert found.joint.value > 0.5
    with look(path) as store:
        ours = store.episodes(phase="ablation")
        assert len({one.draw for one in ours if one.draw >= 3_000_000}) == 4


def _all():
    return "\n".join(map(rule, ROOMS))


async def test_lost_pairs_are_counted_and_too_many_of_them_prove_nothing(config):
    path, _ = await trained(config, Walker(), Coach([]), skill=SKILL)

    def fail(number):
        if number % 4 == 0:
            raise ModelError("no answer")

    found = await ablated(path, Walker(fail))
    assert {one.proposal for one in found.sections} == {"undecided"}
    assert all(one.gain.effect.lost > 0 for one in found.sections)
    assert "lost to failures" in found.sections[0].gain.problem
    mended = await ablated(path, Walker())  # what failed is played again
    assert proposals(mended)["Doors"] == "keep"
    assert all(one.gain.effect.lost == 0 for one in mended.sections)


def test_a_section_of_which_nothing_was_scored_has_no_value():
    (section, *_) = split_document(SKILL)
    one = SectionValue.of([section], bound_gain([], VAL, 0.01), 0.1).to_dict()
    assert (one["value"], one["pairs"], one["proposal"]) == (None, 0, "undecided")


async def test_a_run_without_val_tasks_is_refused(config):
    path, _ = await trained(config, Walker(), Coach([]), skill=SKILL)
    with look(path) as store:
        name = f"e{store.episodes(split='train')[0].id}"
    fork = plan_fork(path, name, 0, trials=1, root=path.parent)
    with fork.start() as run:
        await run_evaluation(run, fork.plan, NullCallback(), llms(Walker()))
    with pytest.raises(ConfigError, match="no val tasks"), planned(run.folder.path):
        pass


async def test_few_tasks_are_said_to_prove_no_deletion_before_anything_is_played(tmp_path):
    config = doors_config(tmp_path)
    path, _ = await trained(config, Walker(), Coach([]), skill=SKILL)
    with planned(path) as work:
        assert work.tasks == 24
        assert work.least_margin > work.plan.margin
    found = await ablated(path, Walker())
    assert proposals(found)["Manners"] == "undecided"
