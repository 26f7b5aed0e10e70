"""Pages in a real browser: clicking through, keys, live runs, narrow and dark, no barriers.

`axe/axe.min.js` is axe-core 4.14.1 (MPL-2.0, its license beside it).
"""

import csv
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import uvicorn
from typer.testing import CliRunner

from paged import HOSTILE, TOKEN, ablation, played
from skillwright.bank import BankStore, Retire, seed_bank
from skillwright.cli.app import app as commands
from skillwright.core import skill_hash
from skillwright.dashboard import html_report, make_app
from skillwright.jobs.run import demo_file
from skillwright.runs import RunStore

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
VIEWS = (
    "",
    "tasks",
    "tasks?phase=test",
    "side-by-side?a=1&b=2",
    "skill",
    "edits",
    "episodes",
    "episodes?q=cabinet",
    "episodes/1",
    "costs?turns=1",
    "training",
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; install chromium")


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install -e .[dev]"
    )
    with api.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def address(root):
    """The pages, served on this machine; the address ends in a slash."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    settings = uvicorn.Config(
        make_app(root, token=TOKEN), log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture
def page(browser, address):
    """A page of somebody who followed the address with the token; no error may be logged."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    troubles = []
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    tab.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
    tab.goto(f"{address}?token={TOKEN}")
    yield tab
    tab.close()
    assert not troubles


def test_from_a_run_to_a_step_to_an_edit_to_the_episode_behind_it(page):
    page.click("text=trained")
    page.click("table >> nth=1 >> a >> nth=0")
    assert page.locator("h1").inner_text() == "Edits"
    page.locator("article.edit a").first.click()
    assert page.locator("h1").inner_text() == "Episodes"
    page.locator("tbody a").first.click()
    assert page.locator("section.turn").count() > 0


def test_keys_move_between_turns_and_episodes(page, address):
    page.goto(f"{address}runs/trained/episodes/2")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.id") == "t1"
    page.keyboard.press("n")
    page.wait_for_url("**/episodes/3")
    page.keyboard.press("/")
    page.keyboard.type("cabinet")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=cabinet*")
    assert page.locator("small.match").count() > 0


@pytest.mark.heavy
def test_a_long_search_ends_by_itself(page, address):
    page.goto(f"{address}runs/trained/episodes?q=no+episode+says+this")
    page.wait_for_selector("text=no more episodes hold this text")


def test_a_live_run_shows_what_happens_without_a_reload(page, address, root):
    with page.expect_response("**/live"):  # from here on the server watches the run
        page.goto(f"{address}runs/trained/")
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        store.append_event("visited", {})
    page.wait_for_selector("li:has-text('visited')")


@pytest.mark.heavy
def test_nothing_of_a_hostile_episode_runs(page, address, root):
    with RunStore.open(root / "trained" / "run.sqlite") as store:
        number = store.record_episode(played(903, HOSTILE, turns=2))
    for view in (f"episodes/{number}", "episodes", "tasks"):
        page.goto(f"{address}runs/trained/{view}")
        assert "owned" not in page.title()
    assert page.locator("img").count() == 0


@pytest.fixture
def full(root, stopped_once, rows_once):
    """Everything that pages can show: a bank, an ablation, a second run, a run of weights."""
    with BankStore.open(root / "mine.sqlite") as store:
        store.adopt(seed_bank("alfworld"), reason="first")
        store.commit([Retire("g001", "unused")], reason="second")
    best = (root / "trained" / "best_skill.md").read_text(encoding="utf-8")
    (root / "trained" / "ablation.json").write_text(ablation(skill_hash(best)), encoding="utf-8")
    for name in ("text", "weights"):
        shutil.copytree(stopped_once / name, root / name)
    shutil.copytree(root / "trained", root / "again")
    shutil.copytree(rows_once, root / "rows")
    return root


@pytest.mark.heavy
def test_two_runs_are_compared_and_a_bank_is_searched_by_clicking(page, address, full):
    page.goto(address)
    page.click("nav >> text=Compare")
    page.select_option("select[name=a]", "trained")
    page.select_option("select[name=b]", "again")
    page.click("form.filters button")
    assert "(95%: " in page.locator("p.headline").inner_text()
    page.click("nav >> text=Runs")
    page.click("text=mine.sqlite")
    page.fill("input[name=q]", "put a hot apple in fridge")
    page.click("form.filters button")
    assert page.locator("tr.delta").count() == 1
    assert page.locator("tr.above").count() > 0
    assert page.locator("svg.chart").count() == 1


def test_a_table_is_filtered_while_typing_sorted_by_a_click_and_saved(page, address):
    page.goto(f"{address}runs/trained/edits")
    rows = "table >> nth=0 >> tbody tr:visible"
    page.goto(f"{address}runs/trained/tasks?phase=test")
    page.fill("input[aria-label='filter Heat map']", "house-test-0003")
    assert page.locator("table.heat tbody tr:visible").count() == 1
    page.goto(f"{address}runs/trained/skill")
    assert page.locator(rows).first.locator("td").first.inner_text() == "v0"
    heading = page.locator("button.sorter").first
    heading.click()
    heading.click()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    assert page.locator(rows).last.locator("td").first.inner_text() == "v0"
    with page.expect_download() as saved:
        page.click("button[aria-label='save Versions as CSV']")
    found = list(csv.reader(Path(saved.value.path()).read_text(encoding="utf-8").splitlines()))
    assert found[0][:3] == ["version", "from", "written by"]
    assert found[-1][0] == "v0"


