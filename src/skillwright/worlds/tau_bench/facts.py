"""The settings that scores depend on, for comparison with published scores; tasks by split."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from skillwright.core import DataError, Task
from skillwright.core.jsonio import digest
from skillwright.envs.about import TaskSplits
from skillwright.worlds.tau_bench.config import TauBenchEnvConfig, read_config
from skillwright.worlds.tau_bench.tau_core.banking import BANKING
from skillwright.worlds.tau_bench.tau_core.reward import GRADER_VERSION, begin, grade
from skillwright.worlds.tau_bench.tau_core.store import (
    ASK_FOR_BUILT_IN,
    DOMAINS,
    Store,
    data_dir,
    is_original,
    open_store,
)
from skillwright.worlds.tau_bench.upstream_words import user_words

ORIGINAL_TURNS: Final = 30
OTHER: Final = "tools and rules of tau-bench {domain}, over other data"

# A third party's strategy may use both a model and a script.
_NO_MODEL: Final = frozenset({"scripted", "human", "rule_based"})
_NO_SCRIPT: Final = frozenset({"llm", "react", "verify", "reflection", "human", "rule_based"})


def comparability(env_config: object | None = None) -> dict[str, Any]:
    """Return the settings and data that a score depends on, apart from the agent, as JSON.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    config = read_config(env_config)
    source = data_dir(config.data_dir, config.domain)
    store = open_store(source.path, config.domain)
    own, other = store.domain.original, OTHER.format(domain=config.domain)
    return {
        "benchmark": own if is_original(store) else other,
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
            **({"retrieval": config.retrieval} if config.domain == BANKING.name else {}),
        },
        **({"judge": _judge(config)} if config.judge_votes else {}),
    }


def departures(env_config: object | None = None) -> list[str]:
    """List the differences from the settings of tau-bench's published figures.

    Those have a tool-calling agent and a user of the strategy ``llm``; the user's model is not
    compared, because figures are published for several.

    Raises:
        DataError: A setting is wrong, or the data is missing or damaged.
    """
    config = read_config(env_config)
    store = configured_store(config)
    if store.domain.is_tau3:
        natively = "tau2-bench's agent and user call tools natively, by its prompts, in 200 steps"
        older = "tasks and documents of the bank are those before 1.0.1, and its rules are later"
        return [natively, *([older] if store.domain is BANKING else [])]
    if not is_original(store):
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


def _judge(config: TauBenchEnvConfig) -> dict[str, Any]:
    settings = {"model": config.user_simulator_model, **config.judge_settings}
    return {"votes": config.judge_votes, "settings": settings}


def _user(config: TauBenchEnvConfig) -> dict[str, Any]:
    """Return what the user's replies depend on; ``None`` for settings without effect."""
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


NAME: Final = "tau_bench"


def configured_store(env_config: object | None = None) -> Store:
    """Return the data of episodes with these settings."""
    config = read_config(env_config)
    return open_store(data_dir(config.data_dir, config.domain).path, config.domain)


def refuse_unasked_store(env_config: object | None = None) -> None:
    """Refuse to measure on the built-in store, unless the settings ask for it."""
    config = read_config(env_config)
    domain = DOMAINS[config.domain]
    if not config.data_dir and data_dir(None, domain.name).origin == ASK_FOR_BUILT_IN:
        raise DataError(
            "the data of tau-bench is not here, and scores on the small built-in store compare "
            f"with no published ones. Fetch the data by `{domain.fetch_command}`, name its folder "
            f"in env.config.data_dir or {domain.data_variable}, or ask for the store by "
            f"env.config.data_dir={ASK_FOR_BUILT_IN}"
        )


