import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import skill
from skillwright.evaluation import (
    GateResult,
    compute_semantic_density,
    evaluate_gate,
    select_gate_score,
)

SCORES = st.floats(0, 1)


def judge(cand_hard, **settings) -> GateResult:
    return evaluate_gate("new", cand_hard, "cur", 0.5, "best", 0.7, 1, 3, **settings)


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (0.6, GateResult("accept", "new", 0.6, "best", 0.7, 1)),
        (0.8, GateResult("accept_new_best", "new", 0.8, "new", 0.8, 3)),
        (0.5, GateResult("reject", "cur", 0.5, "best", 0.7, 1)),
        (0.7, GateResult("accept", "new", 0.7, "best", 0.7, 1)),
        (0.4, GateResult("reject", "cur", 0.5, "best", 0.7, 1)),
    ],
)
def test_current_and_best_are_independent_incumbents_and_ties_reject(score, expected):
    assert judge(score) == expected


def test_the_gate_compares_the_chosen_metric():
    assert judge(0.5, cand_soft=0.8, metric="soft").action == "accept_new_best"
    mixed = judge(0.5, cand_soft=0.8, metric="mixed", mixed_weight=0.25)
    assert (mixed.action, mixed.current_score) == ("accept", 0.575)


def test_a_gate_result_is_frozen():
    with pytest.raises(AttributeError):
        judge(0.6).action = "reject"


def test_the_documented_scores():
    assert select_gate_score(0.5, 0.8) == 0.5
    assert select_gate_score(0.5, 0.8, "soft") == 0.8
    assert select_gate_score(0.5, 0.8, "mixed", 0.25) == 0.575


@given(SCORES, SCORES, st.floats(-5, 5))
def test_the_mixed_weight_is_clamped(hard, soft, weight):
    score = select_gate_score(hard, soft, "mixed", weight)
    assert min(hard, soft) - 1e-9 <= score <= max(hard, soft) + 1e-9


def test_an_unknown_metric_is_an_error():
    with pytest.raises(ValueError, match="unknown gate metric 'hrad'"):
        select_gate_score(0.5, 0.8, "hrad")
    with pytest.raises(ValueError, match="unknown gate metric"):
        judge(0.6, metric="Hard")


def test_density_is_the_share_of_leading_words():
    assert compute_semantic_density("You MUST always verify the answer.") == 0.5
    assert compute_semantic_density("") == 0.0
    assert compute_semantic_density("... !?") == 0.0
    assert compute_semantic_density("mustard onlybody") == 0.0


def test_density_does_not_count_protected_regions():
    text = skill.replace_slow_update_field("Look twice.", "You must always verify.")
    assert compute_semantic_density(text) == 0.0


@pytest.mark.parametrize("words", [["Look"], " look , jump ", ("LOOK",)])
def test_leading_words_may_be_chosen_as_a_list_or_a_comma_string(words):
    assert compute_semantic_density("Look, you must look.", words) == 0.5


def test_the_density_bonus_is_added_only_when_asked_for():
    text = "You MUST always verify the answer."
    assert select_gate_score(0.5, 0.8, skill_content=text) == 0.5
    with_bonus = select_gate_score(0.5, 0.8, skill_content=text, use_semantic_density=True)
    assert with_bonus == 0.525
    accepted = evaluate_gate(text, 0.5, "", 0.5, "", 0.5, 0, 1, use_semantic_density=True)
    assert accepted.action == "accept_new_best"
