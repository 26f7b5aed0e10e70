"""How the backends of a SkillOpt configuration are reached here."""

from collections.abc import Iterable, Mapping
from typing import Any

from skillwright.config.yaml_files import Values
from skillwright.core import ConfigError
from skillwright.models.backends import why_unusable

_PLAIN_ENDPOINT = ("openai_compatible", "compat", "openai")
_QWEN_TEMPERATURE = 0.7
_DEADLINE_S = 600.0
_CLAUDE_PROGRAM = "claude"
_OFF = ("disabled", "off", "false", "no", "none", "0")
_MINIMAX_MODEL, _MINIMAX_TOKENS = "MiniMax-M3", 8000


def model_values(flat: Mapping[str, Any], role: str, environ: Mapping[str, str]) -> Values:
    """Return our settings for the model of a role (``optimizer`` or ``target``).

    Raises:
        ConfigError: The backend is not part of this version, or has no base URL.
    """
    backend = flat[f"{role}_backend"]
    match backend:
        case "openai_chat":
            settings = _openai_settings(flat, role)
        case "openai_compatible":
            settings = _compatible_settings(role, environ)
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
        del values["max_tokens"]  # some backends have a bound of their own by default
    if isinstance(values.get("timeout_s"), int | float):
        values["deadline_s"] = max(_DEADLINE_S, values["timeout_s"])
    return values


def model_warnings(flat: Mapping[str, Any]) -> Iterable[str]:
    """Say where a model is reached elsewhere than the file's words suggest."""
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
    if _setting(flat, role, "azure_openai_auth_mode") in _PLAIN_ENDPOINT:
        return {**settings, "base_url": endpoint}
    base_url = str(endpoint).rstrip("/").removesuffix("/openai/v1") + "/openai/v1"
    return {**settings, "base_url": base_url, "api_key_env": "AZURE_OPENAI_API_KEY"}


def _compatible_settings(role: str, environ: Mapping[str, str]) -> Values:
    names = [f"{prefix}OPENAI_COMPATIBLE" for prefix in (f"{role.upper()}_", "")]
    for name in names:
        base_url = environ.get(f"{name}_BASE_URL")
        if base_url:
            key = f"{name}_API_KEY"
            return {"base_url": base_url, **({"api_key_env": key} if environ.get(key) else {})}
    raise ConfigError(
        f"model.{role}_backend is 'openai_compatible' and its base URL is unknown; set the "
        f"environment variable {names[1]}_BASE_URL"
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
    """A program has no bound on tokens; as an optimiser it only reads, whatever a target may do."""
    settings: Values = {
        "backend": backend,
        "model": flat[f"{role}_model"],
        "path": flat.get(f"{backend}_path"),
    }
    if settings["path"] == _CLAUDE_PROGRAM:
        del settings["path"]  # the default there and here; the environment may name another
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
    """Read what is a boolean here and there a boolean or the name of a mode."""
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
    # Its default cut long proposals off without a word; only a bound that was chosen is kept.
    bound = _setting(flat, role, "minimax_max_tokens")
    if bound != _MINIMAX_TOKENS:
        settings["max_tokens"] = bound
    thinks = _setting(flat, role, "minimax_enable_thinking")
    if not str(settings.get("model", flat[f"{role}_model"])).startswith("MiniMax-M2"):
        settings["thinking"] = "adaptive" if thinks else "disabled"
    return settings


def _setting(flat: Mapping[str, Any], role: str, name: str) -> Any:
    """Return a role's own setting, or else the shared one, or ``None`` where both are blank."""
    for key in (f"{role}_{name}", name):
        if flat.get(key) not in (None, ""):
            return flat[key]
    return None
