"""Storage of runs: one folder and one SQLite file per run."""

from skillwright.core.secrets import Redactor as Redactor
from skillwright.core.secrets import redact as redact
from skillwright.runs.calls import CallRecord as CallRecord
from skillwright.runs.episodes import EpisodeSummary as EpisodeSummary
from skillwright.runs.folder import RunFolder as RunFolder
from skillwright.runs.folder import list_runs as list_runs
from skillwright.runs.folder import unused_name as unused_name
from skillwright.runs.learning import EditRecord as EditRecord
from skillwright.runs.learning import PatchRecord as PatchRecord
from skillwright.runs.learning import SkillVersion as SkillVersion
from skillwright.runs.learning import Stage as Stage
from skillwright.runs.learning import VerdictRecord as VerdictRecord
from skillwright.runs.provenance import provenance as provenance
from skillwright.runs.store import Event as Event
from skillwright.runs.store import RunStore as RunStore
