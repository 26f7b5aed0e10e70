"""The state of a training run is rebuilt from its events."""

import json
from dataclasses import replace

import pytest

from fakes import make_episode
from skillwright.core import Pair
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    Interval,
    ScoreTable,
    SplitReport,
    Verdict,
    selection_bias,
)
from skillwright.jobs.run import rebuild
from skillwright.jobs.text import Confirmation, EpochRecord, Kind, StepRecord, TrainState
from skillwright.runs import Redactor, RunStore
from skillwright.textopt import FailurePattern, StepEntry, StepMemory, TriedEdit

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
START = TrainState(StepMemory(), AlphaLedger(0.05, 4))


def action_of(verdict):
    return "accept_new_best" if verdict.accepted else verdict.decision.value


def step(number, verdict, version=None):
    action = action_of(verdict) if verdict else "skip_no_patches"
    return StepRecord(number, 1, action, ENTRY, verdict, version)


def epoch(number, verdict, version=None, notes=""):
    action = action_of(verdict) if verdict else ""
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
    confirmed = Confirmation(report, selection_bias([ACCEPT], results, results))
    state = after(
        (Kind.BASELINE, table.to_dict()),
        (Kind.STEP, step(1, ACCEPT, 1).to_dict()),
        (Kind.EPOCH, epoch(1, None).to_dict()),
        (Kind.FINAL, REJECT.to_dict()),
        (Kind.TEST_OPENED, {"skills": {}}),
        (Kind.TEST, report.to_dict()),
        (Kind.CONFIRMED, confirmed.to_dict()),
        (Kind.FINISHED, {"ran_out_of_patience": True}),
        (Kind.RESTORED, {"version": 0}),
    )
    assert state.baseline == table
    assert state.steps == (step(1, ACCEPT, 1),)
    assert state.epochs == (epoch(1, None),)
    assert state.last_epoch == 1
    assert state.memory.entries == (ENTRY,)
    assert (state.sealed, state.finished, state.ran_out_of_patience) == (False, True, True)
    assert (state.report, state.confirmation, state.final) == (report, confirmed, REJECT)
    assert (state.best_version, state.restored_from) == (0, 1)
    assert {kind.value for kind in Kind} == {
        "baseline", "step", "epoch", "final", "test_opened", "test", "confirmed", "finished",
            "restored", "continued", "lines",
    }  # fmt: skip


def test_only_an_accept_moves_the_skill_and_only_a_test_spends_alpha():
    state = after(
        *(
            (Kind.STEP, step(n, v, n if v else None).to_dict())
            for n, v in enumerate([REJECT, ACCEPT, None, UNDECIDED], start=1)
        )
    )
    assert (state.skill_version, state.best_version) == (2, 2)
    assert (state.accepts, state.last_step, state.idle_steps) == (1, 4, 2)
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


def test_current_and_best_part_where_something_enters_unmeasured():
    forced = after(
        (Kind.STEP, step(1, ACCEPT, 1).to_dict()),
        (Kind.EPOCH, EpochRecord(1, 1, "inject_placeholder", skill_version=2).to_dict()),
        (Kind.STEP, replace(step(2, None), noted_version=3).to_dict()),
    )
    assert (forced.skill_version, forced.best_version) == (3, 1)
    assert (forced.accepts, forced.ledger.made, forced.idle_steps) == (1, 1, 1)
    beat_one = replace(step(3, ACCEPT, 4), action="accept", best_verdict=REJECT)
    parted = forced.after(Kind.STEP, beat_one.to_dict())
    assert (parted.skill_version, parted.best_version) == (4, 1)
    assert (parted.accepts, parted.ledger.made, parted.idle_steps) == (2, 3, 0)
    promoted = parted.after(Kind.FINAL, ACCEPT.to_dict())
    assert (promoted.best_version, promoted.accepts, promoted.ledger.made) == (4, 3, 4)
    assert parted.after(Kind.FINAL, REJECT.to_dict()).best_version == 1


def test_an_open_gate_lets_everything_in_and_keeps_the_best():
    unmeasured = Verdict(Decision.REJECT, "Rejected.")
    entered = StepRecord(1, 1, "force_accept", ENTRY, None, 1, best_verdict=unmeasured)
    state = after((Kind.STEP, entered.to_dict()))
    assert (state.skill_version, state.best_version, state.idle_steps) == (1, 0, 1)
    beaten = replace(entered, step=2, skill_version=2, best_verdict=replace(ACCEPT, alpha=None))
    state = state.after(Kind.STEP, beaten.to_dict())
    assert (state.skill_version, state.best_version, state.idle_steps) == (2, 2, 0)


def test_an_accepted_slow_update_renews_the_patience_and_a_rejected_one_does_not():
    idle = after((Kind.STEP, step(1, REJECT, 1).to_dict()))
    assert idle.after(Kind.EPOCH, epoch(1, REJECT, 2).to_dict()).idle_steps == 1
    assert idle.after(Kind.EPOCH, epoch(1, ACCEPT, 2).to_dict()).idle_steps == 0


@pytest.mark.parametrize(("across", "told"), [(True, [1, 2, 3]), (False, [3])])
def test_a_new_epoch_remembers_the_old_one_only_if_it_is_told_to(across, told):
    state = TrainState(StepMemory(across_epochs=across), AlphaLedger(0.05, 4))
    for number, of in ((1, 1), (2, 1), (3, 2)):
        entry = replace(ENTRY, step=number)
        known = [entry.step for entry in state.memory_in(of).entries]
        assert known == ([] if number == 1 else [1] if number == 2 else told[:-1])
        state = state.after(Kind.STEP, StepRecord(number, of, "reject", entry).to_dict())
    assert [entry.step for entry in state.memory.entries] == told


def test_what_an_earlier_version_wrote_can_still_be_read():
    old = step(1, ACCEPT, 1).to_dict()
    del old["best_verdict"], old["noted_version"]
    assert StepRecord.from_dict(old) == step(1, ACCEPT, 1)


def test_events_of_other_kinds_change_nothing():
    assert after(("made", {"job": "train"}), ("evaluated", {})) == START


def test_what_was_stored_without_secrets_is_what_both_runs_go_on_with(tmp_path):
    key = "sk-this-is-a-secret-key"
    said = f"Log in with {key} or password: hunter2secret."
    entry = StepEntry(1, "accept", edits=(TriedEdit("append", "", said, "applied_append"),))
    record = StepRecord(1, 1, "accept_new_best", entry, ACCEPT, 1)
    with RunStore.open(tmp_path / "run.sqlite", redactor=Redactor([key])) as store:
        last = store.append_event(Kind.STEP, record.to_dict())
        in_memory = rebuild(START, store.events(after=last - 1))
        assert in_memory == rebuild(START, store.events())
        (told,) = in_memory.memory.entries[0].edits
        assert key not in told.content
        assert "hunter2secret" not in told.content


def test_a_gain_without_spread_keeps_its_missing_interval():
    pairs = [Pair(make_episode("t1", 0.0), make_episode("t1", 0.0))]
    verdict = Verdict(Decision.REJECT, "Rejected.", interval=Interval(-0.5, 0.5), pairs=len(pairs))
    assert Verdict.from_dict(verdict.to_dict()).interval == (-0.5, 0.5)
    assert Verdict.from_dict(UNDECIDED.to_dict()).interval is None
