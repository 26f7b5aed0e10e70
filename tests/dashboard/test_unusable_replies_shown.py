"""Where a person looks: what became of the optimizer's replies, of edits, and of failures."""

import re
import shutil
import sqlite3
from contextlib import closing

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from doors import ALL_RULES, Coach, Walker, doors_config, trained
from paged import HOSTILE, TOKEN, played, run_apart
from skillwright.cli.app import app as commands
from skillwright.core import Completion, ModelError
from skillwright.dashboard import make_app
from skillwright.dashboard.app import COOKIE
from skillwright.dashboard.pace import pace_of
from skillwright.dashboard.reading import reading
from skillwright.dashboard.report import html_report, markdown_report
from skillwright.jobs.inspect.summary import read_folder
from skillwright.jobs.run import REGRADED
from skillwright.rollout import EngineDown
from skillwright.runs import RunFolder, RunStore

SING = {"op": "sing", "content": "La."}
LOST = {"op": "replace", "target": "no such line", "content": "x"}
FEW = {"train": {"batch_size": 12}, "gradient": {"minibatch_size": 12}}


class Mute(Coach):
    """Answers the analysts' questions with one text."""

    def __init__(self, text):
        super().__init__([])
        self._text = text

    async def complete(self, messages, **kwargs):
        if "## Trajectories" in messages[1]["content"]:
            return Completion(self._text)
        return await super().complete(messages, **kwargs)


def run_of(folder, coach, **sections):
    path, _ = run_apart(trained(doors_config(folder, **sections), Walker(), coach))
    return path


