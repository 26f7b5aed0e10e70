"""Experiment trackers: wandb, mlflow, trackio, tensorboard, otel.

Each library is imported when its tracker starts. Options are those of the library, given by its own
environment variables.
"""

import os
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, Final

from skillwright.jobs.run.spans import SERVICE, Span, numbers_span
from skillwright.jobs.run.trackers import Status, TrackedRun

_PROJECT: Final = "skillwright"
_PATIENCE_S: Final = 20.0
_NANO: Final = 1_000_000_000


class _Numbers:
    """A tracker of numbers and texts, without spans."""

    takes_spans: ClassVar[bool] = False

    def spans(self, spans: Sequence[Span]) -> None:
        """Ignore spans."""


class WandbTracker(_Numbers):
    """Weights & Biases."""

    needs: ClassVar[Mapping[str, str]] = {"wandb": "wandb"}

    def start(self, run: TrackedRun) -> None:
        """Start or resume the run; machine, command line and git state are not sent."""
        self._wandb: Any = import_module("wandb")
        # Silenced first, because it would ask for a key on the terminal that shows the run.
        self._wandb.setup(self._wandb.Settings(silent=True))
        self._id = run.id
        self._run: Any = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            id=run.id,
            name=os.environ.get("WANDB_NAME", run.name),
            resume="allow",
            reinit="create_new",
            config=dict(run.config),
            settings=self._wandb.Settings(
                silent=True,
                console="off",
                disable_code=True,
                disable_git=True,
                save_code=False,
                x_disable_machine_info=True,
                x_disable_meta=True,
                x_disable_stats=True,
                x_save_requirements=False,
                # The program waits for both at its end.
                init_timeout=float(os.environ.get("WANDB_INIT_TIMEOUT", _PATIENCE_S)),
                finish_timeout=_PATIENCE_S,
                finish_timeout_raises=True,
            ),
        )
        # A separate step metric, because wandb's own step cannot decrease, and cold start and RL
        # both count from 0.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log one row."""
        self._run.log({"step": step, **values})

    def text(self, step: int, name: str, text: str) -> None:
        """Log a verdict as a value of its row, and a file as a version of an artifact."""
        stem, _, ending = name.partition(".")
        if ending == "txt":
            self._run.log({"step": step, stem: text})
            return
        artifact = self._wandb.Artifact(f"{self._id}-{stem}", type=stem, metadata={"step": step})
        with artifact.new_file(name, mode="w", encoding="utf-8") as file:
            file.write(text)
        self._run.log_artifact(artifact)

    def finish(self, status: Status) -> None:
        """Upload the remaining data."""
        self._run.finish(exit_code=0 if status == "finished" else 1)