def test_episodes_are_filtered_while_typing_and_sorted_by_the_server(page, address):
    page.goto(f"{address}runs/trained/episodes")
    page.fill("input[name=task]", "house-test-0003")
    others = page.locator("#found tbody tr", has_not_text="house-test-0003")
    others.first.wait_for(state="detached")
    assert set(page.locator("#found tbody td:nth-child(3)").all_inner_texts()) != set()
    for text in page.locator("#found tbody td:nth-child(3)").all_inner_texts():
        assert text.startswith("house-test-0003")
    page.goto(f"{address}runs/trained/episodes")
    page.click("th >> text=score")
    assert "sort=score" in page.url
    scores = page.locator("#found tbody tr td:nth-child(6)").all_inner_texts()
    assert scores[0] == "0"
    page.click("th >> text=score")
    assert "sort=-score" in page.url
    assert page.locator("#found tbody tr td:nth-child(6)").first.inner_text() == "1"


def test_two_ticked_runs_are_compared_and_a_third_tick_replaces_the_first(page, address, full):
    page.goto(address)
    compare = page.locator("button[data-ticks]")
    assert compare.is_disabled()
    for name in ("rows", "trained", "again"):
        page.check(f"input[value={name}]")
    assert not page.is_checked("input[value=rows]")
    compare.click()
    assert "(95%: " in page.locator("p.headline").inner_text()


def test_a_mark_and_a_note_on_an_episode_are_kept(page, address, full):
    page.goto(f"{address}runs/rows/episodes/3")
    assert page.locator("details[open] summary").inner_text().startswith("First prompt")
    assert "channel:" in page.locator("dl.facts").inner_text()
    page.check("input[name=mark]")
    page.fill("textarea[name=text]", "Ask <b>Ann</b>;\nher rule differs.")
    page.click("form.note button")
    page.wait_for_url("**/runs/rows/episodes/3")
    assert page.is_checked("input[name=mark]")
    assert page.input_value("textarea[name=text]") == "Ask <b>Ann</b>;\nher rule differs."
    page.goto(f"{address}runs/rows/episodes?sort=episode")
    assert page.locator("tbody tr:has-text('e3') span.note").first.get_attribute("title")


@pytest.mark.heavy
def test_the_report_shows_every_figure_without_a_network(browser, full, tmp_path):
    for run, figures in {"trained": 2, "weights": 1}.items():  # one was stopped at its beginning
        file = tmp_path / f"{run}.html"
        file.write_text(html_report(full / run), encoding="utf-8")
        assert file.stat().st_size < 1_500_000
        context = browser.new_context(offline=True, java_script_enabled=False)
        tab = context.new_page()
        asked = []
        tab.on("request", lambda request, asked=asked: asked.append(request.url))
        tab.goto(file.as_uri())
        charts = tab.locator("svg.chart")
        assert charts.count() >= figures
        for number in range(charts.count()):
            box = charts.nth(number).bounding_box()
            assert box["width"] > 200
            assert box["height"] > 50
        assert asked == [file.as_uri()]
        context.close()


@pytest.mark.heavy
def test_the_report_of_the_demo_is_short_and_has_transcripts_of_flipped_tasks(browser, tmp_path):
    with ThreadPoolExecutor(1) as apart, demo_file("text") as path:
        words = ["train", str(path), "--set", f"run.root={tmp_path}"]
        result = apart.submit(CliRunner().invoke, commands, words).result()
    assert result.exit_code == 0, result.output
    file = tmp_path / "report.html"
    file.write_text(html_report(tmp_path / "demo"), encoding="utf-8")
    assert file.stat().st_size < 1_500_000
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(file.as_uri())
    assert tab.evaluate("document.documentElement.scrollHeight") <= 5000
    first = tab.locator("details:has(> .pair)").first
    first.locator("summary").first.click()
    assert first.locator("section.turn").first.is_visible()
    tab.close()


@pytest.mark.parametrize(
    ("scheme", "width"),
    [("dark", 390), pytest.param("light", 1280, marks=pytest.mark.heavy)],
)
def test_a_report_is_legible_and_without_barriers(browser, full, tmp_path, scheme, width):
    for run in ("rows", "trained"):
        file = tmp_path / f"{run}.html"
        file.write_text(html_report(full / run), encoding="utf-8")
        tab = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
        tab.goto(file.as_uri())
        for number in range(tab.locator("summary").count()):
            if tab.locator("summary").nth(number).is_visible():
                tab.locator("summary").nth(number).click()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        if width < 700 and run == "rows":  # a cell shows the name of its column, and none is cut
            box = tab.locator("td[data-label=expected]").first.bounding_box()
            assert box["width"] > 200
            assert box["x"] + box["width"] <= width
        tab.evaluate(AXE)
        result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [one for one in result["violations"] if one["impact"] in ("serious", "critical")]
        assert not [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]
        tab.close()


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("dark", 390),
        *(
            pytest.param(*one, marks=pytest.mark.heavy)
            for one in (
                ("light", 1280),
                ("light", 390),
                ("dark", 1280),
            )
        ),
    ],
)
def test_no_view_has_a_serious_barrier(browser, address, full, scheme, width):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    tab = context.new_page()
    tab.goto(f"{address}?token={TOKEN}")
    found = {}
    other = (
        "compare?a=trained&b=again",
        "banks/mine.sqlite?q=put+a+hot+apple+in+fridge",
        "compare?run=trained",
        *(f"runs/weights/{name}" for name in ("", "tasks?phase=val", "training", "bank")),
        *(f"runs/rows/{name}" for name in ("", "episodes", "episodes?sort=-score", "episodes/3")),
    )
    for view in ("", "compare", *other, *(f"runs/trained/{name}" for name in VIEWS)):
        tab.goto(address + view)
        tab.evaluate(AXE)
        result = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found[view] = [
            (one["id"], one["nodes"][0]["html"][:200])
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        wide = tab.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{view} is {wide} pixels wide"
    context.close()
    assert not {view: rows for view, rows in found.items() if rows}