def words_of(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def page(path, view):
    with TestClient(make_app(path.parent, token=TOKEN), base_url="http://127.0.0.1:8000") as one:
        one.cookies.set(COOKIE.format(port=8000), TOKEN)
        answer = one.get(f"/runs/{path.name}/{view}")
    assert answer.status_code == 200
    return words_of(answer.text)


def shown(path):
    result = CliRunner().invoke(commands, ["runs", "show", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    return " ".join(result.output.split())


def everywhere(path):
    """Return what each place says of a run."""
    return {
        "runs show": shown(path),
        "html": words_of(html_report(path)),
        "md": markdown_report(path).replace("\\", ""),
        "overview": page(path, ""),
        "edits": page(path, "edits"),
        "costs": page(path, "costs"),
    }


def test_a_skipped_step_says_why_wherever_a_person_looks(tmp_path):
    path = run_of(tmp_path, Mute("I would rather not."), run={"parity": True})
    for place, text in everywhere(path).items():
        assert "optimizer replies could not be read" in text, place
        assert "(example: call s1.f0)" in text, place
        assert "No call failed" not in text, place


def test_dropped_edits_are_shown_with_their_cause(tmp_path):
    path = run_of(tmp_path, Coach([[SING], ["Be quick."]]), gradient={"minibatch_size": 12})
    for place, text in everywhere(path).items():
        assert "op 'sing' is none of append" in text.replace("&#39;", "'"), place


def test_a_stopped_run_says_why_wherever_a_person_looks(tmp_path):
    with pytest.raises(EngineDown):
        run_of(tmp_path, Mute("no"), gradient={"minibatch_size": 1})
    for place, text in everywhere(tmp_path / "runs" / "doors").items():
        assert text.count("6 of 6 optimizer replies could not be read") == 1 + 2 * (place == "html")
        assert "stopped" in text.lower(), place


def test_the_edits_page_counts_what_was_proposed_dropped_merged_selected_and_applied(tmp_path):
    plan = [[ALL_RULES, SING, LOST], ["Be quick."]]
    path = run_of(tmp_path, Coach(plan), gradient={"minibatch_size": 2})
    with reading(path) as reader:
        first, second = reader.funnel()
        analysts = [one for one in reader.store.patches(1) if one.source_type and not one.level]
    names = ("proposed", "dropped", "merged", "selected", "applied")
    count = len(analysts)
    assert count > 2
    assert [first[name] for name in names] == [3 * count, count, 2, 2, 1]
    assert [second[name] for name in names][1:] == [0, 1, 1, 1]
    assert f"1 {3 * count} {count} 2 2 1" in page(path, "edits?step=1")


def test_without_a_merge_the_proposed_edits_are_those_that_are_left(tmp_path):
    coach = Coach([["Be quick.", "Be kind."]])
    path = run_of(tmp_path, coach, **FEW, optimizer={"learning_rate": 9})
    with reading(path) as reader:
        (step,) = reader.funnel()
    assert step["proposed"] >= step["merged"] == step["selected"] == step["applied"] == 2


def test_a_failed_call_never_stands_beside_the_word_that_each_was_answered(tmp_path):
    class Lost(Coach):
        lost = False

        def _answer(self, user):
            if "## Trajectories" in user and not self.lost:
                self.lost = True
                raise ModelError("503: <b>the gateway</b>\x1b[31m")
            return super()._answer(user)

    path = run_of(tmp_path, Lost([[ALL_RULES]]))
    text = page(path, "costs")
    assert "503: &lt;b&gt;the gateway&lt;/b&gt;" in text
    assert "Each call was answered" not in text
    assert "optimizer calls failed: 503" in text


def test_thousands_of_failure_causes_and_huge_and_hostile_ones_are_borne(tmp_path):
    path = run_of(tmp_path, Coach([[ALL_RULES]]))
    with RunStore.open(path / "run.sqlite") as store, store.transaction():
        for number in range(3000):
            cause = f"cause {number} {HOSTILE}"
            store.record_episode(played(number, failure=cause), usage={})
        for number in range(3000, 3003):
            store.record_episode(played(number, failure="x" * 3_000_000), usage={})
    html, md = html_report(path), markdown_report(path)
    assert "<script>document" not in html
    assert "<script>" not in md.replace("\\<", "")
    assert "\x1b" not in html + md
    assert len(html) < 500_000
    assert len(md) < 20_000
    assert "The 50 most frequent of 3,001 different messages are shown." in html
    assert page(path, "costs")


NOT_HERE = {
    "model": ("backend: scripted", "backend: acme_cloud"),
    "environment": ("  name: /", "  name: /nowhere/"),
    "tracker": ("trackers: []", "trackers: [acme]"),
    "engine": ("engine: local", "engine: acme"),
    "gate": ("kind: explore", "kind: acme"),
}


@pytest.fixture(scope="module")
def proven(tmp_path_factory):
    """A finished run, and what each place says of it."""
    path = run_of(tmp_path_factory.mktemp("proven"), Coach([[ALL_RULES]]))
    return path, markdown_report(path)


@pytest.mark.parametrize("what", NOT_HERE)
def test_a_run_of_another_machine_is_shown_without_what_it_used_there(proven, tmp_path, what):
    made, report = proven
    path = shutil.copytree(made, tmp_path / "runs" / "doors")
    old, new = NOT_HERE[what]
    config = (path / "config.yaml").read_text(encoding="utf-8")
    assert old in config
    (path / "config.yaml").write_text(config.replace(old, new), encoding="utf-8")
    after = everywhere(path)
    assert after["md"] == report
    assert "Version 1 is released" in after["runs show"]
    assert "Gain on held-out tasks" in after["html"]


def test_a_regrading_days_later_is_no_work(proven, tmp_path):
    path = shutil.copytree(proven[0], tmp_path / "runs" / "doors")
    with reading(path) as reader:
        before = pace_of(read_folder(RunFolder.look(path)), reader)
    with RunStore.open(path / "run.sqlite") as store:
        store.append_event(REGRADED, {})
    with closing(sqlite3.connect(path / "run.sqlite")) as database, database:
        database.execute("UPDATE events SET time = time + 200000 WHERE kind = ?", (REGRADED,))
    with reading(path) as reader:
        after = pace_of(read_folder(RunFolder.look(path)), reader)
    assert before == after
    assert after.worked_s < 200
