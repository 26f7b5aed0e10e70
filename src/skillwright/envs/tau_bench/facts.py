"""What has to be equal for two scores to be comparable, also with the published ones."""

from collections.abc import Iterator
from typing import Any, Final

from skillwright.core.jsonio import digest
from skillwright.envs.tau_bench.config import TauBenchEnvConfig, read_config
from skillwright.envs.tau_bench.tau_core.checksums import UPSTREAM, manifest_of
from skillwright.envs.tau_bench.tau_core.location import data_dir
from skillwright.envs.tau_bench.tau_core.reward import GRADER_VERSION
from skillwright.envs.tau_bench.tau_core.store import Store, open_store
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
