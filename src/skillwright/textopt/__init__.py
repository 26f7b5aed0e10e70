"""The learner of skill documents: trajectories in, a candidate document and its provenance out.

A step reads rollouts, has them analysed in minibatches, merges what the analysts propose, cuts it
to the edit budget and applies it. It returns values and writes nothing; a job stores them and asks
the gate.
"""

from skillwright.rollout.transcript import (
    Line,
    Skipped,
    Transcript,
    Transcripts,
    read_episodes,
    read_rows,
)
from skillwright.rollout.transcript_text import Cut, Rendering, estimate_tokens, render_trajectories
from skillwright.textopt.aggregate import Aggregate, Merge, aggregate
from skillwright.textopt.appendix import (
    AppendixUpdate,
    add_notes,
    appendix_notes,
    with_notes,
)
from skillwright.textopt.budget import BudgetDecision, decide_budget
from skillwright.textopt.comparison import (
    Category,
    ComparedPair,
    Comparison,
    PairPolicy,
    comparison_specs,
    parse_pair_policy,
    render_comparison,
)
from skillwright.textopt.context import ANY_REWARD, StepContext, StepSettings
from skillwright.textopt.document import plain_document
from skillwright.textopt.epoch import EpochContext
from skillwright.textopt.history import (
    FailurePattern,
    StepEntry,
    StepMemory,
    TriedEdit,
    failure_patterns,
)
from skillwright.textopt.items import SkillCandidate, Suggestion
from skillwright.textopt.lint import EditLimits
from skillwright.textopt.making import Made
from skillwright.textopt.meta_skill import MetaSkill, MetaSkillAction, write_meta_skill
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.practice import Practice
from skillwright.textopt.prompts import PROMPT_NAMES, load_prompt
from skillwright.textopt.proposal import AnalystFault, Evidence, Proposal
from skillwright.textopt.raw_patches import read_raw_patches
from skillwright.textopt.reflect import (
    AnalystPatch,
    FailureNote,
    Minibatch,
    Reflection,
    plan_minibatches,
    reflect,
)
from skillwright.textopt.reflector import TextReflector
from skillwright.textopt.repair import Repair, nearest_passages, repair_anchors
from skillwright.textopt.rewrite import Rewrite, with_regions_of
from skillwright.textopt.schedule import (
    AutonomousScheduler,
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    LRScheduler,
    build_scheduler,
)
from skillwright.textopt.select import Selection, rank_and_select
from skillwright.textopt.skill_aware import AppendixSource, SkillAware, read_notes, unique_notes
from skillwright.textopt.slow_update import (
    SlowUpdate,
    SlowUpdateStatus,
    placeholder,
    write_slow_update,
)
from skillwright.textopt.step import StepProposal, StepStatus, propose
from skillwright.textopt.update import EditOutcome, Update, apply_proposals, was_applied
from skillwright.textopt.update_modes import (
    BudgetControl,
    RankFallback,
    UpdateMode,
    parse_budget_control,
    parse_update_mode,
)

__all__ = [
    "ANY_REWARD",
    "PROMPT_NAMES",
    "Aggregate",
    "AnalystFault",
    "AnalystPatch",
    "AppendixSource",
    "AppendixUpdate",
    "AutonomousScheduler",
    "BudgetControl",
    "BudgetDecision",
    "Category",
    "ComparedPair",
    "Comparison",
    "ConstantScheduler",
    "CosineScheduler",
    "Cut",
    "EditLimits",
    "EditOutcome",
    "EpochContext",
    "Evidence",
    "FailureNote",
    "FailurePattern",
    "LRScheduler",
    "Line",
    "LinearScheduler",
    "Made",
    "Merge",
    "MetaSkill",
    "MetaSkillAction",
    "Minibatch",
    "Optimizer",
    "PairPolicy",
    "Practice",
    "Proposal",
    "RankFallback",
    "Reflection",
    "Rendering",
    "Repair",
    "Rewrite",
    "Selection",
    "SkillAware",
    "SkillCandidate",
    "Skipped",
    "SlowUpdate",
    "SlowUpdateStatus",
    "StepContext",
    "StepEntry",
    "StepMemory",
    "StepProposal",
    "StepSettings",
    "StepStatus",
    "Suggestion",
    "TextReflector",
    "Transcript",
    "Transcripts",
    "TriedEdit",
    "Update",
    "UpdateMode",
    "add_notes",
    "aggregate",
    "appendix_notes",
    "apply_proposals",
    "build_scheduler",
    "comparison_specs",
    "decide_budget",
    "estimate_tokens",
    "failure_patterns",
    "load_prompt",
    "nearest_passages",
    "parse_budget_control",
    "parse_pair_policy",
    "parse_update_mode",
    "placeholder",
    "plain_document",
    "plan_minibatches",
    "propose",
    "rank_and_select",
    "read_episodes",
    "read_notes",
    "read_raw_patches",
    "read_rows",
    "reflect",
    "render_comparison",
    "render_trajectories",
    "repair_anchors",
    "unique_notes",
    "was_applied",
    "with_notes",
    "with_regions_of",
    "write_meta_skill",
    "write_slow_update",
]
