"""Who may replace whom: gates that judge a candidate by paired draws on held-out tasks.

`AnyGate` is the list that a configuration chooses from (``evaluation.gate.kind``): a new gate is a
class, and a name in this list.
"""

from skillwright.evaluation.gates.base import Gate, power_text, why_hopeless
from skillwright.evaluation.gates.explore import ExploreGate
from skillwright.evaluation.gates.judging import Terms, tasks_needed
from skillwright.evaluation.gates.open import OpenGate
from skillwright.evaluation.gates.paired import PairedGate
from skillwright.evaluation.gates.release import (
    RELEASE_DRAWS_FROM,
    RELEASE_PHASE,
    RELEASE_SHARES,
    ReleaseTest,
    SignTest,
    chosen_p_value,
    differing,
    release_draws,
)
from skillwright.evaluation.gates.sequential import SequentialGate, stagewise_p_value
from skillwright.evaluation.gates.strict import StrictGate

AnyGate = ExploreGate | PairedGate | SequentialGate | StrictGate | OpenGate
"""Every gate that a configuration can name; the first is the default."""

__all__ = [
    "RELEASE_DRAWS_FROM",
    "RELEASE_PHASE",
    "RELEASE_SHARES",
    "AnyGate",
    "ExploreGate",
    "Gate",
    "OpenGate",
    "PairedGate",
    "ReleaseTest",
    "SequentialGate",
    "SignTest",
    "StrictGate",
    "Terms",
    "chosen_p_value",
    "differing",
    "power_text",
    "release_draws",
    "stagewise_p_value",
    "tasks_needed",
    "why_hopeless",
]
