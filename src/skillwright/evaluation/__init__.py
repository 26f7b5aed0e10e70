"""What numbers mean: scores, intervals, and the gates that let an improvement through."""

from skillwright.evaluation.check import CheckAnswer, CheckTest, CheckVerdict, Noise
from skillwright.evaluation.difference import PairedDifference, paired_difference
from skillwright.evaluation.drift import Timed, drift_line
from skillwright.evaluation.duel import DrawCount, Draws, SkillDuel, blocks
from skillwright.evaluation.gates.base import Gate, alpha_lines, power_text, why_hopeless
from skillwright.evaluation.gates.bounds import BoundedGain, bound_gain, least_margin
from skillwright.evaluation.gates.chosen import Choice, choices, chosen_p_value
from skillwright.evaluation.gates.judging import Terms, tasks_needed
from skillwright.evaluation.gates.non_inferiority import NonInferiorityTest, non_inferiority_power
from skillwright.evaluation.gates.release import (
    RELEASE_DRAWS_FROM,
    RELEASE_PHASE,
    RELEASE_STRIDE,
    ReleaseTest,
    in_random_order,
    release_draws,
)
from skillwright.evaluation.gates.skillopt_gate import (
    GateAction,
    GateMetric,
    GateResult,
    compute_semantic_density,
    evaluate_gate,
    select_gate_score,
)
from skillwright.evaluation.gates.step_gates import ExploreGate, OpenGate, PairedGate, StrictGate
from skillwright.evaluation.intervals import (
    Interval,
    bounded_mean_interval,
    clustered_wilson_interval,
    mean_above_p_value,
    mean_interval,
    paired_proportion_interval,
    pass_hat_k,
    pass_hat_k_interval,
    wilson_interval,
)
from skillwright.evaluation.online import ErrorBudget
from skillwright.evaluation.paired import (
    PairedEffect,
    cluster_means,
    measure_effect,
    paired_p_value,
)
from skillwright.evaluation.power import detectable_gain
from skillwright.evaluation.report import (
    Score,
    ScoreTable,
    SelectionBias,
    SplitReport,
    compute_score,
    selection_bias,
    why_refuted,
)
from skillwright.evaluation.verdict import (
    AlphaLedger,
    Decision,
    Estimate,
    Expected,
    Look,
    Seen,
    Verdict,
)

__all__ = [
    "RELEASE_DRAWS_FROM",
    "RELEASE_PHASE",
    "RELEASE_STRIDE",
    "AlphaLedger",
    "BoundedGain",
    "CheckAnswer",
    "CheckTest",
    "CheckVerdict",
    "Choice",
    "Decision",
    "DrawCount",
    "Draws",
    "ErrorBudget",
    "Estimate",
    "Expected",
    "ExploreGate",
    "Gate",
    "GateAction",
    "GateMetric",
    "GateResult",
    "Interval",
    "Look",
    "Noise",
    "NonInferiorityTest",
    "OpenGate",
    "PairedDifference",
    "PairedEffect",
    "PairedGate",
    "ReleaseTest",
    "Score",
    "ScoreTable",
    "Seen",
    "SelectionBias",
    "SkillDuel",
    "SplitReport",
    "StrictGate",
    "Terms",
    "Timed",
    "Verdict",
    "alpha_lines",
    "blocks",
    "bound_gain",
    "bounded_mean_interval",
    "choices",
    "chosen_p_value",
    "cluster_means",
    "clustered_wilson_interval",
    "compute_score",
    "compute_semantic_density",
    "detectable_gain",
    "drift_line",
    "evaluate_gate",
    "in_random_order",
    "least_margin",
    "mean_above_p_value",
    "mean_interval",
    "measure_effect",
    "non_inferiority_power",
    "paired_difference",
    "paired_p_value",
    "paired_proportion_interval",
    "pass_hat_k",
    "pass_hat_k_interval",
    "power_text",
    "release_draws",
    "select_gate_score",
    "selection_bias",
    "tasks_needed",
    "why_hopeless",
    "why_refuted",
    "wilson_interval",
]
