"""What has to be equal for two scores to be comparable, also with the published ones."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from skillwright.core import DataError, Task
from skillwright.core.jsonio import digest
from skillwright.envs.about import TaskSplits
from skillwright.envs.tau_bench.config import TauBenchEnvConfig, read_config
from skillwright.envs.tau_bench.tau_core.reward import GRADER_VERSION, Action
from skillwright.envs.tau_bench.tau_core.store import (
    ASK_FOR_BUILT_IN,
    DATA_VARIABLE,
    FETCH_COMMAND,
    UPSTREAM,
    Store,
    data_dir,
    manifest_of,
    open_store,
)
from skillwright.envs.tau_bench.upstream_words import user_words

ORIGINAL: Final = "tau-bench retail, original 115"
ORIGINAL_TURNS: Final = 30
OTHER: Final = "tools and rules of tau-bench retail, over other data"

# A strategy that somebody registered may use both a model and a script.
_NO_MODEL: Final = frozenset({"scripted", "human", "rule_based"})
_NO_SCRIPT: Final = frozenset({"llm", "react", "verify", "reflection", "human", "rule_based"})


def comparability(env_config: object | None = None) -> dict[str, Any]:
    """Return what a score depends on beside the agent, as a JSON object.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    config = read_config(env_config)
    source = data_dir(config.data_dir)
    store = open_store(source.path)
    return {
        "benchmark": ORIGINAL if _is_original(store) else OTHER,
        "grader": GRADER_VERSION,
        "data": {"checksum": store.checksum, "origin": source.origin},
        "user": _user(config),
        "protocol": {
            "tools": config.tools,
            "prompt": config.prompt,
            "parsing": config.parsing,
            "score_on_truncation": config.score_on_truncation,
            "wrap_tool_results": config.wrap_tool_results,
            "empty_observation": config.empty_observation,
            "show_rules": config.show_rules,
        },
    }


def departures(env_config: object | None = None) -> list[str]:
    """Say in what the settings depart from those of tau-bench's published figures.

    Those are of its tool-calling agent, with a user of the strategy ``llm``; which model played
    the user is for the reader to compare, as they are published for several.

    Returns:
        Nothing where agent, user and data are asked and graded as there.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    config = read_config(env_config)
    store = open_store(data_dir(config.data_dir).path)
    if not _is_original(store):
        return ["the data is not tau-bench's", *_of_agent(config), *_of_user(config)]
    return [*_of_agent(config), *_of_user(config)]


def _of_agent(config: TauBenchEnvConfig) -> Iterator[str]:
    if config.tools != "native":
        yield f"tools is {config.tools!r}, and its agent's is 'native'"
    if config.prompt != "tau-bench":
        yield "prompt is ours; 'tau-bench' is its agent's"
    usual = TauBenchEnvConfig()
    for name in ("parsing", "score_on_truncation", "empty_observation"):
        if (value := getattr(config, name)) != (original := getattr(usual, name)):
            yield f"{name} is {value!r}, and there {original!r}"


def _of_user(config: TauBenchEnvConfig) -> Iterator[str]:
    if config.user_strategy != "llm":
        yield f"user_strategy is {config.user_strategy!r}, and there 'llm'"
        return
    if config.user_prompt != "tau-bench":
        yield "user_prompt is ours; 'tau-bench' is its user's"
    elif not (words := user_words(config)).is_published:
        yield f"the words for the user in {words.origin} are not those of its figures"
    settings = config.user_settings
    temperature = settings.get("temperature", config.user_sim_temperature)
    if temperature is not None:
        yield (
            f"the user's temperature is {temperature:g}, and its user is sent none "
            "(user_settings: {temperature: null})"
        )


def _user(config: TauBenchEnvConfig) -> dict[str, Any]:
    """Return what the user's replies depend on; ``None`` for what the strategy does not use."""
    has_model = config.user_strategy not in _NO_MODEL
    has_script = config.user_strategy not in _NO_SCRIPT
    played = {
        "model": config.user_simulator_model,
        "backend": config.user_backend,
        "settings": dict(config.user_settings),
        "temperature": config.user_sim_temperature,
        "max_tokens": config.user_sim_max_tokens,
        "prompt": config.user_prompt,
    }
    if has_model and config.user_prompt == "tau-bench":
        played["words"] = user_words(config).digest
    return {
        "strategy": config.user_strategy,
        **(played if has_model else dict.fromkeys(played)),
        "replies": digest(list(config.user_replies)) if has_script else None,
    }


