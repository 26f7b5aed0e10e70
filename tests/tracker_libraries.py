"""Stand-ins for the libraries of trackers: they take what the real ones take, and keep it.

    kept = install(monkeypatch, "tensorboardX")     # what was called, in order: (name, arguments)

Every parameter is written out, so that one that a real library does not know is an error here too;
`SIGNATURES` says where each is in the real one, and a test compares them where that is installed.
"""

import contextlib
import enum
import io
import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

Kept = list[tuple[str, dict[str, Any]]]


def install(monkeypatch, *names: str) -> Kept:
    """Put stand-ins in the place of libraries, and return what they keep."""
    kept: Kept = []
    for name in names:
        for path, content in _MAKERS[name](kept).items():
            module = ModuleType(path)
            module.__spec__ = ModuleSpec(path, None, origin="stand-in", is_package=True)
            module.__path__ = []
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, path, module)
    return kept


def calls(kept: Kept, name: str) -> list[dict[str, Any]]:
    """Return the arguments of every call of a name, in order."""
    return [arguments for called, arguments in kept if called == name]


@dataclass
class WandbSettings:
    """The keys of `wandb.Settings` that are of use here."""

    silent: bool = False
    console: str = "auto"
    disable_code: bool = False
    disable_git: bool = False
    save_code: bool | None = None
    x_disable_machine_info: bool = False
    x_disable_meta: bool = False
    x_disable_stats: bool = False
    x_save_requirements: bool = True
    init_timeout: float = 90.0
    finish_timeout: float = 0.0
    finish_timeout_raises: bool = False


def _wandb(kept: Kept) -> dict[str, dict[str, Any]]:
    class Run:
        def log(self, data, step=None, commit=None):
            kept.append(("log", {"data": data}))

        def define_metric(self, name, step_metric=None):
            kept.append(("define_metric", {"name": name, "step_metric": step_metric}))

        def log_artifact(self, artifact_or_path):
            kept.append(("log_artifact", {"artifact": artifact_or_path}))

        def finish(self, exit_code=None):
            kept.append(("finish", {"exit_code": exit_code}))

    class Artifact:
        def __init__(self, name, type, description=None, metadata=None):
            self.name, self.type, self.metadata = name, type, metadata
            self.files: dict[str, str] = {}

        @contextlib.contextmanager
        def new_file(self, name, mode="x", encoding=None):
            file = io.StringIO()
            yield file
            self.files[name] = file.getvalue()

    def init(project, id, name, resume, reinit, config, settings):
        kept.append(("init", dict(locals())))
        return Run()

    def setup(settings=None):
        kept.append(("setup", {"settings": settings}))

    names = {"init": init, "setup": setup, "Settings": WandbSettings, "Artifact": Artifact}
    return {"wandb": {**names, "Run": Run}}


def _mlflow(kept: Kept) -> dict[str, dict[str, Any]]:
    runs: dict[str, Any] = {}

    class MlflowClient:
        def get_experiment_by_name(self, name):
            kept.append(("get_experiment_by_name", {"name": name}))

        def create_experiment(self, name):
            kept.append(("create_experiment", {"name": name}))
            return "7"

        def search_runs(self, experiment_ids, filter_string="", max_results=1000):
            wanted = filter_string.split("'")[1]
            return [one for tag, one in runs.items() if tag == wanted][:max_results]

        def create_run(self, experiment_id, tags=None, run_name=None):
            kept.append(("create_run", {"tags": tags, "run_name": run_name}))
            (tag,) = tags.values()
            runs[tag] = SimpleNamespace(info=SimpleNamespace(run_id=f"r{len(runs)}"))
            return runs[tag]

        def update_run(self, run_id, status=None):
            kept.append(("update_run", {"run_id": run_id, "status": status}))

        def log_batch(self, run_id, metrics=(), params=()):
            assert len(params) <= 100, "the real one takes no more"
            kept.append(("log_batch", {"run_id": run_id, "metrics": metrics, "params": params}))

        def log_text(self, run_id, text, artifact_file):
            kept.append(("log_text", {"text": text, "artifact_file": artifact_file}))

        def set_terminated(self, run_id, status=None):
            kept.append(("set_terminated", {"run_id": run_id, "status": status}))

    @dataclass
    class Metric:
        key: str
        value: float
        timestamp: int
        step: int

    @dataclass
    class Param:
        key: str
        value: str

    entities = {"Metric": Metric, "Param": Param}
    return {"mlflow": {"MlflowClient": MlflowClient}, "mlflow.entities": entities}


def _trackio(kept: Kept) -> dict[str, dict[str, Any]]:
    @dataclass
    class Markdown:
        text: str = ""

    class Run:
        def log(self, metrics, step=None):
            kept.append(("log", {"metrics": metrics, "step": step}))

        def finish(self):
            kept.append(("finish", {}))

    def init(project, name, resume, config, private, embed, auto_log_gpu, auto_log_cpu):
        kept.append(("init", dict(locals())))
        return Run()

    return {"trackio": {"init": init, "Markdown": Markdown, "Run": Run}}


