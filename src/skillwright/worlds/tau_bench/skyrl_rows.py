"""Rows of tau-bench's tasks for trainers that read SkyRL's data sets."""

from typing import Any, Final

from skillwright.core import DataError
from skillwright.worlds.tau_bench.config import read_config
from skillwright.worlds.tau_bench.env import TauBenchEnv
from skillwright.worlds.tau_bench.facts import configured_store, left_out

ROW_COLUMNS: Final = ("prompt", "env_class", "task_index", "task_split", "max_turns")
DEFAULT_TURNS: Final = 30

_PLACEHOLDER: Final = "The environment writes the conversation."
_CHARS_PER_TOKEN: Final = 3.5  # of the JSON in most prompts and observations
_TURN_TOKENS: Final = 150  # written by the agent per turn


def tau_bench_rows(
    split: str, env_config: object | None = None, max_turns: int = DEFAULT_TURNS
) -> list[dict[str, Any]]:
    """Return a row per task of a split, with `ROW_COLUMNS`.

    Args:
        split: A split of the data, such as ``test``.
        env_config: The environment's settings, with domain and data.
        max_turns: Maximum turns of an episode, at least 1. SkyRL's generator overrides it.

    Raises:
        DataError: There is no such split, or the data is missing or damaged.
    """
    if max_turns < 1:
        raise DataError(f"max_turns is {max_turns}; an episode needs at least 1")
    store = configured_store(env_config)
    out = left_out(store, split, read_config(env_config))
    return [
        {
            "prompt": [{"role": "user", "content": _PLACEHOLDER}],
            "env_class": "tau_bench",
            "task_index": index,
            "task_split": split,
            "max_turns": max_turns,
        }
        for index in range(len(store.tasks(split)))
        if index not in out
    ]


def expected_tokens(env_config: object | None = None, max_turns: int = DEFAULT_TURNS) -> int:
    """Estimate the tokens of the longest conversation that ``max_input_length`` should hold.

    The trainer checks the placeholder prompt only, and ends a longer episode without telling the
    environment, so its reward is lost.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    store = configured_store(env_config)
    split = "test" if "test" in store.splits else store.splits[-1]
    script = {"user_strategy": "scripted", "user_replies": ["Hello."]}
    env = TauBenchEnv(env_config, {"task_index": 0, "task_split": split, **script})
    opening, _ = env.init([])
    chars = sum(len(message["content"]) for message in opening)
    # Half of the turns at the maximum length: a long conversation, but a realistic one.
    turns = max_turns * (_TURN_TOKENS + store.domain.longest_observation / _CHARS_PER_TOKEN / 2)
    return round(chars / _CHARS_PER_TOKEN + turns)
