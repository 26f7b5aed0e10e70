"""Environments: their interface, registry and checks, and tables as environments."""

from skillwright.envs.about import AboutEnv as AboutEnv
from skillwright.envs.about import EnvReport as EnvReport
from skillwright.envs.about import Evaluation as Evaluation
from skillwright.envs.adapter import EnvAdapter as EnvAdapter
from skillwright.envs.contract import Check as Check
from skillwright.envs.contract import ContractReport as ContractReport
from skillwright.envs.contract import check_env as check_env
from skillwright.envs.registry import EnvSpec as EnvSpec
from skillwright.envs.registry import deregister as deregister
from skillwright.envs.registry import make as make
from skillwright.envs.registry import register as register
from skillwright.envs.registry import spec as spec
from skillwright.envs.registry import specs as specs
from skillwright.envs.text_env import StepOutput as StepOutput
from skillwright.envs.text_env import TextEnv as TextEnv
