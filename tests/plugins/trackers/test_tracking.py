"""Trackers follow a run: they see every decision once, and can neither change nor stop it."""

import asyncio
import logging
import re
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Walker,
    doors_config,
    llms,
    look,
    resumed,
    rule,
    story,
)
from skillwright.cli.words import is_worth_saying
from skillwright.core import ConfigError, ModelError
from skillwright.core.secrets import Redactor
from skillwright.jobs.run import (
    NullCallback,
    Numbers,
    Sender,
    Spans,
    StepDecided,
    find_run,
    numbers,
    tracking,
)
from skillwright.jobs.run.spans import Span
from skillwright.jobs.run.trackers import TrackedRun
from skillwright.jobs.text import EvalPlan, open_run, run_evaluation, run_training, start_run
from tracker_libraries import calls, install

PLAN = [[ALL_RULES], [ALL_WRONG]]
DOCS = Path(__file__).resolve().parents[3] / "docs" / "trackers.md"


@pytest.fixture
def kept(monkeypatch):
    """What the stand-in for TensorBoard's library is given."""
    return install(monkeypatch, "tensorboardX")


def tracked_config(folder, **sections):
    run = {"trackers": ["tensorboard"], **sections.pop("run", {})}
    return doors_config(folder, run=run, **sections)


async def trained(config, *, target=None, callback=None, make_report=None, plan=PLAN):
    """Train in a new run; return its folder and the report."""
    made = llms(target or Walker(), Coach(plan))
    with start_run(config, "") as run:
        seen = callback or NullCallback()
        return run.folder.path, await run_training(run, seen, made, make_report)


def points(kept, tag):
    """Return step and value of every scalar of a name."""
    return [(one["step"], one["value"]) for one in calls(kept, "add_scalar") if one["tag"] == tag]


def texts(kept, tag):
    return [(one["step"], one["text"]) for one in calls(kept, "add_text") if one["tag"] == tag]


class CancelAt:
    """Stops a run, as Ctrl-C does, when something is decided."""

    def __init__(self):
        self.task = None

    def on_event(self, event):
        if isinstance(event, StepDecided):
            self.task.cancel()


async def test_every_step_is_sent_with_its_gain_and_what_was_used(tmp_path, kept):
    _, report = await trained(tracked_config(tmp_path))
    verdicts = [step.verdict for step in report.state.steps]
    assert points(kept, "gain") == [(n, one.effect) for n, one in enumerate(verdicts, 1)]
    lows = [(n, one.interval[0]) for n, one in enumerate(verdicts, 1) if one.interval]
    assert points(kept, "gain_low") == lows
    assert points(kept, "accepted") == [(1, 1.0), (2, 0.0)]
    assert points(kept, "val_score")[0] == (1, verdicts[0].candidate_score)
    assert points(kept, "val_score")[1] == (2, verdicts[1].incumbent_score)
    (calls_1, calls_2), (total,) = points(kept, "calls"), points(kept, "total/calls")
    assert 0 < calls_1[1] < calls_2[1] < total[1]
    assert points(kept, "alpha_left")[0] == (1, 0.05)
    assert points(kept, "release/alpha_left") == [(2, 0.05)]  # a proof leaves it
    assert points(kept, "test/released/success_rate") == [(2, 1.0)]


async def test_a_release_test_without_a_proof_is_sent_with_what_it_left_of_alpha(tmp_path, kept):
    config = tracked_config(tmp_path, evaluation={"alpha": 0.01})
    _, report = await trained(config, plan=[[rule("attic")], []])
    assert not report.state.final.accepted
    ((_, left),) = points(kept, "release/alpha_left")
    assert left == pytest.approx(0.01 - report.state.final.alpha)


async def test_skills_and_verdicts_are_sent_as_texts(tmp_path, kept):
    path, report = await trained(tracked_config(tmp_path))
    with look(path) as store:
        first = store.skill(1)
    step, sent = texts(kept, "skill")[0]
    assert (step, [line.strip() for line in sent.split("\n")]) == (1, first.split("\n"))
    assert [step for step, _ in texts(kept, "verdict")] == [1, 2]
    assert report.state.steps[1].verdict.reason in texts(kept, "verdict")[1][1]


