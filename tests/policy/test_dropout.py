"""Groups that see fewer skills."""

import pytest

from skillwright.core import ConfigError, SkillContext, Task
from skillwright.policy import SkillDropout

TEXT = """### General skills
- [g001] Look: Look around.
### Skills for heat tasks
- [t014] Hold it first: Have it in hand. (Apply when heat.)
- [t015] Find it: Go."""


class Bank:
    waits = False

    def context(self, task):
        return SkillContext(TEXT, ("g001", "t014", "t015"), (1.0, 0.7, 0.5), "v3")

    def contexts(self, tasks):
        return [self.context(task) for task in tasks]


TASKS = [Task(f"t{number}", "errand") for number in range(200)]


def test_a_share_of_the_tasks_sees_fewer_skills_and_always_the_same():
    source = SkillDropout(Bank(), share=0.3, keep=0.5, seed=1)
    thinned = source.contexts(TASKS)
    fewer = [one for one in thinned if len(one.skill_ids) < 3]
    assert 30 <= len(fewer) <= 75
    assert thinned == source.contexts(TASKS)
    assert thinned != SkillDropout(Bank(), share=0.3, keep=0.5, seed=2).contexts(TASKS)
    for one in thinned:
        shown = {name for name in ("g001", "t014", "t015") if f"[{name}]" in one.text}
        assert shown == set(one.skill_ids)
        assert len(one.scores) == len(one.skill_ids)
        assert one.version == "v3"


def test_nothing_is_left_where_none_is_kept_not_even_a_heading():
    (one,) = SkillDropout(Bank(), share=1.0, keep=0.0).contexts(TASKS[:1])
    assert one == SkillContext("", version="v3")


def test_a_share_of_nothing_changes_nothing():
    assert SkillDropout(Bank(), share=0.0).context(TASKS[0]).text == TEXT


@pytest.mark.parametrize("wrong", [{"share": 1.5}, {"share": 0.5, "keep": -1}])
def test_shares_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match="skill_dropout"):
        SkillDropout(Bank(), **wrong)
