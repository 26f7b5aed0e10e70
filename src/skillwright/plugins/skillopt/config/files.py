"""Translation of SkillOpt's configuration files, structured or flat, into ours.

`resolve_layers` returns the exact values by flat name, with the documented defaults. Where the
original silently loses something, this does not: a misspelled key is refused, a chosen backend is
distinguished from a default, and settings without effect are reported.

Source: SkillOpt (microsoft/SkillOpt), its config loader and the set-up of its trainer.
"""

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from skillwright.config.run import RunConfig
from skillwright.config.yaml_files import Layer, Values, key_paths, merge, nearest_path, nested
from skillwright.core import ConfigError, did_you_mean
from skillwright.models.backends import why_unusable
from skillwright.plugins.skillopt.config.keys import (
    BACKENDS,
    CHOICES,
    DEFAULT_MODELS,
    ENV_SETTINGS,
    FILLS_BOTH_ROLES,
    KEYS,
    PLACEHOLDER_MODELS,
    SIGN_INS,
    UNSET,
)

# Backends of a SkillOpt configuration.


_PLAIN_ENDPOINT = ("openai_compatible", "compat", "openai")
_QWEN_TEMPERATURE = 0.7
_DEADLINE_S = 600.0
_CLAUDE_PROGRAM = "claude"
_OFF = ("disabled", "off", "false", "no", "none", "0")
_MINIMAX_MODEL, _MINIMAX_TOKENS = "MiniMax-M3", 8000


def model_values(flat: Mapping[str, Any], role: str, environ: Mapping[str, str]) -> Values:
    """Return our model settings of a role (``optimizer`` or ``target``)."""
    backend = flat[f"{role}_backend"]
    match backend:
        case "openai_chat":
            settings = _openai_settings(flat, role)
        case "openai_compatible":
            settings = _compatible_settings(flat, role, environ)
        case "qwen_chat":
            settings = _qwen_settings(flat, role)
        case "minimax_chat":
            settings = _minimax_settings(flat, role)
        case "claude_chat":
            settings = {"backend": backend}
        case "codex_exec" | "claude_code_exec":
            return _program_settings(flat, role, backend)
        case _:
            raise ConfigError(f"model.{role}_backend is {backend!r}: {why_unusable(backend)}")
    values: Values = {"backend": "openai_chat", "model": flat[f"{role}_model"]}
    if role == "target":
        values |= {
            "timeout_s": flat["exec_timeout"],
            "max_tokens": flat.get("max_completion_tokens"),
        }
    values |= settings
    if values.get("max_tokens", ...) is None:
        del values["max_tokens"]  # some backends have their own default limit
    if isinstance(values.get("timeout_s"), int | float):
        values["deadline_s"] = max(_DEADLINE_S, values["timeout_s"])
    return values


def model_warnings(flat: Mapping[str, Any]) -> Iterable[str]:
    """Yield warnings about models reached through another endpoint than in the original."""
    azure = str(flat["model_backend"]).startswith("azure")
    for role in ("optimizer", "target"):
        endpoint = _setting(flat, role, "azure_openai_endpoint")
        if azure and flat[f"{role}_backend"] == "openai_chat" and not endpoint:
            yield (
                f"model.backend names Azure, but no azure_openai_endpoint is set for the {role}: "
                "OpenAI's own endpoint is used."
            )
        if flat[f"{role}_backend"] == "claude_chat":
            yield (
                f"model.{role}_backend is 'claude_chat': the {role} is reached by Anthropic's API "
                "with the key in ANTHROPIC_API_KEY, not through the `claude` program; for that "
                f"one, set models.{role}.transport=cli."
            )


def _openai_settings(flat: Mapping[str, Any], role: str) -> Values:
    settings: Values = {
        "reasoning_effort": flat["reasoning_effort"] or None,
        "api_key": _setting(flat, role, "azure_openai_api_key"),
    }
    endpoint = _setting(flat, role, "azure_openai_endpoint")
    if not endpoint:
        return settings
    mode = _setting(flat, role, "azure_openai_auth_mode")
    if mode in _PLAIN_ENDPOINT:
        return {**settings, "base_url": endpoint}
    base_url = str(endpoint).rstrip("/").removesuffix("/openai/v1") + "/openai/v1"
    if mode in SIGN_INS:
        return {**settings, "api_key": None, "base_url": base_url, "key_header": mode}
    return {**settings, "base_url": base_url, "api_key_env": "AZURE_OPENAI_API_KEY"}


