"""Results: the documented wire types, and our own that cannot confuse a fault with a score."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import (
    ContractError,
    Edit,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    FailureSummaryEntry,
    Pair,
    Patch,
    RawPatch,
    RolloutResult,
    SlowUpdateResult,
    Task,
)

SPEC = EpisodeSpec(Task("t1", "guess", task_type="easy"), seed=7)


def test_a_row_is_normalized_and_what_has_no_field_is_kept():
    row = RolloutResult.from_dict(
        {"id": 3, "hard": True, "soft": "0.5", "n_turns": 4.0, "fail_reason": None, "cost": 2}
    )
    assert (row.id, row.hard, row.soft, row.n_turns) == ("3", 1.0, 0.5, 4)
    assert row.fail_reason == "None"
    assert row.extras == {"cost": 2}
    assert row.to_dict() == {
        "id": "3",
        "hard": 1.0,
        "soft": 0.5,
        "n_turns": 4,
        "fail_reason": "None",
        "cost": 2,
    }


def test_a_row_without_an_id_has_the_empty_one():
    assert RolloutResult.from_dict({"hard": 0, "soft": 0}).to_dict() == {
        "id": "",
        "hard": 0.0,
        "soft": 0.0,
    }


@pytest.mark.parametrize(
    ("extras", "kept"),
    [({"a": 1}, {"a": 1}), ("text", {"extras": "text"}), (None, {"extras": None})],
)
def test_a_key_called_extras_is_not_lost(extras, kept):
    row = RolloutResult.from_dict({"id": "x", "hard": 1, "soft": 1, "extras": extras})
    assert row.extras == kept
    assert RolloutResult.from_dict(row.to_dict()) == row


@pytest.mark.parametrize("turns", [{}, {"n_turns": None}])
def test_a_row_need_not_count_its_turns(turns):
    assert RolloutResult.from_dict({"id": "x", "hard": 1, "soft": 1, **turns}).n_turns == 0


def test_an_extra_called_like_a_field_cannot_overwrite_a_score():
    row = RolloutResult.from_dict({"id": "x", "hard": 0, "soft": 0, "extras": {"hard": 1}})
    assert row.to_dict()["hard"] == 0.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "x", "soft": 1}, "row 'x' has no 'hard'"),
        ({"id": "x", "hard": None, "soft": 1}, "hard is None, not a number"),
        ({"id": "x", "hard": 1, "soft": "good"}, "soft is 'good', not a number"),
        ({"id": "x", "hard": math.nan, "soft": 1}, "hard is nan, which is no score"),
        ({"id": "x", "hard": 1, "soft": 1, "n_turns": "many"}, "n_turns is 'many'"),
    ],
)
def test_a_row_without_scores_breaks_the_contract_by_name(row, message):
    with pytest.raises(ContractError, match=message):
        RolloutResult.from_dict(row)


def test_a_failure_summary_casts_its_count():
    entry = FailureSummaryEntry.from_dict({"failure_type": "loop", "count": "3"})
    assert entry == FailureSummaryEntry("loop", 3)
    assert FailureSummaryEntry.from_dict(entry.to_dict()) == entry


def test_a_raw_patch_reads_nested_and_bare_payloads():
    edits = {"edits": [{"op": "append", "content": "x"}]}
    nested = RawPatch.from_dict(
        {
            "patch": edits,
            "source_type": "success",
            "batch_size": 8,
            "failure_summary": [{"failure_type": "loop", "count": 2}, "odd"],
        }
    )
    assert nested == RawPatch(
        Patch([Edit("append", "x")]), "success", 8, [FailureSummaryEntry("loop", 2)]
    )
    assert RawPatch.from_dict(nested.to_dict()) == nested
    assert RawPatch.from_dict(edits) == RawPatch(Patch([Edit("append", "x")]))
    assert RawPatch.from_dict({**edits, "failure_summary": None}).failure_summary == []


def test_a_dropped_slot_and_a_patch_that_is_no_object_read_as_none():
    assert RawPatch.from_dict(None) is None
    assert RawPatch.from_dict({"patch": ["x"]}) is None


def test_a_batch_size_of_none_is_a_type_error_as_documented():
    with pytest.raises(TypeError):
        RawPatch.from_dict({"patch": {"edits": []}, "batch_size": None})


def test_a_slow_update_result_writes_what_is_set():
    assert SlowUpdateResult().to_dict() == {"reasoning": "", "slow_update_content": ""}
    result = SlowUpdateResult("why", "what", action="reject", prev_hard=0.0, time_s=1.5)
    assert result.to_dict() == {
        "reasoning": "why",
        "slow_update_content": "what",
        "action": "reject",
        "time_s": 1.5,
        "prev_hard": 0.0,  # a score of zero is a score
    }
    assert SlowUpdateResult.from_dict({**result.to_dict(), "unknown": 1}) == result


FAILURE = Failure(FailureCause.MODEL, "503")


@pytest.mark.parametrize(("reward", "failure"), [(None, None), (1.0, FAILURE)])
def test_an_episode_has_a_reward_or_a_failure_never_both_or_neither(reward, failure):
    with pytest.raises(ValueError, match="task 't1': set exactly one of reward and failure"):
        EpisodeResult(SPEC, reward, failure)


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_refused(reward):
    with pytest.raises(ValueError, match="is no score"):
        EpisodeResult(SPEC, reward)


def test_a_failure_is_neither_a_success_nor_a_loss():
    failed = EpisodeResult(SPEC, failure=FAILURE)
    assert not failed.is_success(threshold=0.0)
    assert EpisodeResult(SPEC, 0.0).is_success(threshold=0.0)
    assert EpisodeResult(SPEC, 1.0).is_success()
    assert not EpisodeResult(SPEC, 0.99).is_success()
    assert (failed.task_id, failed.task_type) == ("t1", "easy")


@pytest.mark.parametrize("hard", [-0.1, 1.1, math.nan, math.inf])
def test_what_the_benchmark_calls_success_lies_between_0_and_1(hard):
    with pytest.raises(ValueError, match=r"task 't1': hard is .*; it lies in \[0, 1\]"):
        EpisodeResult(SPEC, 1.0, hard=hard)


def test_a_failure_has_no_hard_score():
    with pytest.raises(ValueError, match="a failure neither passes nor fails"):
        EpisodeResult(SPEC, failure=FAILURE, hard=0.0)
    with pytest.raises(ValueError, match="a failure has no score"):
        EpisodeResult(SPEC, failure=FAILURE).hard_score()


def test_without_a_hard_score_the_reward_is_held_against_the_threshold():
    half = EpisodeResult(SPEC, 0.5)
    assert (half.hard_score(), half.hard_score(0.5)) == (0.0, 1.0)
    assert (half.is_success(), half.is_success(0.5)) == (False, True)


def test_a_hard_score_has_the_last_word_over_the_reward():
    lenient = EpisodeResult(SPEC, reward=0.2, hard=1.0)
    assert (lenient.hard_score(), lenient.is_success()) == (1.0, True)
    failed = EpisodeResult(SPEC, reward=1.0, hard=0.0)
    assert (failed.hard_score(), failed.is_success(0.5)) == (0.0, False)
    smoothed = EpisodeResult(SPEC, reward=0.9, hard=0.4)
    assert (smoothed.hard_score(0.3), smoothed.is_success(0.3)) == (0.4, True)
    assert not smoothed.is_success(0.5)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_pair_gains_what_the_candidate_has_more(incumbent, candidate):
    pair = Pair(EpisodeResult(SPEC, incumbent), EpisodeResult(SPEC, candidate))
    assert pair.gain == candidate - incumbent
    assert pair.task_id == "t1"


def test_a_pair_with_a_failure_has_no_gain():
    won, failed = EpisodeResult(SPEC, 1.0), EpisodeResult(SPEC, failure=FAILURE)
    assert Pair(won, failed).gain is None
    assert Pair(failed, won).gain is None