def tau_tasks(split: str, env_config: object | None = None, count: int | None = None) -> list[Task]:
    """Return the first ``count`` tasks of a split, or all.

    Raises:
        DataError: A setting is wrong, the data is missing or damaged, or there is no such split.
    """
    config = read_config(env_config)
    store = configured_store(config)
    domain, out = store.domain, left_out(store, split, config)
    listed = [at for at in enumerate(store.tasks(split)) if at[0] not in out]
    return [
        Task(
            id=f"{split}-{index:03d}",
            env=NAME,
            # The data's checksum is in every task, so other data gives other tasks.
            extras={"task_index": index, "task_split": split, "data_sha256": store.checksum},
            task_type=domain.task_type([task.kind, *(action.tool for action in task.actions)]),
            description=f"a customer of the {domain.place} calls ({task.user_id})",
            split=split,
        )
        for index, task in listed[:count]
    ]


def left_out(store: Store, split: str, config: TauBenchEnvConfig) -> list[int]:
    """Return the indices of tasks that are not played because no judge is configured."""
    tasks = enumerate(store.tasks(split))
    return [at for at, task in tasks if task.assertions and not config.judge_votes]


def find_tasks(data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
    """Return the tasks for train, val and test that a ``data`` section names.

    The original retail data has no val split: by default its ``dev`` is used. The airline has only
    test; all of it stays test unless ``train`` and ``val`` say how many tasks to cut off. Of tau3's
    train tasks the last quarter, or ``val`` of them, is val.
    """
    splits, test = configured_store(env_config).splits, data.get("test_split") or "test"
    if len(splits) == 1 and test in (splits[0], "test"):
        return _cut(tau_tasks(splits[0], env_config), data, env_config)
    tested = tau_tasks(test, env_config, data["test"])
    val = "dev" if "val" not in splits and "dev" in splits else "val"
    train = tau_tasks("train", env_config)
    if val in splits or not configured_store(env_config).domain.is_tau3:
        kept = tau_tasks(val, env_config, data["val"])
    else:
        size = data["val"] or max(1, len(train) // 4)
        train, kept = train[:-size], [replace(task, split="val") for task in train[-size:]]
    return train[: data["train"]], kept, tested


CUT: Final = "cut_from"
"""Key in the extras of tasks if one split of the data was cut into three."""


def _cut(tasks: list[Task], data: Mapping[str, Any], env_config: object | None) -> TaskSplits:
    """Cut one split into three; a customer's tasks stay together, because many are similar."""
    counts = {"train": data["train"], "val": data["val"]}
    if not any(counts.values()):
        return [], [], tasks[: data["test"]]
    store = configured_store(env_config)
    split = store.splits[0]
    if not all(counts.values()):
        raise DataError(
            f"tau-bench {store.domain.name} has a {split} split and no other: to cut it, set both "
            f"env.data.train and env.data.val (now {counts['train']} and {counts['val']})"
        )
    of_customer: dict[str, list[Task]] = {}
    for task in tasks:
        wanted = store.task(split, int(task.extras["task_index"]))
        of_customer.setdefault(wanted.user_id, []).append(task)
    cut: dict[str, list[Task]] = {"train": [], "val": [], "test": []}
    counts["test"] = data["test"] or max(1, len(tasks) - sum(counts.values()))
    for group in of_customer.values():
        # Into the split with the largest missing share, so that late tasks are not all in test.
        missing = {name: 1 - (len(cut[name]) + len(group)) / counts[name] for name in cut}
        into = max(missing, key=missing.__getitem__)
        if missing[into] >= 0:
            extras = {CUT: split}
            cut[into] += [replace(t, split=into, extras={**t.extras, **extras}) for t in group]
    if empty := [name for name in cut if not cut[name]]:
        raise DataError(
            f"tau-bench {store.domain.name}: env.data.train {counts['train']} and env.data.val "
            f"{counts['val']} leave no task for {', '.join(empty)} of the {len(tasks)} there "
            "are (those of one customer stay together); lower or raise one of them"
        )
    return cut["train"], cut["val"], cut["test"]


def is_no_op(store: Store, split: str, index: int) -> bool:
    """Tell whether a task leaves the database unchanged."""
    return store.gold(split, index).is_untouched


def is_free(store: Store, split: str, index: int) -> bool:
    """Tell whether hanging up at once solves a task: no change and no text is required."""
    task, gold = store.task(split, index), store.gold(split, index)
    end = begin(store.tables, task)
    return not task.assertions and grade(end, gold, (), task).reward == 1.0
