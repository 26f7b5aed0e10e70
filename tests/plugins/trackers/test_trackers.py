"""Each tracker says the same to its library; the libraries are stand-ins, and real where there."""

import inspect
import json
import sqlite3
from importlib import import_module
from importlib.machinery import ModuleSpec

import pytest

import plugged
from doors import doors_config
from skillwright.core import (
    Act,
    ConfigError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Task,
    Trajectory,
    Turn,
    Usage,
)
from skillwright.jobs.run.spans import call_span, episode_spans
from skillwright.jobs.run.trackers import TrackedRun, make_tracker, refuse_missing_trackers
from skillwright.plugins.trackers.trackers import OtelTracker
from tracker_libraries import SIGNATURES, calls, install, stand_in

VALUES = {"gain": 0.25, "accepted": 1.0}
CONFIG = {"run": {"name": "demo", "seed": 3}, "train": {"epochs": 2}, "rollout": {"reuse": []}}
LIBRARIES = {
    "wandb": "wandb",
    "mlflow": "mlflow",
    "trackio": "trackio",
    "tensorboard": "tensorboardX",
    "otel": "opentelemetry",
}


@pytest.fixture
def run(tmp_path):
    return TrackedRun("demo", "demo-0123456789ab", tmp_path, CONFIG)


@pytest.fixture(autouse=True)
def _no_settings_of_the_person_who_runs_the_tests(monkeypatch):
    for name in ("WANDB_PROJECT", "WANDB_NAME", "MLFLOW_EXPERIMENT_NAME", "TRACKIO_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("MLFLOW_EXPERIMENT_ID", "WANDB_INIT_TIMEOUT", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)


def played(tracker, run):
    """Have a tracker go through a short run."""
    tracker.start(run)
    tracker.metrics(1, VALUES)
    tracker.text(1, "verdict.txt", "accept: better")
    tracker.text(1, "skill.md", "# Skill\n")
    tracker.metrics(2, {"gain": -0.5})
    tracker.text(2, "report.html", "<p>done</p>")
    tracker.finish("finished")


def episode(reward=1.0, failure=None):
    act = Act(text="go", usage=Usage(calls=1, input_tokens=7, output_tokens=2))
    turns = tuple(Turn(n, (), act, "there", 0.0) for n in range(2))
    spec = EpisodeSpec(Task("t-1", "maze", task_type="easy"), seed=1, phase="gate")
    return EpisodeResult(
        spec,
        reward,
        failure,
        trajectory=Trajectory("", turns),
        skill_version="v3",
        skill_ids=("look-first", "use-keys"),
        skill_scores=(0.5, 0.25),
        key="k",
        wall_s=4.0,
    )


@pytest.fixture
def found(monkeypatch):
    """Have a module searched for with a given result, whether it is installed or not."""

    def search(result):
        monkeypatch.setattr("skillwright.jobs.run.trackers.find_spec", lambda name: result)

    return search


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_tracker_whose_library_is_missing_is_refused_with_the_line_that_installs_it(name, found):
    found(None)
    with pytest.raises(ConfigError, match=rf"pip install {LIBRARIES[name]}"):
        refuse_missing_trackers([name])


def test_a_folder_that_a_library_left_behind_is_not_taken_for_the_library(found):
    found(ModuleSpec("wandb", None, is_package=True))
    with pytest.raises(ConfigError, match="wandb"):
        refuse_missing_trackers(["wandb"])


def test_a_tracker_that_is_not_installed_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ConfigError, match=r"no tracker 'wandbb'\. Did you mean 'wandb'"):
        doors_config(tmp_path, run={"trackers": ["wandbb"]})


def test_another_package_adds_a_tracker(tmp_path, monkeypatch):
    theirs = (
        "class Board:\n  takes_spans = False\n  needs = {'their_missing_client': 'their-client'}\n"
    )
    groups = {"skillwright.trackers": {"board": "their_board:Board"}}
    monkeypatch.syspath_prepend(
        plugged.install(tmp_path, "their_package", groups, {"their_board": theirs})
    )
    assert doors_config(tmp_path, run={"trackers": ["board"]}).run.trackers == ["board"]
    with pytest.raises(ConfigError, match="pip install their-client"):
        refuse_missing_trackers(["board"])


def test_a_library_that_is_there_is_not_refused(monkeypatch):
    install(monkeypatch, *LIBRARIES.values())
    refuse_missing_trackers(list(LIBRARIES))


def test_wandb_gets_rows_by_a_step_of_their_own_and_texts_as_artifacts(run, monkeypatch):
    kept = install(monkeypatch, "wandb")
    played(make_tracker("wandb"), run)
    (begun,) = calls(kept, "init")
    assert (begun["id"], begun["name"], begun["resume"]) == (run.id, "demo", "allow")
    assert (begun["project"], begun["config"]) == ("skillwright", CONFIG)
    rows = [one["data"] for one in calls(kept, "log")]
    verdict = {"step": 1, "verdict": "accept: better"}
    assert rows == [{"step": 1, **VALUES}, verdict, {"step": 2, "gain": -0.5}]
    assert {"name": "*", "step_metric": "step"} in calls(kept, "define_metric")
    files = [one["artifact"].files for one in calls(kept, "log_artifact")]
    assert files == [{"skill.md": "# Skill\n"}, {"report.html": "<p>done</p>"}]
    assert calls(kept, "finish") == [{"exit_code": 0}]


