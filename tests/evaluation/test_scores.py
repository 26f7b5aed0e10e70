import json
from types import SimpleNamespace

import pytest

from skillwright.core import StopReason
from skillwright.evaluation import (
    Score,
    ScoreTable,
    SplitReport,
    compute_score,
    wilson_interval,
)


def test_rows_are_scored_by_their_mean_hard_and_soft():
    rows = [{"hard": 1, "soft": 0.5}, SimpleNamespace(hard=0, soft=1.0), {"hard": True, "soft": 0}]
    assert compute_score(rows) == (pytest.approx(2 / 3), pytest.approx(0.5))
    assert compute_score([]) == (0.0, 0.0)
    assert compute_score(({"hard": 0.25, "soft": 1},)) == (0.25, 1.0)


def test_a_row_without_a_score_is_an_error():
    with pytest.raises(KeyError, match="soft"):
        compute_score([{"hard": 1}])


def test_failures_are_counted_and_scored_as_nothing(make_result):
    results = [
        make_result(1.0, "a"),
        make_result(0.0, "b", stop_reason=StopReason.MAX_TURNS),
        make_result(None, "c", stop_reason=StopReason.FAILURE),
        make_result(0.5, "d"),
    ]
    score = Score.of(results)
    assert (score.episodes, score.tasks, score.failures, score.truncated) == (3, 3, 1, 1)
    assert (score.success_rate, score.mean_reward) == (pytest.approx(1 / 3), 0.5)
    assert score.interval == pytest.approx(wilson_interval(1, 3))
    assert Score.of(results, success_threshold=0.5).success_rate == pytest.approx(2 / 3)


def test_a_score_of_failures_alone_is_unknown_and_not_zero(make_result):
    score = Score.of([make_result(None)])
    assert (score.success_rate, score.interval, score.mean_reward) == (None, None, None)
    assert score.failures == 1


def test_smoothed_successes_count_as_much_as_they_say(make_result):
    results = [make_result(0.9, f"t{i}", hard=hard) for i, hard in enumerate([1.0, 0.5, 0.1, 0.1])]
    score = Score.of([*results, make_result(None, "t4")])
    assert (score.success_rate, score.mean_reward) == (pytest.approx(1.7 / 4), 0.9)
    assert score.interval == pytest.approx(wilson_interval(1.7, 4))
    assert score.failures == 1


def test_smoothed_successes_of_one_task_are_attempts_at_it(make_result):
    results = [
        make_result(0.0, f"t{i}", draw=draw, hard=0.1 + 0.2 * i)
        for i in range(5)
        for draw in range(3)
    ]
    score = Score.of(results)
    assert score.success_rate == pytest.approx(0.5)
    few, many = wilson_interval(2.5, 5), wilson_interval(7.5, 15)
    assert few.low <= score.interval.low <= many.low


def test_a_score_with_and_without_own_hard_scores_mixes_them(make_result):
    results = [make_result(0.5, "a"), make_result(0.5, "b", hard=1.0), make_result(0.5, "c")]
    assert Score.of(results).success_rate == pytest.approx(1 / 3)
    assert Score.of(results, success_threshold=0.5).success_rate == 1.0


@pytest.mark.parametrize("hard", [0.0, 1.0])
def test_hard_scores_of_0_and_1_are_scored_as_rewards_of_0_and_1_are(make_result, hard):
    ours = [make_result(float(i % 3 == 0), f"t{i % 4}", draw=i) for i in range(11)]
    said = [make_result(hard, r.task_id, draw=i, hard=r.reward) for i, r in enumerate(ours)]
    ours_score, said_score = Score.of(ours), Score.of(said)
    assert ours_score.success_rate == said_score.success_rate
    assert ours_score.interval == said_score.interval


def test_a_table_breaks_scores_down_by_family(make_result):
    table = ScoreTable.of(
        [
            make_result(1.0, "a", family="heat"),
            make_result(0.0, "b", family="cool"),
            make_result(1.0, "c", family="heat"),
            make_result(1.0, "d"),
        ]
    )
    assert list(table.task_types) == ["cool", "heat"]
    assert table.task_types["heat"].success_rate == 1.0
    assert table.overall.episodes == 4


def test_a_report_pairs_every_artifact_with_the_baseline(make_result):
    baseline = [make_result(0.0, f"t{i}") for i in range(10)]
    better = [make_result(1.0, f"t{i}") for i in range(9)] + [make_result(None, "t9")]
    report = SplitReport.of("test", {"initial": baseline, "best": better})
    assert list(report.tables) == ["initial", "best"]
    gain = report.gains["best"]
    assert (gain.gain, gain.pairs, gain.lost) == (1.0, 9, 1)
    assert gain.p_value == pytest.approx(2**-9)
    assert "initial" not in report.gains


def test_a_report_survives_json(make_result):
    results = [make_result(1.0, "a", family="heat"), make_result(None, "b")]
    report = SplitReport.of("test", {"initial": results, "best": results}, success_threshold=0.5)
    assert SplitReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
