"""A step makes as many edits as its budget allows, and somebody or something has chosen them."""

import json

import pytest

from fakes import ScriptedReplies
from skillwright.core import Edit, ModelTimeout, Purpose
from skillwright.textopt import (
    Evidence,
    Optimizer,
    Proposal,
    RankFallback,
    StepContext,
    rank_and_select,
)


def proposals(*supports):
    return [
        Proposal(
            f"e{i}",
            Edit("append", f"rule {i}"),
            "failure",
            tuple(Evidence(f"T{t}") for t in range(support)),
        )
        for i, support in enumerate(supports)
    ]


async def selected(replies, budget, *supports, **more):
    model = ScriptedReplies(replies)
    context = StepContext("s1", "# Skill\n", budget)
    optimizer = Optimizer(model, repair_rounds=0)
    chosen = await rank_and_select(optimizer, context, proposals(*supports), **more)
    return chosen, [p.id for p in chosen.proposals], model


@pytest.mark.parametrize("budget", [3, 4, None])
async def test_edits_that_fit_are_taken_unchanged_and_nobody_is_asked(budget):
    chosen, ids, model = await selected([], budget, 1, 3, 2)
    assert ids == ["e0", "e1", "e2"]
    assert (chosen.ranked, model.asked) == (False, [])


async def test_a_budget_of_nothing_selects_nothing():
    _, ids, model = await selected([], 0, 1, 2)
    assert (ids, model.asked) == ([], [])


async def test_the_ranking_is_asked_for_in_the_agreed_form():
    chosen, ids, model = await selected(
        [{"reasoning": "r", "selected_indices": [2, 0]}], 2, 1, 1, 1
    )
    assert ids == ["e2", "e0"]
    assert (chosen.ranked, chosen.reasoning, chosen.fault) == (True, "r", None)
    (asked,) = model.asked
    assert asked.messages[0]["content"].splitlines()[0] == "# Rank edits"
    headings = [line for line in asked.user.splitlines() if line.startswith("## ")]
    assert headings == ["## Current skill", "## Optimizer notes", "## Edit budget", "## Edits"]
    assert "## Edit budget\nSelect at most 2 edits.\n" in asked.user
    assert json.loads(asked.user.split("## Edits\n")[1])[0] == {
        "index": 0,
        "op": "append",
        "target": "",
        "content": "rule 0",
        "support": 1,
        "source_type": "failure",
    }
    assert asked.purpose is Purpose.RANK


async def test_only_valid_indices_count_each_once_up_to_the_budget():
    indices = [True, 9, -1, "1", 2.0, 3, 3, None, 1, 0]
    _, ids, _ = await selected([{"selected_indices": indices}], 2, 1, 1, 1, 1)
    assert ids == ["e3", "e1"]


async def test_fewer_than_the_budget_may_be_chosen():
    _, ids, _ = await selected([{"selected_indices": [1]}], 2, 1, 1, 1)
    assert ids == ["e1"]


@pytest.mark.parametrize(
    "reply", ["I like the first", {"selected_indices": "0"}, {}, ModelTimeout("no answer")]
)
async def test_without_a_usable_ranking_support_decides_and_the_fault_is_kept(reply):
    chosen, ids, _ = await selected([reply], 3, 1, 5, 2, 5)
    assert ids == ["e1", "e3", "e2"]
    assert chosen.ranked is False
    assert chosen.fault.call == "s1.rank"


@pytest.mark.parametrize("reply", ["prose", {"selected_indices": [9]}])
async def test_where_the_order_decides_the_first_edits_are_made(reply):
    chosen, ids, _ = await selected([reply], 2, 1, 5, 2, fallback=RankFallback.ORDER)
    assert ids == ["e0", "e1"]
    assert chosen.notes == (
        () if reply == "prose" else ("no selected index names an edit; order decides",)
    )


async def test_a_ranking_that_names_no_edit_is_noted():
    chosen, ids, _ = await selected([{"selected_indices": []}], 1, 1, 2)
    assert ids == ["e1"]
    assert chosen.notes == ("no selected index names an edit; support decides",)
