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
    assert AlphaLedger.from_dict(json.loads(json.dumps(ledger.to_dict()))) == ledger
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
