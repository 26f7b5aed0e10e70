"""The recipe of SkillRL as a job: a bank of skills, and a policy that is trained with it.

Everything here is imported without torch. `recipe`, `wiring`, `preflight` and `saving` need torch,
and are imported when a run begins.
"""

from skillwright.jobs.kinds import RlKind as RlKind
from skillwright.jobs.weights.estimate import RlEstimate as RlEstimate
from skillwright.jobs.weights.estimate import estimate_rl as estimate_rl
from skillwright.jobs.weights.injected import Injector as Injector
from skillwright.jobs.weights.injected import Remembered as Remembered
from skillwright.jobs.weights.injected import SometimesNothing as SometimesNothing
from skillwright.jobs.weights.injected import TrajectorySource as TrajectorySource
from skillwright.jobs.weights.injected import other_scopes as other_scopes
from skillwright.jobs.weights.launch import RlRun as RlRun
from skillwright.jobs.weights.launch import begin_rl as begin_rl
from skillwright.jobs.weights.launch import coevolving as coevolving
from skillwright.jobs.weights.launch import is_rl_run as is_rl_run
from skillwright.jobs.weights.launch import open_rl as open_rl
from skillwright.jobs.weights.launch import refuse_without_torch as refuse_without_torch
from skillwright.jobs.weights.launch import rl_has_scripted_models as rl_has_scripted_models
from skillwright.jobs.weights.launch import run_rl as run_rl
from skillwright.jobs.weights.launch import start_rl as start_rl
from skillwright.jobs.weights.launch import supervised as supervised
from skillwright.jobs.weights.machine import free_memory as free_memory
from skillwright.jobs.weights.state import INTERNALIZED as INTERNALIZED
from skillwright.jobs.weights.state import START as START
from skillwright.jobs.weights.state import TEST_EPISODES as TEST_EPISODES
from skillwright.jobs.weights.state import TIMING as TIMING
from skillwright.jobs.weights.state import BankEvolved as BankEvolved
from skillwright.jobs.weights.state import ColdStartEnded as ColdStartEnded
from skillwright.jobs.weights.state import ColdStartStep as ColdStartStep
from skillwright.jobs.weights.state import EvolutionRecord as EvolutionRecord
from skillwright.jobs.weights.state import FirstBankMade as FirstBankMade
from skillwright.jobs.weights.state import Form as Form
from skillwright.jobs.weights.state import IterationEnded as IterationEnded
from skillwright.jobs.weights.state import IterationRecord as IterationRecord
from skillwright.jobs.weights.state import RlCallback as RlCallback
from skillwright.jobs.weights.state import RlEvent as RlEvent
from skillwright.jobs.weights.state import RlReport as RlReport
from skillwright.jobs.weights.state import RlState as RlState
from skillwright.jobs.weights.state import Validated as Validated
from skillwright.jobs.weights.state import Which as Which
from skillwright.jobs.weights.state import restore as restore
from skillwright.jobs.weights.state import selected as selected
from skillwright.jobs.weights.state import weights_name as weights_name
from skillwright.jobs.weights.tasks import again_tasks as again_tasks
from skillwright.jobs.weights.tasks import find_rl_tasks as find_rl_tasks
from skillwright.jobs.weights.tasks import harder_tasks as harder_tasks
from skillwright.jobs.weights.tasks import tasks_of_iteration as tasks_of_iteration
from skillwright.jobs.weights.tracker_numbers import past_events as past_events
from skillwright.jobs.weights.verdicts import InternalizedRecord as InternalizedRecord
from skillwright.jobs.weights.verdicts import PolicyJudged as PolicyJudged
from skillwright.jobs.weights.verdicts import PolicyStepRecord as PolicyStepRecord
from skillwright.jobs.weights.verdicts import SkillsInternalized as SkillsInternalized
