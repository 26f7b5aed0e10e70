"""Our environments behind ``skyrl_gym.make``; `skyrl_gym_env` has theirs in our engine.

Source: skyrl-gym 0.4 (NovaSky-AI/SkyRL).
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import dumps
from skillwright.envs import TextEnv, spec, specs
from skillwright.envs.tau_bench import TauBenchEnv, configured_store
from skillwright.integrations.skyrl_gym_env import INSTALL, skyrl_gym

TRAINER_COLUMNS: Final = (
    "ability",
    "data_source",
    "env_class",
    "extra_info",
    "prompt",
    "reward_model",
    "reward_spec",
    "uid",
)
"""Columns of SkyRL's data sets that say nothing of the episode to an environment of ours."""

_OURS: Final = "skillwright.envs."


def register_with_skyrl(names: Iterable[str] | None = None) -> list[str]:
    """Let ``skyrl_gym.make`` build our environments.

    Registering again changes nothing. A trainer that runs its environments in other processes
    calls this in each of them, as it does for every environment of its own.

    Args:
        names: Which ones, or which one, by the name that they have here; ``None`` for all that are
            installed and whose name is free there.

    Returns:
        The names that are ours there now.

    Raises:
        DataError: skyrl-gym is not installed, a name is unknown, or skyrl-gym has another
            environment of that name.
    """
    gym = skyrl_gym()
    wanted = [names] if isinstance(names, str) else names
    ours = []
    for name in list(specs()) if wanted is None else wanted:
        spec(name)
        taken = gym.registry.get(name)
        if taken is None:
            gym.register(name, entry_point=_ENTRY_POINT, kwargs={"name": name})
        elif taken.entry_point != _ENTRY_POINT:
            if names is None:
                continue
            raise DataError(
                f"skyrl-gym has an environment {name!r} already, {taken.entry_point!r}; deregister "
                "it first (skyrl_gym.envs.deregister)"
            )
        ours.append(name)
    return ours


def make_for_skyrl(
    name: str, env_config: object | None = None, extras: dict[str, Any] | None = None
) -> Any:
    """Build one episode's environment as an instance of skyrl-gym's ``BaseTextEnv``.

    Args:
        name: The name that it has here.
        env_config: Settings shared by all episodes; an empty one counts as none.
        extras: Settings of this episode: the columns of a row. Those that belong to SkyRL's own
            data (`TRAINER_COLUMNS`) an environment that ships with us is not given: it refuses what
            it does not know, so that a misspelled setting is no default.

    Raises:
        DataError: skyrl-gym is not installed, or the name is unknown.
    """
    found = spec(name)
    is_empty = isinstance(env_config, Mapping) and not env_config
    config = found.env_config if env_config is None or is_empty else env_config
    ours = found.load()
    columns = dict(extras or {})
    if ours.__module__.startswith(_OURS):
        columns = {name: of for name, of in columns.items() if name not in TRAINER_COLUMNS}
    return _gym_class(ours)(config, columns)


_ENTRY_POINT: Final = f"{__name__}:{make_for_skyrl.__name__}"


def _gym_class(ours: type[TextEnv]) -> type:
    """Return an environment class of ours that skyrl-gym takes for one of its own."""
    found = _gym_classes.get(ours)
    if found is not None:
        return found
    theirs: Any = importlib.import_module(f"{skyrl_gym().__name__}.envs.base_text_env").BaseTextEnv

    def build(self: Any, env_config: object | None, extras: dict[str, Any] | None) -> None:
        theirs.__init__(self)
        ours.__init__(self, env_config, extras)

    made = type(ours.__name__, (ours, theirs), {"__init__": build, "__module__": __name__})
    return _gym_classes.setdefault(ours, made)


_gym_classes: dict[type[TextEnv], type] = {}


# Data sets for SkyRL: one row per task, which its trainer hands to the environment.


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
