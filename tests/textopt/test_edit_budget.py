"""A step's budget comes from the schedule, from the optimizer, or from nobody."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import ConfigError, Edit, ModelError, Purpose
from skillwright.textopt import (
    BudgetControl,
    Optimizer,
    Proposal,
    StepContext,
    StepSettings,
    StepStatus,
    UpdateMode,
    decide_budget,
    parse_budget_control,
    parse_update_mode,
    propose,
    read_episodes,
)
from skillwright.textopt.select import coerced

SKILL = "- Look.\n"
CONTEXT = StepContext("s3", SKILL, budget=2, seed=1, earlier_steps="Step 2: reject")
ROWS = read_episodes(
    [
        make_episode("T0", 0.0, task_type="heat"),
        make_episode("T1", 1.0, task_type="cool"),
        make_episode("T2", 1.0, task_type="heat"),
    ]
).rows
PROPOSALS = [Proposal(f"e{n}", Edit("append", f"- {n}"), "failure") for n in range(5)]


async def decided(replies, control=BudgetControl.AUTONOMOUS, proposals=PROPOSALS):
    model = ScriptedReplies(replies)
    optimizer = Optimizer(model, repair_rounds=0)
    settings = StepSettings(budget_control=control)
    return await decide_budget(optimizer, settings, CONTEXT, ROWS, proposals), model


async def test_the_schedule_or_nobody_decides_without_a_call():
    decision, _ = await decided([], BudgetControl.FIXED)
    assert decision.budget == 2
    decision, _ = await decided([], BudgetControl.NONE)
    assert decision.budget is None


async def test_the_optimizer_decides_after_seeing_edits_rollouts_and_memory():
    decision, model = await decided([{"reasoning": "few", "edit_budget": 3}])
    assert (decision.budget, decision.reasoning, decision.fallback) == (3, "few", False)
    (asked,) = model.asked
    assert asked.purpose is Purpose.BUDGET == "lr_autonomous"
    assert "Step 2: reject" in asked.user
    assert "all: 3 rollouts, mean reward 0.67\ncool: 1 rollouts, mean reward 1.00" in asked.user
    assert len(json.loads(asked.user.split("## Edits\n")[1])) == 5


async def test_nobody_is_asked_about_no_edits():
    decision, model = await decided([], proposals=[])
    assert model.asked == []
    assert decision.fault is None


@pytest.mark.parametrize(
    ("said", "budget", "fallback"),
    [
        (2, 2, False),
        (99, 5, False),
        (-3, 0, False),
        (0, 0, False),
        (2.9, 2, False),
        ("about 3 edits, not 4", 3, False),
        ("-2", 0, False),
        ("all", 0, True),
        (True, 0, True),
        (None, 0, True),
        ([3], 0, True),
        ("9" * 5_000, 5, False),
    ],
)
async def test_a_number_is_coerced_and_clamped(said, budget, fallback):
    decision, _ = await decided([{"edit_budget": said}])
    assert (decision.budget, decision.fallback) == (budget, fallback)


@pytest.mark.parametrize("reply", ["prose", ModelError("503"), {"lr": 3}])
async def test_an_answer_that_cannot_be_used_is_a_fallback_of_none_and_a_fault(reply):
    decision, _ = await decided([reply])
    assert (decision.budget, decision.fallback, decision.fault.call) == (0, True, "s3.lr")


@given(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
)
def test_what_is_coerced_is_never_below_zero(value):
    number = coerced(value)
    assert number is None or (isinstance(number, int) and number >= 0)


def edits_of(count):
    return {"patch": {"edits": [{"op": "append", "content": f"- Rule {n}."} for n in range(count)]}}


async def stepped(replies, control, budget=2, **more):
    model = ScriptedReplies(replies)
    settings = StepSettings(budget_control=control, **more)
    context = StepContext("s1", SKILL, budget)
    batch = in_one_batch([make_episode("T")])
    step = await propose(Optimizer(model, repair_rounds=0), settings, context, batch)
    return step, model


async def test_a_budget_of_zero_leaves_the_skill_unchanged_and_nothing_to_judge():
    step, model = await stepped([edits_of(2), {"edit_budget": 0}], BudgetControl.AUTONOMOUS)
    assert (step.status, step.candidate) == (StepStatus.NO_CHANGE, SKILL)
    assert step.status == "skip_no_change"
    assert len(model.asked) == 2
    assert step.to_dict()["budget_decision"]["control"] == "autonomous"


async def test_without_a_learning_rate_every_edit_is_made():
    step, model = await stepped([edits_of(9)], BudgetControl.NONE)
    assert step.update.counts["applied"] == 9
    assert "as many edits as the evidence supports" in model.asked[0].user
    assert step.to_dict()["budget"] is None


async def test_none_may_mean_the_schedule_as_in_skillopt():
    replies = [edits_of(9), {"selected_indices": [0]}]
    step, model = await stepped(replies, BudgetControl.NONE, none_means_fixed=True)
    assert "Propose at most 2 edits." in model.asked[0].user
    assert (step.budget.control, step.budget.budget) == (BudgetControl.FIXED, 2)
    assert step.update.counts["applied"] == 2
    whole = StepSettings(none_means_fixed=True, update_mode=UpdateMode.FULL_REWRITE)
    assert whole.control is BudgetControl.NONE


async def test_where_the_optimizer_decides_analysts_are_not_held_to_the_schedule():
    step, model = await stepped([edits_of(9), {"edit_budget": 5}, "no"], BudgetControl.AUTONOMOUS)
    assert "as many edits as the evidence supports" in model.asked[0].user
    assert len(step.merged.proposals) == 9
    assert step.update.counts["applied"] == 5


async def test_an_analysts_own_budget_holds_whoever_decides():
    replies = [edits_of(9), {"edit_budget": 9}]
    step, _ = await stepped(replies, BudgetControl.AUTONOMOUS, analyst_budget=3)
    assert len(step.merged.proposals) == 3


async def test_a_fault_of_the_decision_is_one_of_the_steps_faults():
    step, _ = await stepped([edits_of(2), "no"], BudgetControl.AUTONOMOUS)
    assert [fault.call for fault in step.faults] == ["s1.lr"]
    assert step.status is StepStatus.NO_CHANGE


@pytest.mark.parametrize(
    ("name", "control"),
    [
        ("fixed", BudgetControl.FIXED),
        ("manual", BudgetControl.FIXED),
        ("scheduler", BudgetControl.FIXED),
        ("Scheduled ", BudgetControl.FIXED),
        ("auto", BudgetControl.AUTONOMOUS),
        ("optimizer", BudgetControl.AUTONOMOUS),
        ("off", BudgetControl.NONE),
        ("no_lr", BudgetControl.NONE),
    ],
)
def test_a_control_mode_has_aliases(name, control):
    assert parse_budget_control(name) is control


@pytest.mark.parametrize(
    ("name", "mode", "key"),
    [
        ("patch", UpdateMode.PATCH, "edits"),
        ("edits", UpdateMode.PATCH, "edits"),
        ("rewrite", UpdateMode.REWRITE, "revise_suggestions"),
        ("suggestions", UpdateMode.REWRITE, "revise_suggestions"),
        ("rewrite_suggestions", UpdateMode.REWRITE, "revise_suggestions"),
        ("full_rewrite", UpdateMode.FULL_REWRITE, "skill_candidates"),
        ("minibatch_full_rewrite", UpdateMode.FULL_REWRITE, "skill_candidates"),
        ("SKILL_rewrite_minibatch", UpdateMode.FULL_REWRITE, "skill_candidates"),
    ],
)
def test_an_update_mode_has_aliases_and_a_payload_key(name, mode, key):
    assert parse_update_mode(name) is mode
    assert mode.payload_key == key


def test_an_unknown_mode_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"no skill update mode 'pathc'\. Did you mean 'patch'"):
        parse_update_mode("pathc")
    with pytest.raises(ConfigError, match="no LR control mode 'automatic'"):
        parse_budget_control("automatic")
