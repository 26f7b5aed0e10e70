"""Policies with weights: sampled, trained on skills, and rewarded.

Importing this room loads torch; nothing else does, so a run without a policy never waits for it.
The policies themselves are `skillwright.policy.scorer` and `skillwright.policy.hf`; the second
loads transformers too.
"""

from skillwright.core.policy_settings import Schedule as Schedule
from skillwright.core.policy_settings import SftSettings as SftSettings
from skillwright.policy.agent import KeptRows as KeptRows
from skillwright.policy.agent import PolicyAgent as PolicyAgent
from skillwright.policy.backend import BankVersionGone as BankVersionGone
from skillwright.policy.backend import CheckpointDamaged as CheckpointDamaged
from skillwright.policy.backend import ForeignRow as ForeignRow
from skillwright.policy.backend import GroupTooSmall as GroupTooSmall
from skillwright.policy.backend import LossReport as LossReport
from skillwright.policy.backend import ModelMissing as ModelMissing
from skillwright.policy.backend import ModelUnfit as ModelUnfit
from skillwright.policy.backend import NoChatTemplate as NoChatTemplate
from skillwright.policy.backend import NotFinite as NotFinite
from skillwright.policy.backend import OutOfMemory as OutOfMemory
from skillwright.policy.backend import PolicyBackend as PolicyBackend
from skillwright.policy.backend import ReferenceMissing as ReferenceMissing
from skillwright.policy.backend import RewardInvalid as RewardInvalid
from skillwright.policy.backend import Row as Row
from skillwright.policy.backend import Sampled as Sampled
from skillwright.policy.backend import StepReport as StepReport
from skillwright.policy.backend import TargetRefused as TargetRefused
from skillwright.policy.backend import TokenBatch as TokenBatch
from skillwright.policy.backend import check_reference as check_reference
from skillwright.policy.checkpoint import Checkpoint as Checkpoint
from skillwright.policy.checkpoint import load_checkpoint as load_checkpoint
from skillwright.policy.checkpoint import save_checkpoint as save_checkpoint
from skillwright.policy.groups import AdvantageSettings as AdvantageSettings
from skillwright.policy.groups import GroupReport as GroupReport
from skillwright.policy.groups import GroupSettings as GroupSettings
from skillwright.policy.groups import StepAdvantage as StepAdvantage
from skillwright.policy.groups import group_advantages as group_advantages
from skillwright.policy.groups import outcome_of as outcome_of
from skillwright.policy.groups import step_advantages as step_advantages
from skillwright.policy.groups import teach as teach
from skillwright.policy.sft import Coverage as Coverage
from skillwright.policy.sft import contexts_of as contexts_of
from skillwright.policy.sft import demonstrations as demonstrations
from skillwright.policy.sft import train as train
from skillwright.policy.update import GrpoLoss as GrpoLoss
from skillwright.policy.update import GrpoObjective as GrpoObjective
from skillwright.policy.update import GrpoSettings as GrpoSettings
from skillwright.policy.update import SftLoss as SftLoss
from skillwright.policy.update import TokenContext as TokenContext
from skillwright.policy.update import UpdateReport as UpdateReport
from skillwright.policy.update import joined as joined
from skillwright.policy.update import update as update