async def test_a_run_takes_the_same_decisions_with_trackers_and_without(tmp_path, monkeypatch):
    plain, _ = await trained(doors_config(tmp_path / "a"))
    install(monkeypatch, "tensorboardX", "wandb", "mlflow", "trackio", "opentelemetry")
    everyone = ["wandb", "mlflow", "trackio", "tensorboard", "otel"]
    followed, _ = await trained(tracked_config(tmp_path / "b", run={"trackers": everyone}))

    def decisions(path):
        found = story(path)
        return {name: found[name] for name in ("events", "skills", "edits", "verdicts", "episodes")}

    assert decisions(followed) == decisions(plain)
    marks = {file.stem for file in (followed / "trackers").iterdir()}
    assert marks == set(everyone), "each was sent something"


async def test_every_tracker_is_sent_the_same_names(tmp_path, monkeypatch):
    kept = install(monkeypatch, "tensorboardX", "wandb", "mlflow", "trackio")
    everyone = ["wandb", "mlflow", "trackio", "tensorboard"]
    await trained(tracked_config(tmp_path, run={"trackers": everyone}))
    board = {one["tag"] for one in calls(kept, "add_scalar")}
    flow = {one.key for batch in calls(kept, "log_batch") for one in batch["metrics"]}
    rows = [one.get("data", one.get("metrics")) for one in calls(kept, "log")]
    both = {name for row in rows for name, value in row.items() if isinstance(value, float)}
    assert board == flow == both
    assert all(re.fullmatch(r"[A-Za-z0-9_./-]+", name) for name in board)


async def test_what_is_sent_is_what_the_guide_says(tmp_path, kept):
    await trained(tracked_config(tmp_path))
    known = set(re.findall(r"`([a-z_/*<> ]+)`", DOCS.read_text(encoding="utf-8")))
    patterns = [re.sub(r"<[a-z ]+>", "[^/]+", name) for name in known]
    names = {one["tag"] for one in calls(kept, "add_scalar")}
    assert not [one for one in names if not any(re.fullmatch(p, one) for p in patterns)]


async def test_faults_are_counted_by_cause(tmp_path, kept):
    def now_and_then(number):
        if number in (3, 4, 5):
            raise ModelError("the endpoint is tired")

    config = tracked_config(tmp_path, rollout={"retries": 0, "max_concurrent": 1})
    await trained(config, target=Walker(now_and_then))
    by_step = [value for _, value in points(kept, "faults/model")]
    assert sum(by_step) == 3
    assert points(kept, "total/faults/model")[0][1] == 3
    assert {value for _, value in points(kept, "faults/timeout")} == {0.0}


