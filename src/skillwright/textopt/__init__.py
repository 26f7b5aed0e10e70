"""The learner of skill documents: trajectories in, a candidate document and its provenance out.

A step reads rollouts, has them analysed in minibatches, merges what the analysts propose, cuts it
to the edit budget and applies it. It returns values and writes nothing; a job stores them and asks
the gate.
"""

from skillwright.textopt.aggregate import Aggregate, Merge, aggregate
from skillwright.textopt.context import ANY_REWARD, StepContext, StepSettings
from skillwright.textopt.history import (
    FailurePattern,
    StepEntry,
    StepMemory,
    TriedEdit,
    failure_patterns,
)
from skillwright.textopt.lint import EditLimits
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.prompts import PROMPT_NAMES, load_prompt
from skillwright.textopt.proposal import AnalystFault, Evidence, Proposal
from skillwright.textopt.reflect import (
    AnalystPatch,
    FailureNote,
    Minibatch,
    Reflection,
    plan_minibatches,
    reflect,
)
from skillwright.textopt.reflector import TextReflector
from skillwright.textopt.render import Cut, Rendering, estimate_tokens, render_trajectories
from skillwright.textopt.schedule import (
    AutonomousScheduler,
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    LRScheduler,
    build_scheduler,
)
from skillwright.textopt.select import Selection, rank_and_select
from skillwright.textopt.step import StepProposal, StepStatus, propose
from skillwright.textopt.transcript import (
    Line,
    Skipped,
    Transcript,
    Transcripts,
    read_episodes,
    read_rows,
)
from skillwright.textopt.update import EditOutcome, Update, apply_proposals

__all__ = [
    "ANY_REWARD",
    "PROMPT_NAMES",
    "Aggregate",
    "AnalystFault",
    "AnalystPatch",
    "AutonomousScheduler",
    "ConstantScheduler",
    "CosineScheduler",
    "Cut",
    "EditLimits",
    "EditOutcome",
    "Evidence",
    "FailureNote",
    "FailurePattern",
    "LRScheduler",
    "Line",
    "LinearScheduler",
    "Merge",
    "Minibatch",
    "Optimizer",
    "Proposal",
    "Reflection",
    "Rendering",
    "Selection",
    "Skipped",
    "StepContext",
    "StepEntry",
    "StepMemory",
    "StepProposal",
    "StepSettings",
    "StepStatus",
    "TextReflector",
    "Transcript",
    "Transcripts",
    "TriedEdit",
    "Update",
    "aggregate",
    "apply_proposals",
    "build_scheduler",
    "estimate_tokens",
    "failure_patterns",
    "load_prompt",
    "plan_minibatches",
    "propose",
    "rank_and_select",
    "read_episodes",
    "read_rows",
    "reflect",
    "render_trajectories",
]