def test_wandb_learns_nothing_of_the_machine_and_asks_nothing_on_the_terminal(run, monkeypatch):
    kept = install(monkeypatch, "wandb")
    make_tracker("wandb").start(run)
    assert kept[0][0] == "setup", "silenced before anything can be asked"
    assert kept[0][1]["settings"].silent
    (begun,) = calls(kept, "init")
    settings = begun["settings"]
    assert settings.x_disable_meta, "meta data hold the command line, which may hold keys"
    assert settings.disable_git
    assert settings.x_disable_machine_info
    assert settings.console == "off", "else all that is printed is sent"
    assert 0 < settings.finish_timeout <= 30


def test_mlflow_finds_the_run_of_an_earlier_session(run, monkeypatch):
    kept = install(monkeypatch, "mlflow")
    for _ in range(2):
        played(make_tracker("mlflow"), run)
    assert len(calls(kept, "create_run")) == 1
    assert calls(kept, "update_run") == [{"run_id": "r0", "status": "RUNNING"}]
    assert {one["run_id"] for one in calls(kept, "log_batch")} == {"r0"}
    first = calls(kept, "log_batch")
    params = {one.key: one.value for one in first[0]["params"]}
    assert params == {
        "run.name": "demo",
        "run.seed": "3",
        "train.epochs": "2",
        "rollout.reuse": "[]",
    }
    sent = [(one.key, one.value, one.step) for one in first[1]["metrics"]]
    assert sent == [("gain", 0.25, 1), ("accepted", 1.0, 1)]
    files = [one["artifact_file"] for one in calls(kept, "log_text")][:3]
    assert files == ["verdict/step_0001.txt", "skill/step_0001.md", "report.html"]
    assert calls(kept, "set_terminated")[0]["status"] == "FINISHED"


def test_mlflow_takes_a_configuration_of_any_size(run, monkeypatch):
    kept = install(monkeypatch, "mlflow")
    many = {f"key{number}": "x" * 9000 for number in range(250)}
    make_tracker("mlflow").start(TrackedRun("demo", "demo-1", run.folder, many))
    batches = calls(kept, "log_batch")
    assert [len(one["params"]) for one in batches] == [100, 100, 50]
    assert all(len(one.value) <= 500 for batch in batches for one in batch["params"])


def test_trackio_resumes_by_the_stable_name_and_is_private(run, monkeypatch):
    kept = install(monkeypatch, "trackio")
    played(make_tracker("trackio"), run)
    (begun,) = calls(kept, "init")
    assert (begun["name"], begun["resume"], begun["private"]) == (run.id, "allow", True)
    assert not begun["auto_log_gpu"]
    assert not begun["auto_log_cpu"]
    rows = calls(kept, "log")
    assert rows[0] == {"metrics": VALUES, "step": 1}
    assert [[*one["metrics"]] for one in rows[1:]] == [["verdict"], ["skill"], ["gain"]]


def test_tensorboard_writes_into_the_folder_of_the_run(run, monkeypatch):
    kept = install(monkeypatch, "tensorboardX")
    played(make_tracker("tensorboard"), run)
    assert calls(kept, "SummaryWriter") == [{"logdir": str(run.folder / "tensorboard")}]
    scalars = [(one["tag"], one["value"], one["step"]) for one in calls(kept, "add_scalar")]
    assert scalars == [("gain", 0.25, 1), ("accepted", 1.0, 1), ("gain", -0.5, 2)]
    assert [one["tag"] for one in calls(kept, "add_text")] == ["config", "verdict", "skill"]
    assert kept[-1][0] == "close"


def test_opentelemetry_gets_an_episode_as_one_span_with_its_turns_below(run, monkeypatch):
    kept = install(monkeypatch, "opentelemetry")
    tracker = make_tracker("otel")
    tracker.start(run)
    tracker.spans(episode_spans("a", episode(), "gpt", Usage(input_tokens=14), 100.0))
    tracker.metrics(3, VALUES)
    tracker.finish("stopped")
    (whole, first, second), (step,) = (one["spans"] for one in calls(kept, "export"))
    assert (whole.name, first.name) == ("invoke_agent maze", "chat gpt")
    assert first.parent == second.parent == whole.context
    assert whole.parent is None
    assert (whole.start_time, whole.end_time) == (96 * 10**9, 100 * 10**9)
    assert (first.end_time, second.end_time) == (98 * 10**9, 100 * 10**9)
    assert whole.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert whole.attributes["gen_ai.usage.input_tokens"] == 14
    assert "error.type" not in whole.attributes
    assert whole.attributes["skillwright.skill_version"] == "v3"
    *loaded, judged = whole.events
    assert [(one.name, one.timestamp, one.attributes) for one in loaded] == [
        (
            "skillwright.skill_in_prompt",
            96 * 10**9,
            {"gen_ai.skill.name": name, "skillwright.skill_score": score},
        )
        for name, score in (("look-first", 0.5), ("use-keys", 0.25))
    ]
    assert (judged.name, judged.timestamp) == ("gen_ai.evaluation.result", 100 * 10**9)
    assert judged.attributes == {
        "gen_ai.evaluation.name": "reward",
        "gen_ai.evaluation.score.value": episode().reward,
    }
    assert first.events == step.events == []
    assert whole.resource.attributes == {"service.name": "skillwright", "skillwright.run": "demo"}
    assert step.attributes["skillwright.gain"] == 0.25
    assert kept[-1][0] == "shutdown"


