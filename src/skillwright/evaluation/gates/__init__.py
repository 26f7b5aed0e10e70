"""Who may replace whom: gates that judge a candidate by paired draws on held-out tasks.

`AnyGate` is the list that a configuration chooses from (``evaluation.gate.kind``): a new gate is a
class, and a name in this list.
"""

from skillwright.evaluation.gates.step_gates import ExploreGate, OpenGate, PairedGate, StrictGate

AnyGate = ExploreGate | PairedGate | StrictGate | OpenGate
"""Every gate that a configuration can name; the first is the default."""