def _compatible_settings(flat: Mapping[str, Any], role: str, environ: Mapping[str, str]) -> Values:
    given = {
        name: found
        for name in ("base_url", "api_key", "model", "temperature", "timeout_seconds", "max_tokens")
        if (found := _setting(flat, role, f"openai_compatible_{name}")) is not None
    }
    if "timeout_seconds" in given:
        given["timeout_s"] = given.pop("timeout_seconds")
    if "base_url" in given:
        return given
    names = [f"{prefix}OPENAI_COMPATIBLE" for prefix in (f"{role.upper()}_", "")]
    for name in names:
        base_url = environ.get(f"{name}_BASE_URL")
        if base_url:
            key = f"{name}_API_KEY"
            return {
                **given,
                "base_url": base_url,
                **({"api_key_env": key} if environ.get(key) else {}),
            }
    raise ConfigError(
        f"model.{role}_backend is 'openai_compatible' and its base URL is unknown; set "
        f"model.openai_compatible_base_url, or the environment variable {names[1]}_BASE_URL"
    )


def _qwen_settings(flat: Mapping[str, Any], role: str) -> Values:
    def given(name: str, default: Any = None) -> Any:
        found = _setting(flat, role, f"qwen_chat_{name}")
        return default if found is None else found

    settings: Values = {
        "backend": "qwen_chat",
        "temperature": given("temperature", _QWEN_TEMPERATURE),
        "base_url": given("base_url"),
        "api_key": given("api_key"),
        "timeout_s": given("timeout_seconds"),
        "thinking": given("thinking_mode"),
    }
    if given("enable_thinking") is not None:
        settings["thinking"] = "enabled" if given("enable_thinking") else "disabled"
    if given("max_tokens") is not None:
        settings["max_tokens"] = given("max_tokens")
    return {name: value for name, value in settings.items() if value is not None}


def _program_settings(flat: Mapping[str, Any], role: str, backend: str) -> Values:
    """Return a program's settings: no token limit, and read-only as an optimizer."""
    settings: Values = {
        "backend": backend,
        "model": flat[f"{role}_model"],
        "path": flat.get(f"{backend}_path"),
    }
    if settings["path"] == _CLAUDE_PROGRAM:
        del settings["path"]  # the default in both; an environment variable may override it
    if role == "target":
        settings["timeout_s"] = flat["exec_timeout"]
    if backend == "claude_code_exec":
        settings["effort"] = flat.get("claude_code_exec_effort")
    else:
        settings["effort"] = flat.get("codex_exec_reasoning_effort")
        if role == "target":
            settings |= {
                "sandbox": flat.get("codex_exec_sandbox"),
                "network": _switch(flat.get("codex_exec_network_access")),
                "web_search": _switch(flat.get("codex_exec_web_search")),
            }
    return {name: value for name, value in settings.items() if value not in (None, "")}


def _switch(value: Any) -> bool | None:
    """Read a value that is a boolean here, and in the original a boolean or a mode."""
    if value in (None, ""):
        return None
    return str(value).strip().lower() not in _OFF


def _minimax_settings(flat: Mapping[str, Any], role: str) -> Values:
    settings: Values = {"backend": "minimax_chat"}
    for name in ("region", "base_url", "api_key", "temperature"):
        found = _setting(flat, role, f"minimax_{name}")
        if found is not None:
            settings[name] = found
    named = _setting(flat, role, "minimax_model")
    if named != _MINIMAX_MODEL:
        settings["model"] = named
    # The default limit truncated long proposals, so only a chosen one is kept.
    bound = _setting(flat, role, "minimax_max_tokens")
    if bound != _MINIMAX_TOKENS:
        settings["max_tokens"] = bound
    thinks = _setting(flat, role, "minimax_enable_thinking")
    if not str(settings.get("model", flat[f"{role}_model"])).startswith("MiniMax-M2"):
        settings["thinking"] = "adaptive" if thinks else "disabled"
    return settings


def _setting(flat: Mapping[str, Any], role: str, name: str) -> Any:
    """Return a role's own setting, else the shared one, else ``None``; blank counts as unset."""
    for key in (f"{role}_{name}", name):
        if flat.get(key) not in (None, ""):
            return flat[key]
    return None


SECTIONS = ("model", "train", "gradient", "optimizer", "evaluation", "env", "human_feedback")
_THEIR_BASE = ("_base_", "default.yaml")
_ONLY_OURS = RunConfig.model_fields.keys() - set(SECTIONS)
_OUR_PATHS = frozenset(place.path for place in key_paths(RunConfig))

_BY_DOTTED = {key.dotted: key for key in KEYS}
_BY_FLAT = {key.flat: key for key in KEYS}
_ALIASES = {alias: key for key in KEYS for alias in key.aliases}
_ROLES = ("optimizer", "target")
_BOUNDED_BY_OTHERS = ("max_api_workers",)  # ``workers`` limits concurrency
_UNSET_BY_ZERO = ("limit",)
_BLANK = (None, "")


