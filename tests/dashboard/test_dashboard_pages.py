"""Pages over a run: every view shows what the store holds, and nothing of it can act."""

import csv
import html
import json
import re
import shutil

import pytest
from starlette.testclient import TestClient

from doors import ALL_RULES, Walker, doors_config, llms
from paged import HOSTILE, TOKEN, played
from skillwright.dashboard import html_report, make_app, markdown_report
from skillwright.dashboard.app import form_key
from skillwright.dashboard.facts import csv_text
from skillwright.evaluation import gain_text
from skillwright.jobs.inspect import ExportRows, export_run, read_run
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import CheckPlan, run_check, start_check
from skillwright.runs import RunStore

RUN = "/runs/trained/"
VIEWS = ("", "tasks", "tasks?phase=test", "skill", "edits", "episodes", "episodes/1", "costs")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_a_trained_run_is_shown(pages, view):
    answer = pages.get(RUN + view)
    assert answer.status_code == 200
    assert "<h1>" in answer.text


def test_the_list_says_what_each_run_gained(pages, root):
    gain = read_run("trained", root).state.report.gains["best"].gain
    assert gain_text(gain) in pages.get("/").text


async def test_a_check_shows_its_answer_and_both_skills(pages, root):
    config = doors_config(root.parent, run={"name": "checked", "root": str(root)})
    with start_check(config, ALL_RULES, "", CheckPlan("new.md", "no skill", "val")) as run:
        report = await run_check(run, NullCallback(), llms(Walker()))
    page = html.unescape(pages.get("/runs/checked/").text)
    assert report.verdict.sentence in page
    assert "old: no skill; new: new.md" in page
    assert "Verdicts of the gate" not in page
    assert "better" in pages.get("/").text


def test_a_line_of_the_skill_leads_to_the_turns_that_it_was_written_from(pages):
    links = re.findall(r'href="(episodes/\d+\?turns=[\d,]+)#t\d+"', pages.get(RUN + "skill").text)
    assert links
    page = pages.get(RUN + links[0].replace("&amp;", "&")).text
    assert "cited by an edit" in page


def test_a_fault_is_marked_apart_from_what_was_not_solved_and_not_run(pages, hostile):
    page = pages.get(RUN + "tasks").text
    rows = {row.split("</a>")[0]: row for row in page.split('<th scope="row">')}
    failed = next(row for name, row in rows.items() if "task-2" in name)
    assert 'class="cell fail"' in failed
    assert "not run" in failed
    assert "c0" not in failed


@pytest.mark.parametrize("view", ["episodes", "episodes/{}", "tasks", "costs", "side-by-side"])
def test_hostile_text_is_shown_and_cannot_act(pages, hostile, view):
    scored, failed = hostile
    address = view.format(scored) + (f"?a={scored}&b={failed}" if "side" in view else "")
    answer = pages.get(RUN + address)
    assert answer.status_code == 200
    assert "<script>document" not in answer.text
    assert "<img" not in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy


def test_a_text_is_found_in_what_was_said(pages, hostile):
    page = pages.get(RUN + "episodes", params={"q": "saw 2 <script>"}).text
    assert f"e{hostile[0]}" in page
    assert f"e{hostile[1]}<" not in page


def test_a_search_that_takes_long_goes_on_with_the_next_request(root, pages):
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        for number in range(1000, 1120):
            store.record_episode(played(number, "needle", task=f"task-{number}"))
    first = pages.get(RUN + "episodes", params={"q": "needle"}).text
    more = re.search(r'hx-get="([^"]+before=\d+)"', first)
    assert more is not None
    second = pages.get(more[1].replace("&amp;", "&")).text
    assert "<html" not in second
    assert len(re.findall("task-1", first + second)) > 50


def test_other_hosts_and_requests_without_the_token_are_refused(root):
    app = make_app(root, token=TOKEN)
    with TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False) as client:
        assert client.get("/").status_code == 403
        assert client.get("/?token=wrong").status_code == 403
        assert client.get("/static/style.css").status_code == 403
        first = client.get(f"{RUN}?token={TOKEN}")
        assert first.status_code == 303
        assert "token" not in first.headers["location"]
        assert client.get(RUN).status_code == 200
        assert client.post(RUN).status_code == 405
    with TestClient(app, base_url="http://evil.example") as client:
        assert client.get(f"/?token={TOKEN}").status_code == 403


def test_unknown_runs_versions_and_numbers_are_answered_with_what_is_there(pages):
    answer = pages.get("/runs/traned/")
    assert answer.status_code == 404
    assert "trained" in answer.text
    assert pages.get(RUN + "skill?version=99").status_code == 404
    assert pages.get(RUN + "edits?step=many").status_code == 404
    assert pages.get(RUN + "episodes/99999").status_code == 404
    assert pages.get(RUN + "episodes/" + "9" * 30).status_code == 404
    assert pages.get(RUN + "episodes?before=--5").status_code == 404


