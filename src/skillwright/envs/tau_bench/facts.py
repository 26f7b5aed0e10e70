"""What has to be equal for two scores to be comparable."""

from typing import Any, Final

from skillwright.core.jsonio import digest
from skillwright.envs.tau_bench.config import TauBenchEnvConfig, read_config
from skillwright.envs.tau_bench.tau_core.checksums import UPSTREAM, manifest_of
from skillwright.envs.tau_bench.tau_core.location import data_dir
from skillwright.envs.tau_bench.tau_core.reward import GRADER_VERSION
from skillwright.envs.tau_bench.tau_core.store import Store, open_store

ORIGINAL: Final = "tau-bench retail, original 115"
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
            "parsing": config.parsing,
            "score_on_truncation": config.score_on_truncation,
            "wrap_tool_results": config.wrap_tool_results,
            "empty_observation": config.empty_observation,
            "show_rules": config.show_rules,
        },
    }


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
    return {
        "strategy": config.user_strategy,
        **(played if has_model else dict.fromkeys(played)),
        "replies": digest(list(config.user_replies)) if has_script else None,
    }


def _is_original(store: Store) -> bool:
    """Tell whether the data is tau-bench's own; that the files are what it says is checked."""
    sums = manifest_of(store.folder)
    return all(sums.get(name) == checksum for name, checksum in UPSTREAM.items())
