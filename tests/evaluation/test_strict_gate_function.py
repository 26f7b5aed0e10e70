import math
from fractions import Fraction

import numpy as np
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


NO_SCORES = [math.nan, math.inf, -math.inf, np.float32("nan"), "inf", "-Infinity", "NaN"]


@pytest.mark.parametrize("metric", ["hard", "soft", "mixed"])
@pytest.mark.parametrize("score", NO_SCORES)
def test_a_candidate_without_a_finite_score_is_rejected(metric, score):
    judged = judge(score, cand_soft=score, metric=metric)
    assert judged == GateResult("reject", "cur", 0.5, "best", 0.7, 1)


def test_a_metric_that_does_not_count_may_be_missing():
    assert judge(0.8, cand_soft=math.nan).action == "accept_new_best"
    assert judge(None, cand_soft=0.6, metric="soft").action == "accept"
    assert judge(0.8, cand_soft=0.8, metric="mixed", mixed_weight=math.nan).best_score == 0.8


@pytest.mark.parametrize("held", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_nothing_is_better_than_a_score_that_is_none(held):
    for current, best in [(held, 0.7), (0.5, held), (held, held)]:
        judged = evaluate_gate("new", 1.0, "cur", current, "best", best, 1, 3)
        assert (judged.action, judged.current_skill, judged.best_skill) == ("reject", "cur", "best")


@pytest.mark.parametrize("score", [0.8, "0.8", np.float64(0.8), np.float32(0.8), Fraction(4, 5)])
def test_what_is_a_number_to_python_is_a_score(score):
    assert judge(score).action == "accept_new_best"
    assert judge(True).best_score == judge(np.bool_(True)).best_score == 1.0
    mixed = judge(score, cand_soft=score, metric="mixed", mixed_weight="0.3")
    assert mixed.best_score == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("score", "error"),
    [(None, TypeError), ([0.8], TypeError), ("", ValueError), ("80%", ValueError), (1j, TypeError)],
)
def test_what_is_no_number_is_refused_by_name(score, error):
    with pytest.raises(error, match=r"the hard score is .*, not a finite number"):
        judge(score)
    with pytest.raises(error, match="the soft score is"):
        judge(0.5, cand_soft=score, metric="mixed")


@pytest.mark.parametrize("held", [None, "0.5", [], {}])
def test_an_incumbent_without_a_number_is_refused_by_name(held):
    with pytest.raises(TypeError, match="current_score is"):
        evaluate_gate("new", 1.0, "cur", held, "best", 0.7, 1, 3)
    with pytest.raises(TypeError, match="best_score is"):
        evaluate_gate("new", 1.0, "cur", 0.5, "best", held, 1, 3)
    # As in SkillOpt, a candidate that loses to the current skill is not compared with the best one.
    assert evaluate_gate("new", 0.5, "cur", 0.5, "best", held, 1, 3).action == "reject"


def test_a_gate_result_is_frozen():
    with pytest.raises(AttributeError):
        judge(0.6).action = "reject"


def test_hard_and_soft_scores_are_taken_as_they_are():
    assert select_gate_score(0.5, 0.8) == 0.5
    assert select_gate_score(0.5, 0.8, "soft") == 0.8


@given(SCORES, SCORES, st.floats(-5, 5))
def test_the_mixed_weight_is_clamped(hard, soft, weight):
    score = select_gate_score(hard, soft, "mixed", weight)
    assert min(hard, soft) - 1e-9 <= score <= max(hard, soft) + 1e-9


@pytest.mark.parametrize(
    ("weight", "score"), [(-1, 0.5), (0, 0.5), (1, 0.8), (7.5, 0.8), (float("inf"), 0.8)]
)
def test_a_mixed_weight_outside_its_range_is_the_nearest_one_inside(weight, score):
    assert select_gate_score(0.5, 0.8, "mixed", weight) == score
    judged = judge(0.5, cand_soft=0.8, metric="mixed", mixed_weight=weight)
    assert judged.action == ("accept_new_best" if score > 0.7 else "reject")


@pytest.mark.parametrize("metric", ["hrad", "", "HARD", " soft", None])
def test_an_unknown_metric_is_an_error(metric):
    with pytest.raises(ValueError, match=f"unknown gate metric {metric!r}"):
        select_gate_score(0.5, 0.8, metric)
    with pytest.raises(ValueError, match="unknown gate metric"):
        judge(0.6, metric="Hard")


def test_density_is_the_share_of_leading_words():
    assert compute_semantic_density("You MUST always verify the answer.") == 0.5
    assert compute_semantic_density("") == 0.0
    assert compute_semantic_density("... !?") == 0.0
    assert compute_semantic_density("mustard onlybody") == 0.0


@pytest.mark.parametrize(
    ("text", "density"),
    [
        ("Always-verify", 1.0),
        ("must_not", 0.5),
        ("mustn't", 0.0),
        ("Never, EVER", 0.5),
        ("1 2 3 only", 0.25),
        ("# Rules\n\n- **Critical**: prefer keys.", 0.5),
        ("only only only", 1.0),
    ],
)
def test_words_are_runs_of_letters_and_digits_whatever_their_case(text, density):
    assert compute_semantic_density(text) == density


def test_density_does_not_count_protected_regions():
    text = skill.replace_slow_update_field("Look twice.", "You must always verify.")
    assert compute_semantic_density(text) == 0.0
    assert compute_semantic_density(f"{text}\n\nMust.") == pytest.approx(1 / 3)
    appendix = f"{skill.APPENDIX_START}\n- Never.\n{skill.APPENDIX_END}"
    assert compute_semantic_density(f"Look, {appendix} always") == 0.5
    assert compute_semantic_density(appendix) == 0.0


def test_a_region_that_does_not_end_is_text_like_any_other():
    assert compute_semantic_density(f"{skill.APPENDIX_START} must") > 0


@pytest.mark.parametrize("words", [["Look"], " look , jump ", ("LOOK",)])
def test_leading_words_may_be_chosen_as_a_list_or_a_comma_string(words):
    assert compute_semantic_density("Look, you must look.", words) == 0.5


def test_the_density_bonus_is_added_only_when_asked_for():
    text = "You MUST always verify the answer."
    assert select_gate_score(0.5, 0.8, skill_content=text) == 0.5
    with_bonus = select_gate_score(0.5, 0.8, skill_content=text, use_semantic_density=True)
    assert with_bonus == 0.525
    heavier = select_gate_score(
        0.5, 0.8, "soft", skill_content=text, use_semantic_density=True, semantic_density_weight=0.4
    )
    assert heavier == pytest.approx(1.0)
    chosen = select_gate_score(
        0.5, 0.8, skill_content=text, use_semantic_density=True, leading_words="answer"
    )
    assert chosen == pytest.approx(0.5 + 0.05 / 6)
    accepted = evaluate_gate(text, 0.5, "", 0.5, "", 0.5, 0, 1, use_semantic_density=True)
    assert accepted.action == "accept_new_best"
