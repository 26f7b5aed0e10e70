"""An agent in an environment: episodes, limits and prompts, and the engines that play them."""

from skillwright.rollout.adapter import TextEnvAdapter
from skillwright.rollout.engine import (
    Engine,
    EngineDown,
    EpisodeFinished,
    EpisodeRecorder,
    MemoryRecorder,
    Observer,
    TurnFinished,
    episode_key,
    refuse_no_score,
)
from skillwright.rollout.episode import MakeEnv
from skillwright.rollout.limits import Limits
from skillwright.rollout.local import LocalEngine
from skillwright.rollout.predictions import folder_name
from skillwright.rollout.prompt import PromptStyle, render

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
    "PromptStyle",
    "TextEnvAdapter",
    "TurnFinished",
    "episode_key",
    "folder_name",
    "refuse_no_score",
    "render",
]
