from dataclasses import replace

import pytest

from rollout_worlds import guess_task
from skillwright.core import DataError, EpisodeSpec
from skillwright.rollout import Limits, PromptStyle, episode_key

SPEC = EpisodeSpec(guess_task("t"), seed=1)


def key(spec=SPEC, skill="S", **changed):
    asked = {
        "agent_identity": "a",
        "env_identity": {"version": 1},
        "limits": Limits(),
        "prompt": PromptStyle(),
        **changed,
    }
    return episode_key(spec, skill, **asked)


def test_the_same_question_has_the_same_key():
    reordered = replace(SPEC.task, extras=dict(reversed(list(SPEC.task.extras.items()))))
    assert key(replace(SPEC, task=reordered, phase="gate")) == key()
    assert key(limits=Limits(max_concurrent=1, retries=0)) == key()
    assert key(skill="") == key(skill=" \n")


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": replace(SPEC, seed=2)},
        {"spec": replace(SPEC, draw=1)},
        {"spec": replace(SPEC, task=guess_task("u"))},
        {"spec": replace(SPEC, task=guess_task("t", upper=9))},
        {"spec": replace(SPEC, task=replace(SPEC.task, env="other"))},
        {"skill": "T"},
        {"agent_identity": "b"},
        {"env_identity": {"version": 2}},
        {"limits": Limits(max_turns=9)},
        {"prompt": PromptStyle(history_turns=3)},
    ],
    ids=str,
)
def test_whatever_can_change_the_reward_changes_the_key(changed):
    assert key(**changed) != key()


def test_extras_that_are_no_json_are_refused_with_the_task_named():
    odd = replace(SPEC.task, extras={"where": object()})
    with pytest.raises(DataError, match=r"task 't'.*plain JSON"):
        key(replace(SPEC, task=odd))
