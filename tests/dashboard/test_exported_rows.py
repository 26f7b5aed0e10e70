"""Exported rows, read with pandas as people read them, say what the run itself printed."""

import json

import pytest

from skillwright.core import Purpose, Usage
from skillwright.jobs.inspect import ExportFormat, ExportRows, export_run, read_run
from skillwright.runs import CallRecord, RunStore

pandas = pytest.importorskip("pandas", reason="needs pandas: pip install -e .[dev]")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e .[dev]")


@pytest.fixture(params=["jsonl", "parquet"])
def form(request):
    """The format of the exported file."""
    return ExportFormat(request.param)


def frame(run, to, form, rows):
    """Export a run and read the rows."""
    path = to / f"rows.{form}"
    export_run(run, path, form, rows)
    if form is ExportFormat.JSONL:
        return pandas.read_json(path, lines=True)
    found = pandas.read_parquet(path)
    if "tested" in found:
        found["tested"] = found["tested"].map(json.loads)
    return found


def test_the_rows_of_episodes_recompute_val_test_and_gain(root, tmp_path, form):
    episodes = frame(root / "trained", tmp_path, form, ExportRows.EPISODES)
    state = read_run("trained", root).state
    val = episodes[(episodes.phase == "gate") & episodes.step.isna() & episodes.reward.notna()]
    assert val.solved.astype(float).mean() == pytest.approx(state.baseline.overall.success_rate)
    tested = episodes.explode("tested").dropna(subset=["tested", "reward"])
    by_name = tested.assign(solved=tested.solved.astype(float)).groupby("tested")
    printed = {name: table.overall for name, table in state.report.tables.items()}
    assert by_name.size().to_dict() == {name: one.episodes for name, one in printed.items()}
    for name, rate in by_name.solved.mean().items():
        assert rate == pytest.approx(printed[name].success_rate)
    by_task = tested.pivot_table(index="task_id", columns="tested", values="reward")
    gain = (by_task["best"] - by_task["initial"]).mean()
    assert gain == pytest.approx(state.report.gains["best"].gain)
    assert gain > 0


def test_the_rows_of_calls_recompute_what_the_run_consumed(root, tmp_path, form):
    calls = frame(root / "trained", tmp_path, form, ExportRows.CALLS)
    usage = read_run("trained", root).usage
    sums = calls.groupby("purpose")[["input_tokens", "output_tokens", "cost_usd"]].sum()
    for purpose, spent in usage.items():
        assert sums.input_tokens[purpose] == spent.input_tokens
        assert sums.output_tokens[purpose] == spent.output_tokens
        assert sums.cost_usd[purpose] == pytest.approx(spent.cost_usd)
    reflected = calls[calls.purpose == "reflect"]
    assert len(reflected) == usage["reflect"].calls
    assert set(reflected.identity) == {"scripted:analyst"}
    assert reflected.output.str.len().min() > 0


def test_a_failed_call_is_exported_with_its_error_and_what_it_cost(root, tmp_path, form):
    lost = Usage(calls=1, failed_calls=1, input_tokens=70, cost_usd=0.5)
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        question = [{"role": "user", "content": "What went wrong?"}]
        store.record_call(
            CallRecord("k", Purpose.REFLECT, "me", question, error="429: slow down", usage=lost)
        )
    calls = frame(root / "trained", tmp_path, form, ExportRows.CALLS)
    (row,) = calls[calls.error.notna()].to_dict("records")
    assert row["error"] == "429: slow down"
    assert (row["input_tokens"], row["cost_usd"]) == (70, 0.5)
    assert pandas.isna(row["output"])