async def test_a_missing_library_stops_a_run_before_it_begins(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    target = Walker()
    with pytest.raises(ConfigError, match="pip install tensorboardX"):
        await trained(tracked_config(tmp_path), target=target)
    assert not target.calls


async def test_a_tracker_that_cannot_start_is_one_warning_and_the_run_is_finished(
    tmp_path, kept, caplog, monkeypatch
):
    def down(self, logdir=None):
        raise OSError("no route to host")

    monkeypatch.setattr(sys.modules["tensorboardX"].SummaryWriter, "__init__", down)
    _, report = await trained(tracked_config(tmp_path))
    assert report.state.finished
    warnings = [one.getMessage() for one in caplog.records]
    assert len(warnings) == 2
    assert "no route to host" in warnings[0]
    assert re.search(r"lost (\d+) of \1 updates", warnings[1])
    assert not kept


async def test_a_resumed_run_sends_every_step_once_under_the_same_id(tmp_path, monkeypatch):
    kept = install(monkeypatch, "mlflow")
    config = tracked_config(tmp_path, run={"trackers": ["mlflow"]})
    stop = CancelAt()
    stop.task = asyncio.ensure_future(trained(config, callback=stop))
    with pytest.raises(asyncio.CancelledError):
        await stop.task
    assert calls(kept, "set_terminated") == [{"run_id": "r0", "status": "KILLED"}]
    await resumed(find_run("doors", tmp_path / "runs"), Walker(), Coach(PLAN))
    assert len(calls(kept, "create_run")) == 1
    assert calls(kept, "set_terminated")[-1]["status"] == "FINISHED"
    sent = [(one.key, one.step) for batch in calls(kept, "log_batch") for one in batch["metrics"]]
    assert len(sent) == len(set(sent))
    assert [step for key, step in sent if key == "gain"] == [1, 2]


async def test_what_a_session_could_not_send_is_sent_by_the_next(tmp_path, monkeypatch):
    kept = install(monkeypatch, "mlflow")
    client = sys.modules["mlflow"].MlflowClient
    config = tracked_config(tmp_path, run={"trackers": ["mlflow"]})
    stop = CancelAt()
    with monkeypatch.context() as broken:
        broken.setattr(client, "create_run", None)
        stop.task = asyncio.ensure_future(trained(config, callback=stop))
        with pytest.raises(asyncio.CancelledError):
            await stop.task
    assert not calls(kept, "log_batch")
    await resumed(find_run("doors", tmp_path / "runs"), Walker(), Coach(PLAN))
    sent = [one for batch in calls(kept, "log_batch") for one in batch["metrics"]]
    assert [one.step for one in sent if one.key == "gain"] == [1, 2]
    assert [one.step for one in sent if one.key == "val/initial/success_rate"] == [0]


async def test_the_trackers_of_a_run_may_change_when_it_is_resumed(tmp_path, kept):
    path, _ = await trained(tracked_config(tmp_path))
    kept.clear()
    with open_run(path, overrides=["run.trackers=[]"]) as run:
        assert run.config.run.trackers == []
    edited = (path / "config.yaml").read_text(encoding="utf-8").replace("- tensorboard", "- wandb")
    (path / "config.yaml").write_text(edited, encoding="utf-8")
    with open_run(path) as run:
        assert run.config.run.trackers == ["wandb"]
    with pytest.raises(ConfigError, match=r"run\.trackers"):
        open_run(path, overrides=["run.seed=3"])


async def test_an_evaluation_sends_its_score(tmp_path, kept):
    config, plan = tracked_config(tmp_path), EvalPlan("test", 2)
    with start_run(config, ALL_RULES, plan) as run:
        await run_evaluation(run, plan, NullCallback(), llms(Walker()))
    assert points(kept, "test/skill/success_rate") == [(0, 1.0)]


async def test_secrets_of_the_run_and_of_its_process_are_not_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("OTHER_API_KEY", "plain-looking-value-77")
    kept = install(monkeypatch, "tensorboardX", "wandb")
    config = tracked_config(
        tmp_path,
        run={"trackers": ["tensorboard", "wandb"]},
        env={"config": {"api_key": "hush-hush-4242"}},
    )
    rules = f"{ALL_RULES}\nThe key is plain-looking-value-77."
    with start_run(config, "") as run:
        await run_training(run, NullCallback(), llms(Walker(), Coach([[rules]])))
    said = repr([one for name, one in kept if name != "log_artifact"])
    files = repr([one["artifact"].files for one in calls(kept, "log_artifact")])
    assert "api_key" in said, "a key stays where its value is hidden"
    assert "The key is" in files
    assert "hush-hush" not in said + files
    assert "plain-looking" not in said + files


async def test_the_report_of_a_finished_run_is_sent_and_its_faults_are_warnings(
    tmp_path, monkeypatch, caplog
):
    kept = install(monkeypatch, "mlflow")
    config = tracked_config(tmp_path, run={"trackers": ["mlflow"]})
    await trained(config, make_report=lambda folder: f"<p>{folder.name}</p>")
    report = [one["text"] for one in calls(kept, "log_text") if "report" in one["artifact_file"]]
    assert report == ["<p>doors</p>"]

    def broken(folder):
        raise ZeroDivisionError("no pages")

    kept.clear()
    _, outcome = await trained(config, make_report=broken)
    assert outcome.state.finished
    assert "no pages" in caplog.text
    sent = {metric.key for one in calls(kept, "log_batch") for metric in one.get("metrics", ())}
    assert "total/calls" in sent, "what the run came to is sent without its report"


# The thread that sends.


class Board:
    """A tracker that keeps steps, and acts at each."""

    takes_spans = False

    def __init__(self, act=lambda step: None):
        self.steps, self.ended = [], []
        self._act = act

    def start(self, run):
        self.run = run

    def metrics(self, step, values):
        self._act(step)
        self.steps.append(step)

    def text(self, step, name, text):
        self.steps.append(name)

    def spans(self, spans):
        raise AssertionError("it takes none")

    def finish(self, status):
        self.ended.append(status)


def sender(board, folder, **more):
    return Sender("board", board, TrackedRun("a", "a-1", folder, {}), str, **more)


def until(seconds):
    return time.monotonic() + seconds


def test_an_update_that_fails_is_lost_alone_and_warned_of_once(tmp_path, caplog):
    def act(step):
        if step in (2, 4):
            raise ConnectionError(f"step {step}")

    board = Board(act)
    sending = sender(board, tmp_path)
    for step in range(1, 6):
        sending.put(Numbers("step", step, {"gain": 0.5}))
    sending.close("finished", until(60))
    assert (board.steps, board.ended) == ([1, 3, 5], ["finished"])
    warnings = [one.getMessage() for one in caplog.records]
    assert len(warnings) == 2
    assert "ConnectionError: step 2" in warnings[0]
    assert "lost 2 of 5 updates" in warnings[1]


def test_a_tracker_that_hangs_holds_up_neither_the_run_nor_its_end(tmp_path, caplog):
    entered, released = threading.Event(), threading.Event()

    def act(step):
        entered.set()
        released.wait()

    board = Board(act)
    sending = sender(board, tmp_path, waiting=2)
    sending.put(Numbers("step", 1, {}))
    entered.wait()
    for step in range(2, 9):
        sending.put(Numbers("step", step, {}))  # would wait for ever, were it to wait
    sending.close("finished", until(0.05))
    released.set()
    assert "does not keep up" in caplog.text
    assert "lost 8 of 8 updates" in caplog.text


def test_waiting_episodes_are_bounded_and_leave_room_for_numbers(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(tracking, "MAX_SPANS", 2)
    entered, released, seen = threading.Event(), threading.Event(), []

    class Collector(Board):
        takes_spans = True

        def spans(self, spans):
            entered.set()
            released.wait()
            seen.extend(one.facts["key"] for one in spans)

    span = Span("0" * 32, "0" * 16, "", "chat", (0.0, 1.0), {"key": "hush"})
    board = Collector()
    run = TrackedRun("a", "a-1", tmp_path, {})
    sending = Sender("board", board, run, Redactor(["hush-hush"]).clean)
    sending.put(Spans(lambda: [replace(span, facts={"key": "my hush-hush"})]))
    entered.wait()
    for _ in range(5):
        sending.put(Spans(lambda: [span]))
    sending.put(Numbers("step", 1, {}))
    released.set()
    sending.close("finished", until(60))
    assert seen == ["my <redacted>", "hush", "hush"]
    assert board.steps == [1]
    assert "lost 3 of 7 updates" in caplog.text


def test_what_a_library_says_again_and_again_is_said_once(tmp_path, caplog):
    caplog.handler.addFilter(is_worth_saying)

    def act(step):
        logging.getLogger("some.library").warning("retrying")
        raise ConnectionError("refused")

    sending = sender(Board(act), tmp_path)
    for step in range(3):
        sending.put(Numbers("step", step, {}))
    sending.close("finished", until(60))
    logging.getLogger("some.library").warning("on the main thread")
    said = [one.getMessage() for one in caplog.records]
    assert "refused" in said[0]
    assert said[1:] == ["tracker board lost 3 of 3 updates", "on the main thread"]


def test_a_library_that_ends_the_process_ends_only_its_own_thread(tmp_path, caplog):
    def act(step):
        raise SystemExit(1)

    board = Board(act)
    sending = sender(board, tmp_path)
    sending.put(Numbers("step", 1, {}))
    sending.close("failed", until(60))
    assert board.ended == ["failed"]
    assert "lost 1 of 1 updates" in caplog.text


def test_a_step_that_was_sent_is_not_sent_again_by_another_session(tmp_path):
    boards = Board(), Board()
    for board, last in zip(boards, (2, 3), strict=True):
        sending = sender(board, tmp_path)
        for step in range(1, last + 1):
            sending.put(Numbers("step", step, {}))
        sending.close("stopped", until(60))
    assert [board.steps for board in boards] == [[1, 2], [3]]


@pytest.mark.parametrize("marks", ["{half", "[1]", '{"step": null}'])
def test_marks_that_cannot_be_read_are_none(tmp_path, marks):
    (tmp_path / tracking.FOLDER).mkdir()
    (tmp_path / tracking.FOLDER / "board.json").write_text(marks, encoding="utf-8")
    board = Board()
    sending = sender(board, tmp_path)
    sending.put(Numbers("step", 1, {}))
    sending.close("finished", until(60))
    assert board.steps == [1]


def test_numbers_are_finite_and_their_names_hold_nothing_strange():
    found = numbers("a b", 1, {"ok": 1, "nan": float("nan"), "none": None, "a/b c\x1b[31m": 2})
    assert found == Numbers("a_b", 1, {"ok": 1.0, "a/b_c_31m": 2.0})


def test_no_tracker_means_no_thread_and_nothing_in_the_folder(tmp_path):
    before = threading.active_count()
    path, _ = asyncio.run(trained(doors_config(tmp_path)))
    assert not (path / tracking.FOLDER).exists()
    assert threading.active_count() == before
