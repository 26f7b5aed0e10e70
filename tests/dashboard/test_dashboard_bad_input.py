"""Pages over what is damaged, stopped, huge or hostile: each loads, and nothing acts."""

import json
import os
import random
import shutil
import sqlite3

import pytest
from starlette.testclient import TestClient

from paged import HOSTILE, TOKEN, ablation, played
from skillwright.bank import BankStore, seed_bank
from skillwright.core import skill_hash
from skillwright.dashboard import make_app
from skillwright.dashboard.app import COOKIE
from skillwright.runs import RunStore
from skillwright.runs.folder import is_at_work

RUN = "/runs/trained/"
VIEWS = (
    "",
    "tasks",
    "tasks?phase=test",
    "skill",
    "edits",
    "episodes",
    "episodes?q=cabinet",
    "episodes/1",
    "episodes/40",
    "costs?turns=1",
    "training",
    "bank",
)


@pytest.fixture
def stopped(stopped_once, tmp_path):
    """Ask for the pages of two runs that were stopped."""
    root = shutil.copytree(stopped_once, tmp_path / "stopped")
    with TestClient(make_app(root, token=TOKEN), base_url="http://127.0.0.1:8000") as client:
        client.cookies.set(COOKIE.format(port=8000), TOKEN)
        yield client


def change(root, sql, *values):
    connection = sqlite3.connect(root / "trained" / "run.sqlite", isolation_level=None)
    connection.execute(sql, values)
    connection.close()


def at_work(root, pid):
    holder = {"pid": pid, "host": os.uname().nodename, "started_at": "now"}
    (root / "trained" / "run.lock").write_text(json.dumps(holder), encoding="utf-8")


@pytest.mark.parametrize("seed", range(4))
def test_a_store_with_damaged_bytes_is_shown_or_refused_page_by_page(root, pages, seed):
    path = root / "trained" / "run.sqlite"
    with RunStore.open(path) as store:  # all of it in one file
        store._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    body, chance = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(200):
        body[chance.randrange(100, len(body))] = chance.randrange(256)
    path.write_bytes(body)
    for view in VIEWS:
        answer = pages.get(RUN + view)
        assert answer.status_code in (200, 404, 500)
        assert "<h1>" in answer.text
    assert pages.get("/").status_code == 200


def test_a_text_that_cannot_be_unpacked_spoils_its_own_page_alone(root, pages):
    change(root, "UPDATE episodes SET said = ? WHERE id = 5", b"no zlib")
    answer = pages.get(RUN + "episodes/5")
    assert answer.status_code in (404, 500)
    assert "damaged" in answer.text
    assert pages.get(RUN + "episodes/6").status_code == 200


def test_a_run_of_another_version_is_refused_with_the_next_move(root, pages):
    change(root, "PRAGMA user_version = 99")
    answer = pages.get(RUN)
    assert answer.status_code == 404
    assert "Open it with that version, or start a new run." in answer.text


@pytest.mark.parametrize("run", ["text", "weights"])
def test_a_run_that_was_stopped_is_shown(stopped, run):
    for view in VIEWS:
        if "40" not in view:
            answer = stopped.get(f"/runs/{run}/{view}")
            assert answer.status_code == 200, (view, answer.text[-300:])
    assert stopped.get("/").status_code == 200


def test_checkpoints_with_the_same_bank_are_told_apart(stopped, tmp_path):
    assert "cold start" in stopped.get("/runs/weights/tasks?phase=val").text
    with RunStore.open(tmp_path / "stopped" / "weights" / "run.sqlite") as store:
        (first,) = store.events("validation")
        (episode, *_) = store.episodes(phase="val")
        later = {**first.payload, "iteration": 3, "policy": "scorer:later"}
        store.append_event("validation", later)
        result = store.load_episode(episode.id)
        store.record_episode(
            type(result)(**{**fields_of(result), "key": "f" * 64}), agent="scorer:later t=0"
        )
    page = stopped.get("/runs/weights/tasks?phase=val").text
    head = page.split('class="heat"')[1].split("</thead>")[0]
    assert head.index("cold start") < head.index("iteration 3")


def fields_of(result):
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


def test_whether_a_process_works_on_a_run_is_said(root, pages):
    change(root, "DELETE FROM events WHERE kind IN ('finished', 'test', 'session_ended')")
    at_work(root, 2**22 - 3)
    assert is_at_work(root / "trained") is False
    assert 'class="status stopped"' in pages.get(RUN).text
    at_work(root, os.getpid())
    page = pages.get(RUN).text
    assert 'class="status running"' in page
    assert "left</strong> at this pace" in page
    for other in ("no json", '{"pid": "x"}', '{"pid": 1, "host": "elsewhere"}', "[]"):
        (root / "trained" / "run.lock").write_text(other, encoding="utf-8")
        assert "not finished" in pages.get(RUN).text