class Translation(NamedTuple):
    """A SkillOpt file in our sections, with warnings about settings without effect."""

    values: Values
    warnings: list[str]


def is_skillopt(values: Mapping[str, Any]) -> bool:
    """Return whether a file is SkillOpt's, by keys that only one of the two formats has."""
    if _ONLY_OURS & values.keys():
        return False
    return "model" in values or any(_is_theirs_alone(*item) for item in values.items())


def resolve_layers(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the values of a file's layers, base first, by flat name.

    All keys of the shipped base file are present, with its defaults; aliases of keys and values
    are canonical; both roles' backends and models are resolved. Keys of ``env`` have their bare
    names. A misspelled key or value is a `ConfigError`.
    """
    said: Values = {}
    layer_of: dict[str, int] = {}
    may_own = _names_an_adapter(layers)
    for depth, layer in enumerate(layers):
        flat = flatten_layer(layer, may_own)
        said = merge(said, flat)
        layer_of |= dict.fromkeys((name for name in flat if flat[name] not in _BLANK), depth)
    defaults = {key.flat: key.default for key in KEYS if key.default is not UNSET}
    full = {**defaults, **said}
    _settle_roles(full, layer_of)
    for name, choices in CHOICES.items():
        full[name] = _canonical(full[name], choices, _BY_FLAT[name].dotted)
    return full


def only_in_base(layers: Sequence[Layer]) -> frozenset[str]:
    """Return the flat names set by SkillOpt's base file, but by none of the user's files."""
    may_own = _names_an_adapter(layers)
    said: dict[bool, set[str]] = {True: set(), False: set()}
    for layer in layers:
        said[_is_their_base(layer)] |= flatten_layer(layer, may_own).keys()
    return frozenset(said[True] - said[False])


def translate(
    flat: Mapping[str, Any], environ: Mapping[str, str] = os.environ, quiet: Container[str] = ()
) -> Translation:
    """Translate a resolved SkillOpt configuration into our sections, without validation.

    Args:
        flat: Result of `resolve_layers`.
        environ: Has the base URL of an OpenAI-compatible backend.
        quiet: Names without a warning if they have no effect, since they were not chosen.
    """
    values: Values = {}
    for key in KEYS:
        if key.ours and key.copied and flat.get(key.flat) is not None:
            values = merge(values, nested(key.ours, flat[key.flat]))
    values = merge(values, {"models": {role: model_values(flat, role, environ) for role in _ROLES}})
    values = merge(values, {"env": _env_values(flat), "run": _run_values(flat)})
    values = merge(values, {"evaluation": _evaluation_values(flat)})
    values = merge(values, {"optimizer": _optimizer_values(flat)})
    if "workers" in flat:
        values = merge(values, nested("rollout.max_concurrent", flat["workers"]))
    said = (
        _ignored_keys(flat, quiet),
        _risky_choices(flat),
        model_warnings(flat),
        _ignored_env(flat),
    )
    return Translation(values, [line for lines in said for line in lines])


def _is_theirs_alone(name: str, value: Any) -> bool:
    if not isinstance(value, Mapping):
        return name in _BY_FLAT or name in _ALIASES
    paths = {f"{name}.{leaf}" for leaf in value}
    return bool(paths & _BY_DOTTED.keys() - _OUR_PATHS)


def _is_their_base(layer: Layer) -> bool:
    return layer.path.parts[-2:] == _THEIR_BASE


def _names_an_adapter(layers: Sequence[Layer]) -> bool:
    """Return whether the environment is a third party's adapter, which has its own keys."""
    name = compat = ""
    for layer in layers:
        env = layer.values.get("env")
        said = env if isinstance(env, Mapping) else {"name": env, **layer.values}
        name, compat = said.get("name") or name, said.get("compat") or compat
    return bool(compat) or name not in ("", "alfworld")


def flatten_layer(layer: Layer, may_own: bool = False) -> Values:
    """Return a file's values by flat name; structured keys override flat ones.

    With ``may_own``, an adapter reads the file, so unlisted keys may be the adapter's.
    """
    plain: list[tuple[str, str, Any]] = []
    structured: list[tuple[str, str, Any]] = []
    for name, value in layer.values.items():
        if name in SECTIONS and isinstance(value, Mapping):
            structured += [
                (leaf, _flat_of_dotted(name, leaf, layer.path), inner)
                for leaf, inner in value.items()
            ]
        elif not (_is_their_base(layer) and isinstance(value, Mapping)):  # a section of later
            plain.append((name, _flat_of_plain(name, value, layer.path, may_own), value))
    return {**_aliases_first(plain), **_aliases_first(structured)}


def _aliases_first(entries: Iterable[tuple[str, str, Any]]) -> Values:
    """Collect values by flat name; a key's own name overrides its aliases."""
    ordered = sorted(entries, key=lambda entry: entry[0] not in _ALIASES)
    return {flat: value for _, flat, value in ordered}


def _flat_of_dotted(section: str, leaf: str, path: Path) -> str:
    dotted = f"{section}.{leaf}"
    if dotted in _BY_DOTTED:
        return _BY_DOTTED[dotted].flat
    if leaf in _ALIASES and _ALIASES[leaf].section == section:
        return _ALIASES[leaf].flat
    if section == "env" and leaf not in _BY_FLAT:
        return leaf
    if leaf in _BY_FLAT:
        hint = f"Did you mean {_BY_FLAT[leaf].dotted!r}?"
    else:
        hint = nearest_path(dotted, _BY_DOTTED)
    raise ConfigError(f"{path}: unknown key {dotted!r}. {hint}")


def _flat_of_plain(name: str, value: Any, path: Path, may_own: bool) -> str:
    if name in _BY_FLAT:
        return name
    if name in _ALIASES:
        return _ALIASES[name].flat
    if name in ENV_SETTINGS:
        return name
    known = SECTIONS if isinstance(value, Mapping) else (*_BY_FLAT, *_ALIASES, *ENV_SETTINGS)
    looks_misspelled = get_close_matches(name, known, 1, 0.8)
    if may_own and name not in SECTIONS and not (isinstance(value, Mapping) and looks_misspelled):
        return name  # a possible misspelling is reported when the adapter gets it
    if isinstance(value, Mapping) or name in SECTIONS or looks_misspelled:
        raise ConfigError(f"{path}: unknown key {name!r}. {did_you_mean(name, known)}")
    return name


def _settle_roles(flat: Values, layer_of: Mapping[str, int]) -> None:
    """Apply ``model.backend`` to the roles whose backend was not set in the same or a later layer.

    The shipped base file sets both roles' backends, so ``model.backend`` in a derived file
    overrides the base; within a file the role's own key wins.
    """
    label = _canonical(flat["model_backend"], BACKENDS, "model.backend")
    for role in _ROLES:
        name = f"{role}_backend"
        filled_in = layer_of.get("model_backend", -1)
        fills = label in FILLS_BOTH_ROLES or role == "target"
        if fills and label != "openai_chat" and layer_of.get(name, -2) < filled_in:
            flat[name] = label
            chosen_in = filled_in
        else:
            chosen_in = layer_of.get(name, -1)
        if flat[name] in _BLANK:
            flat[name] = "openai_chat"
        flat[name] = backend = _canonical(flat[name], BACKENDS, f"model.{name}")
        model = f"{role}_model"
        unchosen = layer_of.get(model, -2) < chosen_in and flat[model] in PLACEHOLDER_MODELS
        if flat[model] in _BLANK or unchosen:
            flat[model] = DEFAULT_MODELS.get(backend, _BY_FLAT[model].default)


def _canonical(value: Any, choices: Mapping[str, Sequence[str]], dotted: str) -> str:
    said = str(value).strip().lower()
    for name, aliases in choices.items():
        if said == name or said in aliases:
            return name
    raise ConfigError(f"{dotted} is {value!r}. {did_you_mean(str(value), choices)}")


def _run_values(flat: Mapping[str, Any]) -> Values:
    if not flat["out_root"]:
        return {}
    folder = Path(str(flat["out_root"]))
    return {"root": str(folder.parent), "name": folder.name}


def _evaluation_values(flat: Mapping[str, Any]) -> Values:
    gate: Values = {"kind": "open" if flat["use_gate"] is False else "strict"}
    if flat["use_semantic_density"] and gate["kind"] == "strict":
        words = flat.get("leading_words")
        if isinstance(words, str):
            words = [word.strip() for word in words.split(",") if word.strip()]
        gate |= {"density_weight": flat["semantic_density_weight"], "leading_words": words}
    return {
        "gate": gate,
        "val_tasks": flat["sel_env_num"] or None,
        "test_tasks": flat["test_env_num"] or None,
    }


def _optimizer_values(flat: Mapping[str, Any]) -> Values:
    values: Values = {"lr_scheduler": flat["lr_scheduler"]}
    if _asks_for_the_budget(flat):
        values = {"lr_scheduler": "constant", "lr_control_mode": "autonomous"}
    if flat["use_skill_aware_reflection"]:
        values["skill_aware"] = {
            "appendix_source": flat["skill_aware_appendix_source"],
            "consolidate_threshold": flat["skill_aware_consolidate_threshold"],
        }
    return values


def _asks_for_the_budget(flat: Mapping[str, Any]) -> bool:
    """Return whether the model chooses the edit budget: no schedule, and a cap is wanted."""
    named = str(flat["lr_scheduler"]).strip().lower()
    return named == "autonomous" and flat["lr_control_mode"] != "none"


def _env_values(flat: Mapping[str, Any]) -> Values:
    name = flat["env"]
    if not name:
        raise ConfigError("env.name is blank; name the environment, such as 'alfworld'")
    values: Values = {"name": name, "data": _data_values(flat)}
    if flat.get("compat"):
        values["compat"] = flat["compat"]
    turns = [flat[word] for word in ("max_turns", "max_steps") if word in flat]
    if turns:
        values["max_turns"] = turns[0]
    if name != "alfworld":
        values["config"] = {word: flat[word] for word in _own_settings(flat)}
    return values


def _data_values(flat: Mapping[str, Any]) -> Values:
    mode = str(flat["split_mode"]).strip().lower()
    if mode not in ("ratio", "split_dir"):
        raise ConfigError(f"split_mode must be 'ratio' or 'split_dir', not {flat['split_mode']!r}")
    name = "split_dir" if mode == "split_dir" else "data_path"
    path = flat[name]
    if not path and flat["env"] == "alfworld":
        root, train = flat.get("data_root"), flat["train_size"]
        return {"kind": "alfworld_data", "root": root or None, "train": train or None}
    if not path and flat.get("compat"):  # the adapter finds its own data
        sizes = {"train": "train_size", "val": "sel_env_num", "test": "test_env_num"}
        given = {split: flat[size] for split, size in sizes.items() if flat[size]}
        return {"kind": "adapter", **given}
    if not path:
        other = " or write env.split_mode: split_dir" if flat["split_dir"] else ""
        raise ConfigError(
            f"env.{name} is blank; with env.split_mode {mode!r} it names the items. Set it{other}"
        )
    if mode == "split_dir":
        return {"kind": mode, "path": path}
    seed = flat["split_seed"] or flat["seed"]
    return {"kind": mode, "path": path, "ratio": flat["split_ratio"], "seed": seed}


def _own_settings(flat: Mapping[str, Any]) -> list[str]:
    """List the keys that only the environment knows."""
    taken = {"compat", "workers", "max_turns", "max_steps", "max_completion_tokens"}
    return [name for name in flat if name not in _BY_FLAT and name not in taken]


def _ignored_keys(flat: Mapping[str, Any], quiet: Container[str]) -> Iterable[str]:
    for key in KEYS:
        value = flat.get(key.flat)
        if key.reason and key.flat not in quiet and value not in (*_BLANK, key.default, *key.quiet):
            yield f"{key.dotted} has no effect here: {key.reason}."
    if flat["train_size"] and flat["env"] != "alfworld" and not flat.get("compat"):
        yield "train.train_size has no effect here: tasks are counted where they are read."


def _risky_choices(flat: Mapping[str, Any]) -> Iterable[str]:
    """Yield warnings about risky settings that are followed as in the original."""
    if flat["use_slow_update"] and flat["slow_update_gate_with_selection"] is False:
        yield (
            "optimizer.slow_update_gate_with_selection is false, which is the default of "
            "SkillOpt's base file: guidance enters the current skill unmeasured. Write true, and "
            "the gate judges it."
        )
    if _asks_for_the_budget(flat):
        yield (
            "optimizer.lr_scheduler is 'autonomous': the optimizer is asked for each step's "
            "budget. For no cap at all, write optimizer.lr_control_mode: none."
        )


def _ignored_env(flat: Mapping[str, Any]) -> Iterable[str]:
    for name in _own_settings(flat):
        if name in _BOUNDED_BY_OTHERS or (name in _UNSET_BY_ZERO and not flat[name]):
            continue
        near = get_close_matches(f"env.{name}", _BY_DOTTED, n=1, cutoff=0.85)
        near = near or get_close_matches(name, [*_BY_FLAT, *_ALIASES, *ENV_SETTINGS], 1, 0.8)
        near = [] if name in ENV_SETTINGS else near
        hint = f" Did you mean {near[0]!r}?" if near else ""
        if flat["env"] != "alfworld":
            if near:
                yield f"env.{name} is passed on to the environment.{hint}"
        elif name != "data_root":
            yield f"env.{name} has no effect here: alfworld has no such setting.{hint}"
