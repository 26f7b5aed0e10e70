"""The state of a training run is a fold over its events."""

import json

import pytest

from fakes import make_episode
from skillwright.core import Pair
from skillwright.evaluation import Decision, ScoreTable, SplitReport, Verdict
from skillwright.evaluation.intervals import Interval
from skillwright.jobs import EpochRecord, StepRecord, TrainState
from skillwright.jobs.state import Kind, fold
from skillwright.runs import Redactor, RunStore
from skillwright.textopt import FailurePattern, StepEntry, TriedEdit

ACCEPT = Verdict(
    Decision.ACCEPT,
    "Accepted: it is better.",
    effect=0.25,
    interval=(0.125, 0.375),
    p_value=0.01,
    alpha=0.025,
    pairs=24,
    lost=1,
    rollouts=50,
    incumbent_score=0.25,
    candidate_score=0.5,
)
REJECT = Verdict(Decision.REJECT, "Rejected: luck.", p_value=0.5, alpha=0.025)
UNDECIDED = Verdict(Decision.UNDECIDED, "Undecided: too few.")
ENTRY = StepEntry(
    1,
    "accept",
    edits=(TriedEdit("append", "", "Be quick.", "applied_append"),),
    failures=(FailurePattern("locked", 3, ("t1", "t2")),),
    score_before=0.25,
    score_after=0.5,
    p_value=0.01,
    n_total=6,
    n_fail=3,
)
START = TrainState.first(alpha=0.05, planned=4)


def step(number, verdict, version=None):
    action = verdict.decision.value if verdict else "skip_no_patches"
    return StepRecord(number, 1, action, ENTRY, verdict, version)


def epoch(number, verdict, version=None, notes=""):
    action = verdict.decision.value if verdict else ""
    return EpochRecord(number, 1, action, notes, verdict, version)


def after(*events):
    state = START
    for kind, payload in events:
        state = state.after(kind, json.loads(json.dumps(payload)))
    return state


@pytest.mark.parametrize("verdict", [ACCEPT, REJECT, UNDECIDED, None])
def test_a_step_survives_the_way_through_json(verdict):
    record = step(3, verdict, None if verdict is None else 2)
    assert StepRecord.from_dict(json.loads(json.dumps(record.to_dict()))) == record


@pytest.mark.parametrize("verdict", [ACCEPT, REJECT, None])
def test_an_epoch_survives_the_way_through_json_and_so_do_its_details(verdict):
    record = epoch(2, verdict, None if verdict is None else 3, "Short rules work.")
    stored = {**record.to_dict(), "drawn": [], "slow_update": {"status": "candidate"}}
    assert EpochRecord.from_dict(json.loads(json.dumps(stored))) == record


def test_every_kind_of_event_is_folded_in():
    results = [make_episode("t1", 1.0), make_episode("t2", 0.0), make_episode("t3", None)]
    table = ScoreTable.of(results)
    report = SplitReport.of("test", {"initial": results, "best": results})
    state = after(
        (Kind.BASELINE, table.to_dict()),
        (Kind.STEP, step(1, ACCEPT, 1).to_dict()),
        (Kind.EPOCH, epoch(1, None).to_dict()),
        (Kind.TEST_OPENED, {"skills": {}}),
        (Kind.TEST, report.to_dict()),
        (Kind.FINISHED, {}),
    )
    assert state.baseline == table
    assert state.steps == (step(1, ACCEPT, 1),)
    assert state.epochs == (epoch(1, None),)
    assert state.last_epoch == 1
    assert state.memory.entries == (ENTRY,)
    assert (state.sealed, state.finished) == (False, True)
    assert state.report == report
    assert {kind.value for kind in Kind} == {
        "baseline", "step", "epoch", "test_opened", "test", "finished",
    }  # fmt: skip


def test_only_an_accept_moves_the_skill_and_only_a_test_spends_alpha():
    state = after(
        *(
            (Kind.STEP, step(n, v, n if v else None).to_dict())
            for n, v in enumerate([REJECT, ACCEPT, None, UNDECIDED], start=1)
        )
    )
    assert (state.skill_version, state.accepts, state.last_step) == (2, 1, 4)
    assert (state.ledger.made, state.ledger.planned) == (2, 4)


def test_a_slow_update_moves_the_skill_and_spends_alpha_as_a_step_does():
    state = after(
        (Kind.STEP, step(1, ACCEPT, 1).to_dict()),
        (Kind.EPOCH, epoch(1, None, notes="").to_dict()),
        (Kind.STEP, step(2, REJECT, 2).to_dict()),
        (Kind.EPOCH, epoch(2, ACCEPT, 3, "Short rules work.").to_dict()),
    )
    assert (state.skill_version, state.accepts) == (3, 2)
    assert (state.last_step, state.last_epoch) == (2, 2)
    assert (state.ledger.made, state.ledger.planned) == (3, 4)
    assert state.meta_skill == "Short rules work."
    rejected = after((Kind.EPOCH, epoch(2, REJECT, 1, "Rules harm.").to_dict()))
    assert (rejected.skill_version, rejected.accepts, rejected.ledger.made) == (0, 0, 1)
    assert rejected.meta_skill == "Rules harm."


def test_events_of_other_kinds_change_nothing():
    assert after(("made", {"job": "train"}), ("evaluated", {})) == START


def test_what_was_stored_without_secrets_is_what_both_runs_go_on_with(tmp_path):
    key = "sk-this-is-a-secret-key"
    said = f"Log in with {key} or password: hunter2secret."
    entry = StepEntry(1, "accept", edits=(TriedEdit("append", "", said, "applied_append"),))
    record = StepRecord(1, 1, "accept_new_best", entry, ACCEPT, 1)
    with RunStore.open(tmp_path / "run.sqlite", redactor=Redactor([key])) as store:
        last = store.append_event(Kind.STEP, record.to_dict())
        in_memory = fold(START, store.events(after=last - 1))
        assert in_memory == fold(START, store.events())
        (told,) = in_memory.memory.entries[0].edits
        assert key not in told.content
        assert "hunter2secret" not in told.content


def test_a_gain_without_spread_keeps_its_missing_interval():
    pairs = [Pair(make_episode("t1", 0.0), make_episode("t1", 0.0))]
    verdict = Verdict(Decision.REJECT, "Rejected.", interval=Interval(-0.5, 0.5), pairs=len(pairs))
    assert Verdict.from_dict(verdict.to_dict()).interval == (-0.5, 0.5)
    assert Verdict.from_dict(UNDECIDED.to_dict()).interval is None