def test_a_fork_is_shown_with_what_it_played_and_without_its_record(root, pages, cli_words):
    cli_words("fork", "trained", "e1", "--turn", "1", "-k", "2", "--root", str(root))
    fork = "/runs/trained-fork/"
    assert "2 of 2 episodes" in pages.get(fork).text
    assert " of 2 solved" in pages.get(fork + "tasks").text
    assert pages.get(fork + "episodes/e1").text == pages.get(fork + "episodes/1").text


def test_text_that_is_no_text_is_shown_all_the_same(root, pages, tmp_path):
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        number = store.record_episode(played(960, "half \ud83d of a sign"))
    assert "half" in pages.get(f"{RUN}episodes/{number}").text
    count = export_run(root / "trained", tmp_path / "rows.jsonl", rows=ExportRows.CALLS)
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == count


def test_a_long_text_of_one_side_is_shown_whole_on_its_own_page(root, pages):
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        first = store.record_episode(played(961, "a" * 5000, turns=3))
        second = store.record_episode(played(962, "b" * 5000, task="task-3"))
    page = pages.get(f"{RUN}side-by-side", params={"a": first, "b": second}).text
    whole = re.search(rf'href="(/runs/trained/episodes/{second}\?full=1[^"#]*)', page)
    assert whole is not None
    assert "b" * 5000 in pages.get(whole[1].replace("&amp;", "&")).text


def test_a_run_that_cannot_be_read_is_listed_with_the_reason(root, pages):
    broken = shutil.copytree(root / "trained", root / "broken")
    (broken / "run.sqlite").write_bytes(b"no database at all, but long enough to be looked at")
    page = pages.get("/").text
    assert "unreadable" in page
    assert pages.get("/runs/broken/").status_code == 404
    assert pages.get("/runs/trained/").status_code == 200


def test_two_runs_are_compared_task_by_task(root, pages):
    shutil.copytree(root / "trained", root / "again")
    page = pages.get("/compare", params={"a": "trained", "b": "again"}).text
    assert "paired by task" in page
    assert "10 tasks" in page


def test_a_run_that_is_being_written_is_shown_with_what_came_last(root, pages):
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        number = store.record_episode(played(950, "just now"))
        assert f"e{number}" in pages.get(RUN + "episodes").text


def test_the_report_holds_everything_and_needs_nothing_else(root, hostile):
    text = html_report(root / "trained")
    assert len(text) < 1_500_000
    assert not re.search(r'(src|href)="(?!#|data:)', text)
    assert "<script" not in text
    report = read_run("trained", root).state.report
    for table in report.tables.values():
        assert f"{table.overall.success_rate:.0%}" in text
    assert gain_text(report.gains["best"].gain) in text


def test_the_score_that_the_gate_expects_is_named_beside_that_of_the_draws(root, pages):
    judged = read_run("trained", root).state.steps[0].verdict
    page = pages.get(RUN).text
    row = page[page.index('<th class="n">expected</th>') :].split("<tr>")[2]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", row)
    assert cells[:3] == ["1", "v1", f"{judged.current.mean:.0%}"]
    assert "which also weighs draws of other versions" in page


def test_the_report_for_a_pull_request_has_gain_diff_and_flipped_tasks(root):
    text = markdown_report(root / "trained")
    gain = read_run("trained", root).state.report.gains["best"].gain
    assert f"**{gain_text(gain)} (95%: " in text
    assert "```diff" in text
    assert HOSTILE not in text
    assert 0 < len(re.findall(r"^- `house-test", text, re.MULTILINE)) <= 3


def test_flips_are_of_the_initial_and_the_released_skill_and_not_of_the_placebo(root, pages):
    released = read_run("trained", root).state.best_version
    assert "Flipped test tasks, initial -> released: " in markdown_report(root / "trained")
    page = pages.get(RUN + "tasks?phase=test").text
    assert f"Flipped between v0 and v{released}" in page
    head = page.split('class="heat"')[1].split("</thead>")[0]
    assert "placebo" in head
    assert "released" in head


def test_the_timeline_has_current_and_released_with_intervals_and_the_alpha_that_is_left(pages):
    page = pages.get(RUN).text
    assert re.search(r"Alpha left: <strong>[\d.]+</strong> of [\d.]+ after [1-9]\d* of", page)
    assert page.count("<svg") == 2
    assert 'aria-label="Current and released"' in page
    rows = page.split('aria-label="Current and released"')[1].split("</table>")[0]
    assert re.search(r"v0</td><td class=\"n\">\d+%</td><td class=\"n\">\d+% to \d+%", rows)


def test_what_was_searched_for_is_marked_in_the_list_and_in_the_episode(pages):
    page = pages.get(RUN + "episodes", params={"q": "CABINET"}).text
    assert "<mark>cabinet</mark>" in page
    link = re.search(r'href="(/runs/trained/episodes/\d+\?q=CABINET)"', page)
    assert "<mark>cabinet</mark>" in pages.get(link[1]).text