def _tensorboard(kept: Kept) -> dict[str, dict[str, Any]]:
    class SummaryWriter:
        def __init__(self, logdir=None):
            kept.append(("SummaryWriter", {"logdir": logdir}))

        def add_scalar(self, tag, scalar_value, global_step=None):
            kept.append(("add_scalar", {"tag": tag, "value": scalar_value, "step": global_step}))

        def add_text(self, tag, text_string, global_step=None):
            kept.append(("add_text", {"tag": tag, "text": text_string, "step": global_step}))

        def flush(self):
            pass

        def close(self):
            kept.append(("close", {}))

    return {"tensorboardX": {"SummaryWriter": SummaryWriter}}


@dataclass
class ReadableSpan:
    """A finished span, as the SDK of OpenTelemetry has it."""

    name: str
    context: Any = None
    parent: Any = None
    resource: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    kind: Any = None
    start_time: int = 0
    end_time: int = 0
    instrumentation_scope: Any = None


@dataclass
class Event:
    """Something that happened in a span."""

    name: str
    attributes: dict[str, Any]
    timestamp: int


class TraceFlags(int):
    """Flags of a span."""

    SAMPLED: ClassVar[int] = 1


@dataclass
class SpanContext:
    """Which span it is."""

    trace_id: int
    span_id: int
    is_remote: bool
    trace_flags: int


def _otel(kept: Kept) -> dict[str, dict[str, Any]]:
    result = enum.Enum("SpanExportResult", ["SUCCESS", "FAILURE"])

    class OTLPSpanExporter:
        def export(self, spans):
            kept.append(("export", {"spans": spans}))
            return result.SUCCESS

        def shutdown(self):
            kept.append(("shutdown", {}))

    class Resource:
        @staticmethod
        def create(attributes=None):
            return SimpleNamespace(attributes=attributes)

    trace = {
        "SpanContext": SpanContext,
        "TraceFlags": TraceFlags,
        "SpanKind": enum.Enum("SpanKind", ["INTERNAL", "SERVER", "CLIENT"]),
    }
    otlp = "opentelemetry.exporter.otlp.proto.http"
    parents = (
        "opentelemetry",
        "opentelemetry.sdk",
        "opentelemetry.sdk.util",
        "opentelemetry.exporter",
    )
    return {
        **{parent: {} for parent in (*parents, *(otlp.rsplit(".", n)[0] for n in (1, 2)), otlp)},
        "opentelemetry.trace": trace,
        "opentelemetry.sdk.trace": {"ReadableSpan": ReadableSpan, "Event": Event},
        "opentelemetry.sdk.trace.export": {"SpanExportResult": result},
        "opentelemetry.sdk.resources": {"Resource": Resource},
        "opentelemetry.sdk.util.instrumentation": {
            "InstrumentationScope": lambda name: SimpleNamespace(name=name)
        },
        f"{otlp}.trace_exporter": {"OTLPSpanExporter": OTLPSpanExporter},
    }


_MAKERS = {
    "wandb": _wandb,
    "mlflow": _mlflow,
    "trackio": _trackio,
    "tensorboardX": _tensorboard,
    "opentelemetry": _otel,
}

SIGNATURES = {
    "wandb": (
        *("init", "setup", "Settings", "Artifact", "Artifact.new_file", "Run.log"),
        *("Run.define_metric", "Run.log_artifact", "Run.finish"),
    ),
    "mlflow": (
        *("MlflowClient.search_runs", "MlflowClient.create_run", "MlflowClient.update_run"),
        *("MlflowClient.log_batch", "MlflowClient.log_text", "MlflowClient.set_terminated"),
        *("MlflowClient.get_experiment_by_name", "MlflowClient.create_experiment"),
    ),
    "mlflow.entities": ("Metric", "Param"),
    "trackio": ("init", "Markdown", "Run.log", "Run.finish"),
    "tensorboardX": ("SummaryWriter", "SummaryWriter.add_scalar", "SummaryWriter.add_text"),
    "opentelemetry.sdk.trace": ("ReadableSpan", "Event"),
    "opentelemetry.trace": ("SpanContext",),
    "opentelemetry.sdk.resources": ("Resource.create",),
    "opentelemetry.exporter.otlp.proto.http.trace_exporter": (
        "OTLPSpanExporter.export",
        "OTLPSpanExporter.shutdown",
    ),
}
"""Module -> what a stand-in has of it."""


def stand_in(module: str, path: str) -> Any:
    """Return what stands for something of a module."""
    found: Any = SimpleNamespace(**_MAKERS[module.split(".", maxsplit=1)[0]]([])[module])
    for name in path.split("."):
        found = getattr(found, name)
    return found
