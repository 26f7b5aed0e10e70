"""Data sets for SkyRL: one row per task, which its trainer hands to the environment."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import dumps
from skillwright.envs.tau_bench import TauBenchEnv, configured_store
from skillwright.integrations.skyrl_gym_env import INSTALL

ROW_COLUMNS: Final = ("prompt", "env_class", "task_index", "task_split", "max_turns")
DEFAULT_TURNS: Final = 30

_PLACEHOLDER: Final = "The environment writes the conversation."
_CHARS_PER_TOKEN: Final = 3.5  # of the JSON that prompts and observations mostly are
_LONGEST_OBSERVATION: Final = 3_500  # characters; a product with all its variants
_TURN_TOKENS: Final = 150  # what the agent writes in one


def tau_bench_rows(
    split: str, env_config: object | None = None, max_turns: int = DEFAULT_TURNS
) -> list[dict[str, Any]]:
    """Return a row per task of a split, with `ROW_COLUMNS`.

    Args:
        split: A split of the data, such as ``test``.
        env_config: The environment's settings; they say where the data is.
        max_turns: Most turns of an episode, at least 1. SkyRL's generator puts its own instead.

    Raises:
        DataError: There is no such split, or the data is missing or damaged.
    """
    if max_turns < 1:
        raise DataError(f"max_turns is {max_turns}; an episode needs at least 1")
    tasks = configured_store(env_config).tasks(split)
    return [
        {
            "prompt": [{"role": "user", "content": _PLACEHOLDER}],
            "env_class": "tau_bench",
            "task_index": index,
            "task_split": split,
            "max_turns": max_turns,
        }
        for index in range(len(tasks))
    ]


def expected_tokens(env_config: object | None = None, max_turns: int = DEFAULT_TURNS) -> int:
    """Estimate the tokens of the longest conversation that ``max_input_length`` should hold.

    The trainer checks the placeholder prompt only, and ends an episode that outgrows its limit
    without telling the environment, which then is paid nothing.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    store = configured_store(env_config)
    split = "test" if "test" in store.splits else store.splits[-1]
    script = {"user_strategy": "scripted", "user_replies": ["Hello."]}
    env = TauBenchEnv(env_config, {"task_index": 0, "task_split": split, **script})
    opening, _ = env.init([])
    chars = sum(len(message["content"]) for message in opening)
    # Every turn at its longest would be a conversation that nobody has; half of them is a long one.
    turns = max_turns * (_TURN_TOKENS + _LONGEST_OBSERVATION / _CHARS_PER_TOKEN / 2)
    return round(chars / _CHARS_PER_TOKEN + turns)


def write_rows(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as JSON lines, or as Parquet where the file's name ends in ``.parquet``.

    Raises:
        DataError: The name ends in something else, pyarrow is not installed, or the file cannot
            be written.
    """
    if path.suffix not in (".jsonl", ".parquet"):
        raise DataError(f"{str(path)!r}: rows are written as .parquet or .jsonl")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            path.write_text("".join(f"{dumps(row)}\n" for row in rows), encoding="utf-8")
        else:
            _write_parquet(rows, path)
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def _write_parquet(rows: Sequence[dict[str, Any]], path: Path) -> None:
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DataError(
            f"Parquet needs pyarrow, which is not installed ({error}); {INSTALL}, or write "
            f"{path.with_suffix('.jsonl').name!r}"
        ) from error
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
