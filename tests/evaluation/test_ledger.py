import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.evaluation import AlphaLedger, Decision, Verdict

TESTED = Verdict(Decision.REJECT, "no", alpha=0.01)
UNTESTED = Verdict(Decision.UNDECIDED, "too few")


def test_each_planned_decision_may_take_an_equal_share():
    ledger = AlphaLedger(total=0.05, planned=5)
    assert ledger.share == pytest.approx(0.01)
    assert ledger.spend(TESTED).share == pytest.approx(0.01)


def test_a_decision_without_a_test_spends_nothing():
    ledger = AlphaLedger(total=0.05, planned=5)
    assert ledger.spend(UNTESTED) == ledger


def test_a_decision_beyond_the_plan_finds_nothing_left():
    ledger = AlphaLedger(total=0.05, planned=1).spend(TESTED)
    assert ledger.share == 0
    with pytest.raises(ValueError, match="no alpha is left"):
        ledger.spend(TESTED)


def test_a_ledger_with_shares_spends_six_tenths_and_then_four():
    ledger = AlphaLedger(0.05, 2, shares=(0.6, 0.4))
    assert (ledger.share, ledger.spent) == (pytest.approx(0.03), 0)
    ledger = ledger.spend(UNTESTED).spend(TESTED)
    assert (ledger.share, ledger.spent) == (pytest.approx(0.02), pytest.approx(0.03))
    ledger = ledger.spend(TESTED)
    assert (ledger.share, ledger.spent) == (0, pytest.approx(0.05))
    with pytest.raises(ValueError, match="no alpha is left"):
        ledger.spend(TESTED)


@pytest.mark.parametrize("shares", [(0.6,), (0.6, 0.3, 0.1), (0.7, 0.4)])
def test_shares_are_one_for_each_planned_decision_and_no_more_than_all_of_it(shares):
    with pytest.raises(ValueError, match="are not the shares of 2 decisions"):
        AlphaLedger(0.05, 2, shares=shares)


def test_a_ledger_of_an_earlier_version_is_read_as_one_that_shares_evenly():
    old = {"total": 0.05, "planned": 4, "made": 1}
    assert AlphaLedger.from_dict(old) == AlphaLedger(0.05, 4, made=1)
    assert AlphaLedger.from_dict(old).share == pytest.approx(0.0125)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(0, 12))
def test_no_run_spends_more_than_its_alpha_by_shares_either(parts, decisions):
    shares = tuple(part / max(1.0, sum(parts)) for part in parts)
    ledger = AlphaLedger(0.05, len(shares), shares=shares)
    for _ in range(decisions):
        rest = ledger.made < ledger.planned
        ledger = ledger.spend(TESTED if rest else UNTESTED)
    assert ledger.spent <= 0.05 * (1 + 1e-9)


@given(st.floats(1e-6, 0.999), st.integers(1, 50), st.integers(0, 60))
def test_no_run_spends_more_than_its_alpha(total, planned, decisions):
    ledger, granted = AlphaLedger(total, planned), 0.0
    for _ in range(decisions):
        share = ledger.share
        granted += share
        ledger = ledger.spend(Verdict(Decision.REJECT, "no", alpha=share if share else None))
    assert granted <= total * (1 + 1e-9)
    assert ledger.spent == pytest.approx(granted)


def test_a_ledger_and_a_verdict_survive_json():
    ledger = AlphaLedger(0.05, 4).spend(TESTED)
    shared = AlphaLedger(0.05, 2, shares=(0.6, 0.4)).spend(TESTED)
    for one in (ledger, shared):
        assert AlphaLedger.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    verdict = Verdict(
        Decision.ACCEPT, "Accepted.", 0.2, (0.1, 0.3), 0.001, 0.05, 40, 1, 82, 0.4, 0.6
    )
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    assert Verdict.from_dict(json.loads(json.dumps(UNTESTED.to_dict()))) == UNTESTED
    assert verdict.accepted
    assert not UNTESTED.accepted


@pytest.mark.parametrize(("total", "planned"), [(0, 5), (1, 5), (-0.1, 5), (0.05, 0)])
def test_a_ledger_refuses_an_impossible_plan(total, planned):
    with pytest.raises(ValueError, match=r"alpha is|plan one"):
        AlphaLedger(total, planned)