def _is_original(store: Store) -> bool:
    """Tell whether the data is tau-bench's own; that the files are what it says is checked."""
    sums = manifest_of(store.folder)
    return all(sums.get(name) == checksum for name, checksum in UPSTREAM.items())


# The tasks of a split as the engine plays them, with what a report breaks them down by.


NAME: Final = "tau_bench"

_KINDS: Final[Mapping[str, str]] = {
    "cancel_pending_order": "cancel",
    "modify_pending_order_address": "order_address",
    "modify_pending_order_items": "order_items",
    "modify_pending_order_payment": "order_payment",
    "modify_user_address": "user_address",
    "exchange_delivered_order_items": "exchange",
    "return_delivered_order_items": "return",
}
READ_ONLY: Final = "read_only"
SEVERAL: Final = "several_kinds"
ALL_TASK_TYPES: Final = (*_KINDS.values(), READ_ONLY, SEVERAL)
"""All that `task_type` returns."""


def configured_store(env_config: object | None = None) -> Store:
    """Return the data that episodes with these settings use."""
    return open_store(data_dir(read_config(env_config).data_dir).path)


def refuse_unasked_store(env_config: object | None = None) -> None:
    """Refuse to measure on the small store that comes with us, unless the settings ask for it."""
    configured = read_config(env_config).data_dir
    if not configured and data_dir().origin == ASK_FOR_BUILT_IN:
        raise DataError(
            "the data of tau-bench is not here, and scores on the small built-in store compare "
            f"with no published ones. Fetch the data by `{FETCH_COMMAND}`, name its folder in "
            f"env.config.data_dir or {DATA_VARIABLE}, or ask for the store by "
            f"env.config.data_dir={ASK_FOR_BUILT_IN}"
        )


def retail_tasks(
    split: str, env_config: object | None = None, count: int | None = None
) -> list[Task]:
    """Return the tasks of a split, in its order.

    Args:
        split: A split of the data, such as ``test``.
        env_config: The environment's settings; they say where the data is.
        count: At most so many, the first; ``None`` for all.

    Raises:
        DataError: A setting is wrong, the data is missing or damaged, or there is no such split.
    """
    store = configured_store(env_config)
    return [
        Task(
            id=f"{split}-{index:03d}",
            env=NAME,
            # The data's checksum is in every task: over other data it is another task.
            extras={"task_index": index, "task_split": split, "data_sha256": store.checksum},
            task_type=task_type(task.actions),
            description=f"a customer of the retail store calls ({task.user_id})",
            split=split,
        )
        for index, task in enumerate(store.tasks(split)[:count])
    ]


def find_tasks(data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
    """Return the tasks for train, val and test that a ``data`` section names.

    The original data has no val split: unless one is named, its ``dev`` decides.
    """
    splits = configured_store(env_config).splits
    val = "dev" if "val" not in splits and "dev" in splits else "val"
    return (
        retail_tasks(data["train_split"], env_config, data["train"]),
        retail_tasks(data["val_split"] or val, env_config, data["val"]),
        retail_tasks(data["test_split"], env_config, data["test"]),
    )


def task_type(actions: Iterable[Action]) -> str:
    """Name a task by what its gold actions write: the one kind of it, several kinds, or nothing.

    It is the category of the task for a skill bank too. The gold actions tell it before the
    customer has said a word, a hint that the published protocol does not give: a score that was
    reached with skills chosen by it has to say so.
    """
    kinds = {_KINDS[action.name] for action in actions if action.name in _KINDS}
    if len(kinds) > 1:
        return SEVERAL
    return kinds.pop() if kinds else READ_ONLY


def is_no_op(store: Store, split: str, index: int) -> bool:
    """Tell whether a task wants the database left as it is."""
    return store.gold(split, index).is_untouched


def is_free(store: Store, split: str, index: int) -> bool:
    """Tell whether hanging up at once wins a task: nothing is to be changed, and nothing said."""
    return is_no_op(store, split, index) and not store.task(split, index).outputs