def test_ten_megabytes_of_hostile_text_are_shown_in_part_and_whole_where_asked(root, pages):
    huge = (HOSTILE + "\u202e\x1b[2J") * 200_000
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        number = store.record_episode(played(970, huge[:10_000_000]))
    for view in (f"episodes/{number}", "episodes", "tasks", "episodes?q=owned"):
        text = pages.get(RUN + view).text
        assert len(text) < 1_000_000
        assert not set("\x1b\x07\u202e") & set(text)
        assert "<script>document" not in text
    whole = pages.get(f"{RUN}episodes/{number}?full=1").text
    assert len(whole) > 10_000_000
    assert "<img" not in whole


def test_what_a_run_is_called_cannot_act(root, pages):
    shutil.copytree(root / "trained", root / "<img src=x onerror=alert(1)>")
    for address in ("/", "/compare"):
        text = pages.get(address).text
        assert "<img" not in text
        assert "onerror=alert" in text


def test_runs_of_other_tasks_are_refused_with_the_reason(root, pages, stopped):
    shutil.copytree(root / "trained", root / "other")
    config = root / "other" / "config.yaml"
    config.write_text(
        config.read_text(encoding="utf-8").replace("name: alfworld", "name: webshop"),
        encoding="utf-8",
    )
    answer = pages.get("/compare", params={"a": "trained", "b": "other"})
    assert answer.status_code == 200
    assert 'class="problem"' in answer.text
    unfinished = stopped.get("/compare", params={"a": "text", "b": "weights"})
    assert unfinished.status_code == 200
    assert 'class="problem"' in unfinished.text
    assert pages.get("/compare?a=trained&b=nowhere").status_code == 200


def test_flips_of_two_runs_are_read_side_by_side(root, pages):
    shutil.copytree(root / "trained", root / "again")
    change(
        root,
        "UPDATE episodes SET reward = 0 WHERE phase = 'test' AND id % 2",
    )
    page = pages.get("/compare", params={"a": "trained", "b": "again"}).text
    link = page.split('href="/side-by-side?')[1].split('"')[0].replace("&amp;", "&")
    both = pages.get(f"/side-by-side?{link}").text
    assert both.count("<article>") == 2
    assert "trained: " in both
    assert "again: " in both
    assert "p = " in page
    assert "(95%: " in page
    assert pages.get("/side-by-side?a=trained&b=again&task=none").status_code == 404


def test_the_measured_value_of_a_section_stands_beside_its_lines(root, pages):
    best = (root / "trained" / "best_skill.md").read_text(encoding="utf-8")
    assert "skillwright skill ablate trained@" in pages.get(RUN + "skill").text
    file = root / "trained" / "ablation.json"
    file.write_text(ablation(skill_hash(best)), encoding="utf-8")
    page = pages.get(RUN + "skill").text
    assert page.count("+25.0") >= 2  # of the section, and of its lines
    assert "+10.0 to +40.0" in page
    assert "Searching <script>" not in page
    file.write_text(ablation("another text"), encoding="utf-8")
    assert "+25.0" not in pages.get(RUN + "skill").text


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        "{}",
        ablation("v", proposal="<b>"),
        ablation("v", value=float("nan")),
        ablation("v", first_line=9),
        ablation("v", interval=[1]),
    ],
)
def test_a_damaged_ablation_is_named_and_the_page_still_loads(root, pages, text):
    (root / "trained" / "ablation.json").write_text(text, encoding="utf-8")
    answer = pages.get(RUN + "skill")
    assert answer.status_code == 200
    assert "ablation.json is damaged" in answer.text


def test_a_bank_on_its_own_is_listed_searched_and_shown_as_it_grew(root, pages):
    path = root / "mine.sqlite"
    with BankStore.open(path) as store:
        store.adopt(seed_bank("alfworld"), reason=HOSTILE)
        store.commit([], reason="nothing")
    assert "/banks/mine.sqlite" in pages.get("/").text
    page = pages.get("/banks/mine.sqlite").text
    assert "55" in page
    assert "<img" not in page
    assert not set("\x1b\x07") & set(page)
    found = pages.get("/banks/mine.sqlite", params={"q": "put a hot apple in fridge"}).text
    above, below = found.split('class="delta"')
    assert 'class="above"' in above
    assert 'class="below"' not in above.split('id="search"')[1]
    assert 'class="below"' in below
    assert "injected</span>" in above
    nothing = pages.get("/banks/mine.sqlite", params={"q": HOSTILE * 50, "from": "-3"})
    assert nothing.status_code == 200
    assert "<img" not in nothing.text


def test_a_bank_that_is_damaged_or_missing_is_refused_with_the_reason(root, pages):
    path = root / "mine.sqlite"
    with BankStore.open(path) as store:
        store.adopt(seed_bank("alfworld"), reason="first")
    path.write_bytes(path.read_bytes()[:5000])
    for log in root.glob("mine.sqlite-*"):
        log.unlink()
    answer = pages.get("/banks/mine.sqlite")
    assert answer.status_code in (404, 500)
    assert "damaged" in answer.text
    (root / "notes.sqlite").write_bytes(b"SQLite format 3\0 but no bank of ours" + b"\0" * 100)
    assert pages.get("/banks/notes.sqlite").status_code == 404
    assert pages.get("/").status_code == 200