def test_a_failed_episode_is_a_span_that_names_the_cause():
    failed = episode(None, Failure(FailureCause.TIMEOUT, "too slow"))
    whole = episode_spans("a", failed, "gpt", Usage(), 100.0)[0]
    assert whole.known["error.type"] == "timeout"
    assert [name for name, _, _ in whole.events] == ["skillwright.skill_in_prompt"] * 2


def test_a_collector_that_takes_no_spans_is_an_error(run, monkeypatch):
    install(monkeypatch, "opentelemetry")

    class Refusing:
        def export(self, spans):
            del spans
            return None

    tracker = OtelTracker(Refusing())
    tracker.start(run)
    with pytest.raises(OSError, match="did not accept"):
        tracker.spans([call_span("a", "reflect", (1.0, 2.0))])


# The real libraries, where they are installed: `pip install 'skillwright[track]'`.

_ABSENT = "the library is not installed; pip install 'skillwright[track]'"


def real(module):
    """Return a real library, or skip."""
    return pytest.importorskip(module, reason=_ABSENT, exc_type=ImportError)


@pytest.mark.parametrize("module", SIGNATURES)
@pytest.mark.filterwarnings("ignore")
def test_stand_ins_take_nothing_that_the_real_library_does_not(module):
    real(module)
    found = import_module(module)
    for path in SIGNATURES[module]:
        ours = set(inspect.signature(stand_in(module, path)).parameters)
        theirs = found
        for name in path.split("."):
            theirs = getattr(theirs, name)
        known = set(inspect.signature(theirs).parameters)
        fields = set(getattr(theirs, "model_fields", ()))
        assert ours <= known | fields, path


@pytest.mark.filterwarnings("ignore")
def test_the_real_tensorboard_reads_back_what_was_written(run):
    real("tensorboardX")
    accumulator = real("tensorboard.backend.event_processing.event_accumulator")
    played(make_tracker("tensorboard"), run)
    read = accumulator.EventAccumulator(str(run.folder / "tensorboard"))
    read.Reload()
    assert [(one.step, one.value) for one in read.Scalars("gain")] == [(1, 0.25), (2, -0.5)]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_the_real_mlflow_continues_one_run(run, tmp_path, monkeypatch):
    mlflow = real("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    for _ in range(2):
        played(make_tracker("mlflow"), run)
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("skillwright").experiment_id
    (one,) = client.search_runs([experiment])
    assert one.data.params["run.seed"] == "3"
    steps = [metric.step for metric in client.get_metric_history(one.info.run_id, "gain")]
    assert sorted(set(steps)) == [1, 2]
    assert {"skill", "verdict", "report.html"} == {
        file.path for file in client.list_artifacts(one.info.run_id)
    }


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_the_real_trackio_keeps_the_rows_on_this_machine(run, tmp_path, monkeypatch):
    real("trackio")
    sqlite_storage = import_module("trackio.sqlite_storage")
    monkeypatch.setattr(sqlite_storage, "TRACKIO_DIR", tmp_path)
    played(make_tracker("trackio"), run)
    with sqlite3.connect(tmp_path / "skillwright.db") as database:
        rows = [json.loads(row[0]) for row in database.execute("SELECT metrics FROM metrics")]
    assert rows[0] == VALUES


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_the_real_wandb_writes_an_offline_run_that_names_neither_host_nor_command(
    run, tmp_path, monkeypatch
):
    wandb = real("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    played(make_tracker("wandb"), run)
    wandb.teardown()  # as at the end of the process: its service writes what it was given
    (written,) = tmp_path.rglob("*.wandb")
    assert b"accept: better" in written.read_bytes()
    assert b"pytest" not in written.read_bytes()


@pytest.mark.heavy
def test_the_real_opentelemetry_exports_spans(run):
    real("opentelemetry.sdk.trace")
    memory = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    tracker = OtelTracker(exporter)
    tracker.start(run)
    tracker.spans(episode_spans("a", episode(), "gpt", Usage(), 100.0))
    tracker.metrics(1, VALUES)
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["invoke_agent maze", "chat gpt", "chat gpt", "skillwright.step"]
    whole, turn = exporter.get_finished_spans()[:2]
    assert turn.parent.span_id == whole.context.span_id
    json.loads(whole.to_json())
