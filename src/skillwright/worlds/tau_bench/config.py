"""The settings of the environment."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from skillwright.core import DataError, did_you_mean
from skillwright.worlds.tau_bench.tau_core import DOMAINS
from skillwright.worlds.tau_bench.tau_core.banking import BANKING, RETRIEVALS


@dataclass(frozen=True, slots=True)
class TauBenchEnvConfig:
    """Settings that all episodes share.

    Attributes:
        user_simulator_endpoint: Base URL of the server that plays the user.
        user_sim_max_tokens: Maximum tokens of one reply of the user, with its reasoning.
        user_sim_temperature: At least 0.
        request_timeout: Seconds per request to the user's server, at most ``user_deadline_s``.
        domain: ``retail`` or ``airline``; of tau2-bench 1.0.1 ``tau3_retail``, ``tau3_airline``,
            ``tau3_telecom`` or ``tau3_banking``.
        retrieval: How the agent reads the bank's documents: ``grep_only`` searches them by a tool;
            ``full_kb`` has all in its prompt, ``golden_retrieval`` those that its task needs, and
            ``no_knowledge`` none. It changes scores.
        user_strategy: Strategy of the simulated user; `user_strategies` lists the names.
        user_replies: Messages of a ``scripted`` user, beginning with the opening.
        user_prompt: The user's role prompt: ``parity`` states tau-bench's obligations in our words;
            ``completion_boundary`` adds that the user must not end the call while the agent still
            asks or has not confirmed; ``tau-bench`` is the original's text, read from a copy of
            tau-bench, and needs the strategy ``llm``. It changes scores.
        tau_bench_dir: A checkout of tau-bench, or the folder of its installed package, for
            ``user_prompt: tau-bench``; empty looks next to the data, where `skillwright data
            tau-bench` puts the words, then for an installed package.
        user_backend: API of the user's server: ``openai_chat``, ``claude_chat``, ``qwen_chat`` or
            ``minimax_chat``, as in a run's ``models`` section.
        user_api_key_env: The environment variable with that server's key; empty for the backend's
            own. A self-hosted server needs no key.
        user_settings: Further settings of that model, as in a run's ``models`` section, such as
            ``{"temperature": None}``; they override the above.
        user_retries: Retries of a failed request to the user's server; an empty reply is requested
            once more. ``user_deadline_s`` limits how long a failing server is waited for.
        user_deadline_s: Seconds per turn of the user, with requests, retries and waits.
        user_max_concurrent: Maximum concurrent requests of one process to the user's server.
        tools: Format of tool calls: ``tags`` in the agent's text, as the system prompt says;
            ``native`` by the endpoint's function calling, as in tau-bench. It changes scores.
        prompt: The system prompt: ``skillwright`` is the policy, the rules and the answer format,
            in our words; ``tau-bench`` is the policy alone, as there, and needs ``tools: native``.
        parsing: ``default`` also reads calls in the notations of other models, where they have one
            meaning; ``strict`` refuses these, text next to a tool call, and several calls in a
            turn; ``lenient`` is ``default``.
        score_on_truncation: Whether an episode that reaches the turn limit is scored.
        wrap_tool_results: Whether tool results are in ``<tool_response>`` tags, to distinguish them
            from the user's words.
        empty_observation: Observation for a tool (``think``) that returns nothing.
        show_rules: Whether the data's short rules follow the policy in the system prompt.
        data_dir: Folder with the domain's data; empty uses `data_dir`'s search.
        judge_votes: Votes per sentence that a model judges, the most deciding: an odd number. 0 is
            no judge, and leaves out the tasks whose reward depends on such sentences.
        judge_settings: Settings of the judge's model that differ from those of the user's, such as
            ``{"model": ..., "base_url": ...}``.
        judge_max_tokens: Maximum tokens of the judge per episode; above it, the episode fails.
        judge_failures: Whether the judge also says of lost episodes if the user kept to its role.
    """

    user_simulator_endpoint: str = "http://127.0.0.1:8001/v1"
    user_simulator_model: str = "Qwen/Qwen2.5-7B-Instruct"
    user_sim_max_tokens: int = 512
    user_sim_temperature: float = 0.0
    request_timeout: float = 120.0
    domain: str = "retail"
    retrieval: str = RETRIEVALS[0]
    user_strategy: str = "llm"
    user_replies: tuple[str, ...] = ()
    user_prompt: str = "parity"
    tau_bench_dir: str = ""
    user_backend: str = "openai_chat"
    user_api_key_env: str = ""
    user_settings: dict[str, Any] = field(default_factory=dict)
    user_retries: int = 3
    user_deadline_s: float = 180.0
    user_max_concurrent: int = 256
    tools: str = "tags"
    prompt: str = "skillwright"
    parsing: str = "default"
    score_on_truncation: bool = False
    wrap_tool_results: bool = False
    empty_observation: str = ""
    show_rules: bool = True
    data_dir: str = ""
    judge_votes: int = 0
    judge_settings: dict[str, Any] = field(default_factory=dict)
    judge_max_tokens: int = 100_000
    judge_failures: bool = False


_FIELDS: Final[Mapping[str, Any]] = {
    one.name: getattr(TauBenchEnvConfig(), one.name)
    for one in dataclasses.fields(TauBenchEnvConfig)
}

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("tags", "native"),
    "retrieval": RETRIEVALS,
    "prompt": ("skillwright", "tau-bench"),
    "parsing": ("default", "strict", "lenient"),
    "user_prompt": ("parity", "completion_boundary", "tau-bench"),
    "user_backend": ("openai_chat", "claude_chat", "qwen_chat", "minimax_chat"),
}

# Strategies with prompts of ours besides the role.
_OTHER_ROLES: Final = frozenset({"react", "verify", "reflection"})

# Setting -> what it must be, and the test.
_BOUNDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "user_sim_max_tokens": ("at least 1", lambda value: value >= 1),
    "user_sim_temperature": ("at least 0", lambda value: value >= 0),
    "request_timeout": ("more than 0", lambda value: value > 0),
    "user_retries": ("at least 0", lambda value: value >= 0),
    "user_deadline_s": ("more than 0", lambda value: value > 0),
    "user_max_concurrent": ("at least 1", lambda value: value >= 1),
    "judge_votes": ("0, or an odd number", lambda value: value == 0 or (value > 0 and value % 2)),
    "judge_max_tokens": ("at least 1", lambda value: value >= 1),
}


class UnknownDomain(DataError, NotImplementedError):
    """A domain that does not exist; also a DataError, which callers expect."""


def read_config(env_config: object | None) -> TauBenchEnvConfig:
    """Read settings from ``None``, a mapping, or an object with fields; null means the default.

    Raises:
        DataError: A setting is unknown, of the wrong type, or out of bounds, or two conflict.
        UnknownDomain: There is no such domain.
    """
    if isinstance(env_config, TauBenchEnvConfig):
        given: Mapping[str, Any] = {name: getattr(env_config, name) for name in _FIELDS}
    else:
        given = _given(env_config)
    read = {name: _value(name, value) for name, value in given.items() if value is not None}
    config = TauBenchEnvConfig(**read)
    if config.domain not in DOMAINS:
        raise UnknownDomain(
            f"tau_bench env_config: domain is {config.domain!r}, which is not there. "
            f"{did_you_mean(config.domain, DOMAINS)}"
        )
    check_together(config)
    return config


def check_together(config: TauBenchEnvConfig) -> None:
    """Refuse settings that conflict."""
    if config.prompt == "tau-bench" and config.tools != "native":
        raise DataError(
            "tau_bench env_config: prompt is 'tau-bench' and tools is 'tags'; tau-bench's own "
            "prompt says nothing of tags, so the agent could call no tool. Set tools: native"
        )
    if config.user_prompt == "tau-bench" and config.user_strategy in _OTHER_ROLES:
        raise DataError(
            f"tau_bench env_config: user_prompt is 'tau-bench' and user_strategy is "
            f"{config.user_strategy!r}; its words are read for the strategy of its figures only. "
            "Set user_strategy: llm"
        )
    if config.user_prompt == "tau-bench" and DOMAINS[config.domain].is_tau3:
        raise DataError(
            f"tau_bench env_config: user_prompt is 'tau-bench' and domain {config.domain!r}; its "
            "user may be transferred or have tools, of which it says nothing. Leave one of them out"
        )
    if config.retrieval != RETRIEVALS[0] and config.domain != BANKING.name:
        raise DataError(
            f"tau_bench env_config: retrieval is {config.retrieval!r} and domain "
            f"{config.domain!r}; only {BANKING.name} has documents. Leave one of them out"
        )
    if config.judge_failures and not config.judge_votes:
        raise DataError(
            "tau_bench env_config: judge_failures is set and judge_votes is 0; set judge_votes: 1"
        )
    if config.wrap_tool_results and config.tools == "native":
        raise DataError(
            "tau_bench env_config: wrap_tool_results is for tools: tags; native results are "
            "messages of their own. Leave one of the two out"
        )


def _given(env_config: object | None) -> Mapping[str, Any]:
    if env_config is None:
        return {}
    if isinstance(env_config, Mapping):
        # A mapping such as OmegaConf's is read by item, because it may resolve values.
        return {str(name): _item(env_config, name) for name in env_config}
    if dataclasses.is_dataclass(env_config) and not isinstance(env_config, type):
        names = [one.name for one in dataclasses.fields(env_config)]
        return {name: getattr(env_config, name) for name in names}
    if hasattr(env_config, "__dict__") and not isinstance(env_config, type):
        return dict(vars(env_config))
    raise DataError(
        f"tau_bench env_config is {type(env_config).__name__!r}; give a mapping of settings"
    )


def _item(holder: Any, name: Any) -> Any:
    try:
        return holder[name]
    except Exception as error:
        # OmegaConf's own errors, such as for '???'.
        raise DataError(f"tau_bench env_config: {name} has no value: {error}") from error


def read_replies(replies: Any) -> tuple[str, ...]:
    """Read the messages of a scripted user."""
    return _texts("user_replies", replies)


def _value(name: str, value: Any) -> Any:
    if name not in _FIELDS:
        raise DataError(f"tau_bench env_config: no setting {name!r}. {did_you_mean(name, _FIELDS)}")
    default = _FIELDS[name]
    wanted = type(default)
    if wanted is tuple:
        value = _texts(name, value)
    elif wanted is dict and isinstance(value, Mapping):
        value = _plain(value)
    elif wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    elif name in ("data_dir", "tau_bench_dir"):
        value = str(value)
    if type(value) is not wanted:
        raise DataError(
            f"tau_bench env_config: {name} is {value!r}; it must be {wanted.__name__}, "
            f"such as {default!r}"
        )
    _check(name, value)
    return value


def _check(name: str, value: Any) -> None:
    if name in CHOICES and value not in CHOICES[name]:
        near = did_you_mean(value, CHOICES[name])
        raise DataError(f"tau_bench env_config: {name} is {value!r}. {near}")
    if name in _BOUNDS and not _BOUNDS[name][1](value):
        raise DataError(f"tau_bench env_config: {name} is {value}; it must be {_BOUNDS[name][0]}")


def _plain(value: Any) -> Any:
    """Copy mappings of any type, such as OmegaConf's, into dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(_item(value, key)) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(_item(value, at)) for at in range(len(value))]
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        texts = tuple(_item(value, at) for at in range(len(value)))
        if all(isinstance(one, str) for one in texts):
            return texts
    raise DataError(f"tau_bench env_config: {name} is {value!r}; it must be a list of texts")
