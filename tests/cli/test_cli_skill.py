"""Where a skill's lines come from, and what a run's episodes look like outside."""

import json
import re
from collections import defaultdict

import pytest

from doors import ALL_RULES, Coach, Reminder, Walker, doors_config, trained
from skillwright.jobs.inspect import read_run
from skillwright.runs import RunStore


@pytest.fixture
async def run(tmp_path):
    """A run whose second step changes what the first one wrote."""
    config = doors_config(tmp_path)
    path, _ = await trained(config, Walker(), Coach([[ALL_RULES], ["Be quick."]]))
    return path


def test_every_line_of_the_released_skill_ends_at_stored_episodes(cli, run):
    lines = json.loads(cli("skill", "blame", run / "best_skill.md", "--json").stdout)
    with RunStore.open(run / "run.sqlite", read_only=True) as store:
        known = {one.id for one in store.episodes()}
    written = [one for one in lines if one["text"].strip() and one["step"]]
    assert written
    for line in written:
        assert line["witnesses"]
        assert {one["episode"] for one in line["witnesses"]} <= known


def test_one_line_is_blamed_alone(cli, run):
    lines = (run / "best_skill.md").read_text().splitlines()
    number = next(at for at, line in enumerate(lines, 1) if "attic" in line)
    shown = cli("skill", "blame", f"{run / 'best_skill.md'}:{number}").stdout
    assert "attic" in shown
    assert "cellar" not in shown
    assert "runs view" in shown


async def test_a_line_of_the_initial_skill_is_said_to_have_no_episode_behind_it(cli, tmp_path):
    coach = Coach([[ALL_RULES]])
    path, _ = await trained(doors_config(tmp_path), Walker(), coach, skill="Knock first.")
    shown = " ".join(cli("skill", "blame", path / "best_skill.md").stdout.split())
    assert "1 Knock first. v0 · initial skill · given at the start, so no episode" in shown
    assert shown.count("given at the start") == 1


async def test_reminders_come_from_the_episodes_of_the_analysts_that_noted_them(cli, tmp_path):
    config = doors_config(tmp_path, optimizer={"skill_aware": {}})
    path, _ = await trained(config, Walker(), Reminder([[], [ALL_RULES]], "Knock."))
    lines = json.loads(cli("skill", "blame", f"{path}@1", "--json").stdout)
    (note,) = [one for one in lines if one["text"] == "- Knock."]
    assert (note["step"], note["edits"]) == (1, [])
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        read = {one.id for one in store.episodes(phase="train", step=1)}
    assert {one["episode"] for one in note["witnesses"]} == read


def test_versions_that_differ_end_with_1_and_the_same_with_0(cli, run):
    shown = cli("skill", "diff", f"{run}@0", f"{run}@1", code=1).stdout
    assert "+In the attic take door 4." in shown
    assert cli("skill", "diff", f"{run}@1", f"{run}@1").stdout == ""


def test_a_file_that_was_edited_by_hand_is_refused(cli, run):
    (run / "best_skill.md").write_text("Something else.")
    said = cli("skill", "blame", run / "best_skill.md", code=2).stderr
    assert "edited by hand" in said
    assert "@0" in said


def test_the_note_above_the_current_skill_is_not_called_an_edit_by_hand(cli, run):
    (run / "current_skill.md").write_text("<!-- Not proven better. -->\n\nKnock.")
    said = cli("skill", "export", run / "current_skill.md", "--to", "claude", code=2).stderr
    assert "a note stands above the skill" in said
    assert f"{run.name}@0" in said


def test_an_empty_skill_is_not_taken_away_and_the_next_move_is_said(cli, run):
    said = cli("skill", "export", f"{run}@0", "--to", "claude", code=2).stderr
    assert f"{run.name}@0 is empty" in said
    assert re.search(rf"{run.name}@\d was proven better: name it", said)


@pytest.mark.parametrize("where", ["doors@99", "dors"])
def test_an_unknown_version_or_run_is_refused(cli, run, where):
    said = cli("skill", "blame", where, "--root", run.parent, code=2).stderr
    assert "error" in said


def test_exported_rows_recompute_the_printed_scores(cli, run, tmp_path):
    cli("runs", "export", run, "-o", tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    report = read_run(run).state.report
    by_version = defaultdict(list)
    for row in rows:
        if row["phase"] == "test" and row["reward"] is not None:
            by_version[row["skill_document"]].append(row["reward"])
    means = sorted(sum(rewards) / len(rewards) for rewards in by_version.values())
    printed = sorted({table.overall.mean_reward for table in report.tables.values()})
    assert means == pytest.approx(printed)


def test_parquet_holds_the_same_rows(cli, run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    cli("runs", "export", run, "-o", tmp_path / "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    with RunStore.open(run / "run.sqlite", read_only=True) as store:
        assert [one["reward"] for one in table] == [
            one.reward for one in sorted(store.episodes(), key=lambda one: one.id)
        ]


@pytest.mark.parametrize(
    ("name", "form"), [("a.csv", []), ("a.json", []), ("a.jsonl", ["--format", "parquet"])]
)
def test_rows_are_never_written_under_the_name_of_another_format(cli, run, tmp_path, name, form):
    said = cli("runs", "export", run, "-o", tmp_path / name, *form, code=2).stderr
    assert "not what its name says; end it in .parquet" in " ".join(said.split())
    assert not (tmp_path / name).exists()


def test_calls_and_spans_have_a_row_each(cli, run, tmp_path):
    cli("runs", "export", run, "--rows", "calls", "-o", tmp_path / "calls.jsonl")
    calls = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    cli("runs", "export", run, "--format", "otel", "-o", tmp_path / "spans.jsonl")
    requests = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    spans = [
        span
        for request in requests
        for scope in request["resourceSpans"][0]["scopeSpans"]
        for span in scope["spans"]
    ]
    chats = [span for span in spans if span["name"].startswith("chat")]
    agents = [span for span in spans if span["name"].startswith("invoke_agent")]
    assert len(chats) == len(calls)
    assert len(agents) == sum(1 for _ in agents) > 0
    known = {span["spanId"] for span in agents}
    assert all(span.get("parentSpanId", next(iter(known))) in known for span in chats)
    assert len({span["spanId"] for span in spans}) == len(spans)
    events = [event for span in agents for event in span["events"]]
    assert len(events) == len(agents)
    keys = ["gen_ai.evaluation.name", "gen_ai.evaluation.score.value"]
    assert all([one["key"] for one in event["attributes"]] == keys for event in events)
    assert {event["name"] for event in events} == {"gen_ai.evaluation.result"}
