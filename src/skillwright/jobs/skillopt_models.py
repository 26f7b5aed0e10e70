"""How the backends of a SkillOpt configuration are reached here: by OpenAI's chat completions."""

from collections.abc import Iterable, Mapping
from typing import Any

from skillwright.core import ConfigError
from skillwright.jobs.config_yaml import Values
from skillwright.models.backends import why_unusable

_PLAIN_ENDPOINT = ("openai_compatible", "compat", "openai")
_QWEN_BASE_URL = "http://localhost:8000/v1"
_DEADLINE_S = 600.0


def model_values(flat: Mapping[str, Any], role: str, environ: Mapping[str, str]) -> Values:
    """Return our settings for the model of a role.

    Args:
        flat: A resolved SkillOpt configuration.
        role: ``optimizer`` or ``target``.
        environ: Where an OpenAI-compatible backend finds its base URL.

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
        case _:
            raise ConfigError(f"model.{role}_backend is {backend!r}: {why_unusable(backend)}")
    values: Values = {"backend": "openai_chat", "model": flat[f"{role}_model"]}
    if role == "target":
        values |= {
            "timeout_s": flat["exec_timeout"],
            "max_tokens": flat.get("max_completion_tokens"),
        }
    values |= settings
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
            return {"base_url": base_url, "api_key_env": f"{name}_API_KEY"}
    raise ConfigError(
        f"model.{role}_backend is 'openai_compatible' and its base URL is unknown; set the "
        f"environment variable {names[1]}_BASE_URL"
    )


def _qwen_settings(flat: Mapping[str, Any], role: str) -> Values:
    def given(name: str, default: Any = None) -> Any:
        found = _setting(flat, role, f"qwen_chat_{name}")
        return default if found is None else found

    settings: Values = {
        "base_url": given("base_url", _QWEN_BASE_URL),
        "api_key": given("api_key"),
        "api_key_env": "QWEN_CHAT_API_KEY",
        "temperature": given("temperature", 0.7),
    }
    for name, ours in (("timeout_seconds", "timeout_s"), ("max_tokens", "max_tokens")):
        if given(name) is not None:
            settings[ours] = given(name)
    thinking = {"enabled": True, "disabled": False}.get(str(given("thinking_mode")))
    thinking = given("enable_thinking", thinking)
    if thinking is not None:
        settings["extra_body"] = {"chat_template_kwargs": {"enable_thinking": thinking}}
    return settings


def _setting(flat: Mapping[str, Any], role: str, name: str) -> Any:
    """Return a role's own setting, or else the shared one, or ``None`` where both are blank."""
    for key in (f"{role}_{name}", name):
        if flat.get(key) not in (None, ""):
            return flat[key]
    return None
