"""An agent in an environment: episodes, limits and prompts, and the engines that play them."""

from skillwright.rollout.adapter import TextEnvAdapter as TextEnvAdapter
from skillwright.rollout.engine import Engine as Engine
from skillwright.rollout.engine import EngineDown as EngineDown
from skillwright.rollout.engine import EpisodeFinished as EpisodeFinished
from skillwright.rollout.engine import TurnFinished as TurnFinished
from skillwright.rollout.engine import refuse_no_score as refuse_no_score
from skillwright.rollout.episode import MakeEnv as MakeEnv
from skillwright.rollout.limits import Limits as Limits
from skillwright.rollout.limits import PlayLimits as PlayLimits
from skillwright.rollout.local import LocalEngine as LocalEngine
from skillwright.rollout.prompt import PromptStyle as PromptStyle
from skillwright.rollout.prompt import render as render
from skillwright.rollout.recorder import EpisodeRecorder as EpisodeRecorder
from skillwright.rollout.recorder import MemoryRecorder as MemoryRecorder
from skillwright.rollout.recorder import episode_key as episode_key
from skillwright.rollout.rollout_file import read_rollouts as read_rollouts
from skillwright.rollout.rollout_file import write_rollouts as write_rollouts
from skillwright.rollout.transcript import folder_name as folder_name