def test_the_overview_names_date_models_data_scorer_and_configuration(pages, root, rows_once):
    shutil.copytree(rows_once, root / "rows")
    said = pages.get("/runs/rows/").text
    for name, value in (
        ("target", "scripted:clerk"),
        ("optimizer", "scripted:clerk_analyst"),
        ("data", "messages.csv; tasks played: 20 train, 20 val, 20 test"),
        ("scorer", "exact"),
        ("configuration", "explore gate, 1 epoch, seed 42"),
        ("date", " UTC"),
    ):
        assert re.search(f"<dt>{name}</dt><dd>[^<]*{re.escape(value)}", said), name
    assert "<summary>config.yaml</summary>" in said


def test_episodes_list_question_expected_answer_and_score_also_as_csv(pages, root, rows_once):
    shutil.copytree(rows_once, root / "rows")
    said = pages.get("/runs/rows/episodes").text
    for head in ("question", "expected", "answer", "score"):
        assert f">{head}<" in said
    answer = pages.get("/runs/rows/episodes.csv?outcome=unsolved&phase=test")
    assert answer.headers["content-type"].startswith("text/csv")
    head, *rows = list(csv.reader(answer.text.splitlines()))
    assert rows
    at = {name: number for number, name in enumerate(head)}
    for row in rows:
        assert row[at["outcome"]] == "unsolved"
        assert row[at["expected"]] != row[at["answer"]]
    assert pages.get("/runs/none/episodes.csv").status_code == 404


def test_a_text_that_a_spreadsheet_would_run_is_saved_as_text():
    text = csv_text(["a"], [["=1+1"], ["-0.5"], ["@x"], [-1.5], ["- a rule"], ["fine"]])
    assert text.splitlines() == ["a", "'=1+1", "-0.5", "'@x", "-1.5", "'- a rule", "fine"]


def note(pages, number, **asked):
    key = re.search(r'name="key" value="(\w+)"', pages.get(f"/runs/trained/episodes/{number}").text)
    asked = {"key": key[1], **asked}
    return pages.post(f"/runs/trained/episodes/{number}/note", data=asked, follow_redirects=False)


def test_a_note_is_kept_in_the_run_and_shown_and_an_empty_one_is_removed(pages, root):
    path = root / "trained" / "notes.json"
    assert note(pages, 1, text="<script>x</script>\r\nsecond", mark="on").status_code == 303
    assert json.loads(path.read_text()) == {
        "1": {"is_marked": True, "text": "<script>x</script>\nsecond"}
    }
    shown = pages.get("/runs/trained/episodes/1").text
    assert "&lt;script&gt;x&lt;/script&gt;" in shown
    assert "★" in pages.get("/runs/trained/episodes?sort=episode").text
    assert note(pages, 2, text=" ").status_code == 303
    assert note(pages, 1, text="").status_code == 303
    assert json.loads(path.read_text()) == {}


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/runs/trained/episodes/1/note", {"key": "wrong", "text": "x"}, 403),
        ("/runs/trained/episodes/1/note", {"text": "x"}, 403),
        ("/runs/trained/episodes/999999/note", {"text": "x"}, 409),
        ("/runs/none/episodes/1/note", {"text": "x"}, 409),
        ("/runs/trained/episodes/1/note", {"text": "x" * 10_001}, 409),
        ("/runs/trained/episodes/1/note", {"text": "x" * 300_000}, 413),
        ("/runs/trained/episodes/1", {"text": "x"}, 405),
        ("/runs/trained/episodes/x/note", {"text": "x"}, 405),
    ],
)
def test_a_note_without_our_key_or_on_nothing_is_refused_and_changes_nothing(
    pages, root, path, asked, status
):
    if status not in (403, 405):
        asked = {"key": form_key(TOKEN), **asked}
    assert pages.post(path, data=asked).status_code == status
    assert not (root / "trained" / "notes.json").exists()


def test_a_damaged_file_of_notes_is_named_and_left_alone(pages, root):
    path = root / "trained" / "notes.json"
    path.write_text("[not json", encoding="utf-8")
    said = pages.get("/runs/trained/episodes/1").text
    assert "notes.json" in said
    assert 'name="text"' not in said
    asked = {"key": form_key(TOKEN), "text": "x"}
    assert pages.post("/runs/trained/episodes/1/note", data=asked).status_code == 409
    assert path.read_text(encoding="utf-8") == "[not json"


@pytest.mark.parametrize(
    ("ticked", "said"),
    [("?run=trained", "1 runs are ticked"), ("?run=a&run=b&run=c", "3 runs are ticked")],
)
def test_other_than_two_ticked_runs_are_refused(pages, ticked, said):
    assert said in pages.get(f"/compare{ticked}").text


def test_the_report_lists_rows_and_transcripts_and_leads_nowhere(root, rows_once):
    shutil.copytree(rows_once, root / "rows")
    said = html_report(root / "rows")
    assert "<summary>Test tasks: 20 rows</summary>" in said
    assert 'data-label="expected"' in said
    assert "solved now" in said
    assert "Expected &#34;" in said  # a transcript
    for dead in (
        "side by side",
        "show all",
        "Count the turns",
        "earlier tasks",
        "<form",
        "<button",
    ):
        assert dead not in said
    links = re.findall(r'<a [^>]*href="([^"]*)"', said)
    assert links == [f"#s{number + 1}" for number in range(len(links))]
