"""Storage of runs: one folder and one SQLite file per run."""

from skillwright.core.secrets import Redactor, redact
from skillwright.runs.calls import CallRecord, CallSummary
from skillwright.runs.episodes import EpisodeSummary
from skillwright.runs.folder import RunFolder, list_runs, unused_name
from skillwright.runs.learning import EditRecord, PatchRecord, SkillVersion, Stage, VerdictRecord
from skillwright.runs.provenance import provenance
from skillwright.runs.store import Event, RunStore

__all__ = [
    "CallRecord",
    "CallSummary",
    "EditRecord",
    "EpisodeSummary",
    "Event",
    "PatchRecord",
    "Redactor",
    "RunFolder",
    "RunStore",
    "SkillVersion",
    "Stage",
    "VerdictRecord",
    "list_runs",
    "provenance",
    "redact",
    "unused_name",
]