class MlflowTracker(_Numbers):
    """MLflow: a tracking server, a database, or a folder."""

    needs: ClassVar[Mapping[str, str]] = {"mlflow": "mlflow"}

    _TAG = "skillwright.run_id"
    _ENDS: Final = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
    _MOST_PARAMS = 100
    _LONGEST = 500

    def start(self, run: TrackedRun) -> None:
        """Start a run, or find the one with this run's id."""
        # The client, because the fluent functions also send command line, user and git state.
        self._entities: Any = import_module("mlflow.entities")
        self._client: Any = import_module("mlflow").MlflowClient()
        experiment = self._experiment()
        wanted = f"tags.`{self._TAG}` = '{run.id}'"
        found = self._client.search_runs([experiment], filter_string=wanted, max_results=1)
        if found:
            self._id = found[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        begun = self._client.create_run(experiment, tags={self._TAG: run.id}, run_name=run.name)
        self._id = begun.info.run_id
        params = [
            self._entities.Param(key, str(value)[: self._LONGEST])
            for key, value in _leaves(run.config)
        ]
        for first in range(0, len(params), self._MOST_PARAMS):
            self._client.log_batch(self._id, params=params[first : first + self._MOST_PARAMS])

    def _experiment(self) -> str:
        if given := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return given
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
        found = self._client.get_experiment_by_name(name)
        return str(found.experiment_id if found else self._client.create_experiment(name))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log one batch."""
        now = int(time.time() * 1000)
        batch = [self._entities.Metric(key, value, now, step) for key, value in values.items()]
        self._client.log_batch(self._id, metrics=batch)

    def text(self, step: int, name: str, text: str) -> None:
        """Log a text as a file; a step's file has the step in its name."""
        stem, _, ending = name.partition(".")
        path = name if ending == "html" else f"{stem}/step_{step:04d}.{ending}"
        self._client.log_text(self._id, text, path)

    def finish(self, status: Status) -> None:
        """Set the run's final status."""
        self._client.set_terminated(self._id, status=self._ENDS[status])


class TrackioTracker(_Numbers):
    """Trackio: a local database, a Space, or a self-hosted server."""

    needs: ClassVar[Mapping[str, str]] = {"trackio": "trackio"}

    def start(self, run: TrackedRun) -> None:
        """Start or resume the run; a new Space is private."""
        self._trackio: Any = import_module("trackio")
        self._run: Any = self._trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", _PROJECT),
            name=run.id,
            resume="allow",
            config=dict(run.config),
            private=True,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Log one row."""
        self._run.log(dict(values), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        """Log a text as Markdown, except the HTML report, which would be shown as source."""
        stem, _, ending = name.partition(".")
        if ending != "html":
            self._run.log({stem: self._trackio.Markdown(text)}, step=step)

    def finish(self, status: Status) -> None:
        """Write the remaining data; trackio has no status."""
        self._run.finish()


class TensorboardTracker(_Numbers):
    """Event files in the run's folder: ``tensorboard --logdir runs`` shows all runs."""

    needs: ClassVar[Mapping[str, str]] = {"tensorboardX": "tensorboardX"}

    def start(self, run: TrackedRun) -> None:
        """Open a new event file; TensorBoard merges it with those of earlier sessions."""
        self._writer: Any = import_module("tensorboardX").SummaryWriter(
            str(run.folder / "tensorboard")
        )
        self._writer.add_text("config", "\n".join(f"    {k}: {v}" for k, v in _leaves(run.config)))

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Write scalars."""
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)
        self._writer.flush()

    def text(self, step: int, name: str, text: str) -> None:
        """Write a text; the report is left out, because it is a file in the run's folder."""
        stem, _, ending = name.partition(".")
        if ending != "html":
            self._writer.add_text(stem, "\n".join(f"    {line}" for line in text.split("\n")), step)
            self._writer.flush()

    def finish(self, status: Status) -> None:
        """Close the file; it has no status."""
        self._writer.close()


class OtelTracker:
    """OpenTelemetry: episodes, calls and steps as spans, sent to the collector of the environment.

    Args:
        exporter: Receives spans; ``None`` sends them by OTLP over HTTP to
            ``OTEL_EXPORTER_OTLP_ENDPOINT``.
    """

    takes_spans: ClassVar[bool] = True
    needs: ClassVar[Mapping[str, str]] = {
        "opentelemetry.sdk.trace": "opentelemetry-sdk",
        "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    }

    def __init__(self, exporter: Any = None) -> None:
        self._exporter = exporter
        self._count = 0

    def start(self, run: TrackedRun) -> None:
        """Create the exporter."""
        self._sdk: Any = import_module("opentelemetry.sdk.trace")
        self._trace: Any = import_module("opentelemetry.trace")
        export: Any = import_module("opentelemetry.sdk.trace.export")
        self._success: Any = export.SpanExportResult.SUCCESS
        if self._exporter is None:
            otlp = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
            self._exporter = otlp.OTLPSpanExporter()
        service = os.environ.get("OTEL_SERVICE_NAME", SERVICE)
        facts = {"service.name": service, "skillwright.run": run.name}
        resources = import_module("opentelemetry.sdk.resources")
        self._resource: Any = resources.Resource.create(facts)
        scope = import_module("opentelemetry.sdk.util.instrumentation")
        self._scope: Any = scope.InstrumentationScope("skillwright")
        self._id = run.id

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Send a span without duration, with the numbers as attributes."""
        self._count += 1
        now = time.time()
        self.spans([numbers_span(f"{self._id}/{step}/{self._count}/{now}", step, values, now)])

    def text(self, step: int, name: str, text: str) -> None:
        """Ignore texts, which spans cannot hold."""

    def spans(self, spans: Sequence[Span]) -> None:
        """Send a batch of spans; raise an `OSError` if the collector does not accept it."""
        assert self._exporter is not None
        result = self._exporter.export([self._readable(one) for one in spans])
        if result is not self._success:
            raise OSError("the collector did not accept the spans")

    def _readable(self, span: Span) -> Any:
        kinds = self._trace.SpanKind
        above = self._context(span.trace, span.parent) if span.parent else None
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(span.trace, span.id),
            parent=above,
            resource=self._resource,
            attributes=span.known,
            events=[
                self._sdk.Event(name, dict(facts), int(at * _NANO))
                for name, at, facts in span.events
            ],
            kind=kinds.CLIENT if span.asks else kinds.INTERNAL,
            start_time=int(span.times[0] * _NANO),
            end_time=int(span.times[1] * _NANO),
            instrumentation_scope=self._scope,
        )

    def _context(self, trace: str, span: str) -> Any:
        sampled = self._trace.TraceFlags(self._trace.TraceFlags.SAMPLED)
        return self._trace.SpanContext(int(trace, 16), int(span, 16), False, sampled)

    def finish(self, status: Status) -> None:
        """Close the connection."""
        if self._exporter is not None:
            self._exporter.shutdown()


def _leaves(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found += _leaves(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", value))
    return found
