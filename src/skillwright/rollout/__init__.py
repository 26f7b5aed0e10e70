"""An agent in an environment: episodes, limits and prompts, and the engines that play them."""

from skillwright.rollout.adapter import TextEnvAdapter
from skillwright.rollout.engine import (
    Engine,
    EngineDown,
    EpisodeFinished,
    Observer,
    TurnFinished,
    refuse_no_score,
)
from skillwright.rollout.episode import MakeEnv
from skillwright.rollout.limits import Limits, PlayLimits
from skillwright.rollout.local import LocalEngine
from skillwright.rollout.prompt import PromptStyle, render
from skillwright.rollout.recorder import EpisodeRecorder, MemoryRecorder, episode_key
from skillwright.rollout.rollout_file import read_rollouts, write_rollouts
from skillwright.rollout.transcript import folder_name

__all__ = [
    "Engine",
    "EngineDown",
    "EpisodeFinished",
    "EpisodeRecorder",
    "Limits",
    "LocalEngine",
    "MakeEnv",
    "MemoryRecorder",
    "Observer",
    "PlayLimits",
    "PromptStyle",
    "TextEnvAdapter",
    "TurnFinished",
    "episode_key",
    "folder_name",
    "read_rollouts",
    "refuse_no_score",
    "render",
    "write_rollouts",
]
