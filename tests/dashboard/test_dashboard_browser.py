"""Pages in a real browser: clicking through, keys, live runs, narrow and dark, no barriers.

`axe/axe.min.js` is axe-core 4.14.1 (MPL-2.0, its license beside it).
"""

import shutil
import socket
import threading
from pathlib import Path

import pytest
import uvicorn

from paged import HOSTILE, TOKEN, ablation, played
from skillwright.bank import BankStore, Retire, seed_bank
from skillwright.core import skill_hash
from skillwright.dashboard import html_report, make_app
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
def full(root, stopped_once):
    """Everything that pages can show: a bank, an ablation, a second run, a run of weights."""
    with BankStore.open(root / "mine.sqlite") as store:
        store.adopt(seed_bank("alfworld"), reason="first")
        store.commit([Retire("g001", "unused")], reason="second")
    best = (root / "trained" / "best_skill.md").read_text(encoding="utf-8")
    (root / "trained" / "ablation.json").write_text(ablation(skill_hash(best)), encoding="utf-8")
    for name in ("text", "weights"):
        shutil.copytree(stopped_once / name, root / name)
    shutil.copytree(root / "trained", root / "again")
    return root


@pytest.mark.heavy
def test_two_runs_are_compared_and_a_bank_is_searched_by_clicking(page, address, full):
    page.goto(address)
    page.click("nav >> text=Compare")
    page.select_option("select[name=a]", "trained")
    page.select_option("select[name=b]", "again")
    page.click("button")
    assert "95% interval" in page.locator("p.headline").inner_text()
    page.click("nav >> text=Runs")
    page.click("text=mine.sqlite")
    page.fill("input[name=q]", "put a hot apple in fridge")
    page.click("button")
    assert page.locator("tr.delta").count() == 1
    assert page.locator("tr.above").count() > 0
    assert page.locator("svg.chart").count() == 1


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
        *(f"runs/weights/{name}" for name in ("", "tasks?phase=val", "training", "bank")),
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
