"""What numbers mean: scores, intervals, and the gates that let an improvement through."""

from skillwright.evaluation.check import CheckAnswer as CheckAnswer
from skillwright.evaluation.check import CheckTest as CheckTest
from skillwright.evaluation.check import CheckVerdict as CheckVerdict
from skillwright.evaluation.check import Noise as Noise
from skillwright.evaluation.difference import PairedDifference as PairedDifference
from skillwright.evaluation.difference import paired_difference as paired_difference
from skillwright.evaluation.drift import Timed as Timed
from skillwright.evaluation.drift import drift_line as drift_line
from skillwright.evaluation.duel import DrawCount as DrawCount
from skillwright.evaluation.duel import Draws as Draws
from skillwright.evaluation.duel import SkillDuel as SkillDuel
from skillwright.evaluation.duel import blocks as blocks
from skillwright.evaluation.gates.base import Gate as Gate
from skillwright.evaluation.gates.base import alpha_lines as alpha_lines
from skillwright.evaluation.gates.base import power_text as power_text
from skillwright.evaluation.gates.base import why_hopeless as why_hopeless
from skillwright.evaluation.gates.bounds import BoundedGain as BoundedGain
from skillwright.evaluation.gates.bounds import bound_gain as bound_gain
from skillwright.evaluation.gates.bounds import least_margin as least_margin
from skillwright.evaluation.gates.chosen import Choice as Choice
from skillwright.evaluation.gates.chosen import choices as choices
from skillwright.evaluation.gates.chosen import chosen_p_value as chosen_p_value
from skillwright.evaluation.gates.judging import Terms as Terms
from skillwright.evaluation.gates.judging import tasks_needed as tasks_needed
from skillwright.evaluation.gates.non_inferiority import NonInferiorityTest as NonInferiorityTest
from skillwright.evaluation.gates.non_inferiority import (
    non_inferiority_power as non_inferiority_power,
)
from skillwright.evaluation.gates.release import RELEASE_DRAWS_FROM as RELEASE_DRAWS_FROM
from skillwright.evaluation.gates.release import RELEASE_PHASE as RELEASE_PHASE
from skillwright.evaluation.gates.release import RELEASE_STRIDE as RELEASE_STRIDE
from skillwright.evaluation.gates.release import ReleaseTest as ReleaseTest
from skillwright.evaluation.gates.release import in_random_order as in_random_order
from skillwright.evaluation.gates.release import release_draws as release_draws
from skillwright.evaluation.gates.skillopt_gate import GateAction as GateAction
from skillwright.evaluation.gates.skillopt_gate import GateMetric as GateMetric
from skillwright.evaluation.gates.skillopt_gate import GateResult as GateResult
from skillwright.evaluation.gates.skillopt_gate import (
    compute_semantic_density as compute_semantic_density,
)
from skillwright.evaluation.gates.skillopt_gate import evaluate_gate as evaluate_gate
from skillwright.evaluation.gates.skillopt_gate import select_gate_score as select_gate_score
from skillwright.evaluation.gates.step_gates import ExploreGate as ExploreGate
from skillwright.evaluation.gates.step_gates import OpenGate as OpenGate
from skillwright.evaluation.gates.step_gates import PairedGate as PairedGate
from skillwright.evaluation.gates.step_gates import StrictGate as StrictGate
from skillwright.evaluation.intervals import Interval as Interval
from skillwright.evaluation.intervals import bounded_mean_interval as bounded_mean_interval
from skillwright.evaluation.intervals import clustered_wilson_interval as clustered_wilson_interval
from skillwright.evaluation.intervals import gain_text as gain_text
from skillwright.evaluation.intervals import mean_above_p_value as mean_above_p_value
from skillwright.evaluation.intervals import mean_interval as mean_interval
from skillwright.evaluation.intervals import (
    paired_proportion_interval as paired_proportion_interval,
)
from skillwright.evaluation.intervals import pass_hat_k as pass_hat_k
from skillwright.evaluation.intervals import pass_hat_k_interval as pass_hat_k_interval
from skillwright.evaluation.intervals import points as points
from skillwright.evaluation.intervals import points_range as points_range
from skillwright.evaluation.intervals import wilson_interval as wilson_interval
from skillwright.evaluation.online import ErrorBudget as ErrorBudget
from skillwright.evaluation.paired import PairedEffect as PairedEffect
from skillwright.evaluation.paired import cluster_means as cluster_means
from skillwright.evaluation.paired import measure_effect as measure_effect
from skillwright.evaluation.paired import paired_p_value as paired_p_value
from skillwright.evaluation.power import detectable_gain as detectable_gain
from skillwright.evaluation.report import Score as Score
from skillwright.evaluation.report import ScoreTable as ScoreTable
from skillwright.evaluation.report import SelectionBias as SelectionBias
from skillwright.evaluation.report import SplitReport as SplitReport
from skillwright.evaluation.report import compute_score as compute_score
from skillwright.evaluation.report import selection_bias as selection_bias
from skillwright.evaluation.report import why_refuted as why_refuted
from skillwright.evaluation.verdict import AlphaLedger as AlphaLedger
from skillwright.evaluation.verdict import Decision as Decision
from skillwright.evaluation.verdict import Expected as Expected
from skillwright.evaluation.verdict import Look as Look
from skillwright.evaluation.verdict import Seen as Seen
from skillwright.evaluation.verdict import Verdict as Verdict
