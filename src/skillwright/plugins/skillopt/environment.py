"""Fill in unset settings of a role from SkillOpt's environment variables.

For an API key only the variable's name is stored, never its value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillwright.core import ConfigError
from skillwright.models.backends import true_name
from skillwright.plugins.skillopt.config.keys import SIGN_INS

_COMPATIBLE = {
    "BASE_URL": "base_url",
    "MODEL": "model",
    "TIMEOUT_SECONDS": "timeout_s",
    "MAX_TOKENS": "max_tokens",
    "TEMPERATURE": "temperature",
}
_AZURE = {"ENDPOINT": "base_url", "API_VERSION": "api_version"}
_VARIABLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "openai_compatible": ("OPENAI_COMPATIBLE_", _COMPATIBLE),
    "azure": ("AZURE_OPENAI_", _AZURE),
    "qwen_chat": ("QWEN_CHAT_", {**_COMPATIBLE, "THINKING_MODE": "thinking"}),
    "minimax_chat": ("MINIMAX_", {**_COMPATIBLE, "REGION": "region"}),
}
_ROLES = {"optimizer": "OPTIMIZER_", "target": "TARGET_"}
_NO_PROFILE = "no run asks for leave or sees your own settings; models.* says what a program may do"
_NOT_HERE = "Copilot and Cursor are not supported"
_IGNORED: Mapping[str, str] = {
    "AZURE_OPENAI_AD_SCOPE": "azure-identity asks for the scope of Azure OpenAI",
    "AZURE_OPENAI_MANAGED_IDENTITY_CLIENT_ID": "azure-identity reads AZURE_CLIENT_ID",
    "CLAUDE_PERMISSION_MODE": _NO_PROFILE,
    "CLAUDE_SETTING_SOURCES": _NO_PROFILE,
    "CLAUDE_ALLOW_ATTACHMENT_READ": _NO_PROFILE,
    "CLAUDE_CODE_EXEC_USE_SDK": "the program itself is run",
    "CLAUDE_CODE_EXEC_MAX_THINKING_TOKENS": "models.*.effort bounds the thinking",
    "CODEX_EXEC_USE_SDK": "the program itself is run",
    "CODEX_EXEC_APPROVAL_POLICY": _NO_PROFILE,
    "CODEX_WORKING_DIRECTORY": "each run has a fresh folder",
    "CURSOR_EXEC_": _NOT_HERE,
    "COPILOT_EXEC_": _NOT_HERE,
    "COPILOT_CHAT_": _NOT_HERE,
}
_DEADLINE_S = 600.0
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def settings_from_environment(
    settings: Mapping[str, Any], role: str, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Fill in the unset settings of a role.

    Returns:
        New settings, without any secret.

    Raises:
        ConfigError: A variable has an unsupported value, or is no boolean.
    """
    prefix = _ROLES.get(role, "")
    filled = dict(settings)
    variables = _Variables(environ, prefix)
    if prefix:
        _fill(filled, "backend", environ.get(f"{prefix}BACKEND"))
    service = _service(filled)
    if service is not None:
        start, names = _VARIABLES[service]
        mode = variables.value("AZURE_OPENAI_AUTH_MODE") if service == "azure" else None
        if mode in SIGN_INS:
            _fill(filled, "key_header", mode)
        for end, name in names.items():
            _fill(filled, name, variables.value(start + end))
        if "api_key" not in filled:
            _fill(filled, "api_key_env", variables.name(f"{start}API_KEY"))
        _fill_switches(filled, service, variables)
        _leave_time(filled, settings)
    if prefix and true_name(str(filled.get("backend"))) == "openai_chat":
        _fill(filled, "model", environ.get(f"{prefix}DEPLOYMENT"))
    return filled


def ignored_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the set variables of SkillOpt's backends that have no effect here.

    Returns:
        Variable -> reason, sorted by name; a blank variable counts as unset.
    """
    found = {}
    for name in sorted(environ):
        shared = name.removeprefix("OPTIMIZER_").removeprefix("TARGET_")
        reasons = (
            reason
            for known, reason in _IGNORED.items()
            if shared == known or (known.endswith("_") and shared.startswith(known))
        )
        reason = next(reasons, None)
        if reason and environ[name].strip():
            found[name] = reason
    return found


@dataclass(frozen=True, slots=True)
class _Variables:
    """The variables of a role, which take precedence over the shared ones."""

    environ: Mapping[str, str]
    prefix: str

    def name(self, variable: str) -> str | None:
        """Return the name that is set and not blank."""
        names = dict.fromkeys((self.prefix + variable, variable))
        return next((name for name in names if self.environ.get(name, "").strip()), None)

    def value(self, variable: str) -> str | None:
        name = self.name(variable)
        return self.environ[name].strip() if name else None

    def switch(self, variable: str) -> bool | None:
        value = (self.value(variable) or "").lower()
        if value and value not in _TRUE | _FALSE:
            raise ConfigError(
                f"the environment variable {self.name(variable)} is {value!r}; write true or false"
            )
        return value in _TRUE if value else None


def _fill(filled: dict[str, Any], name: str, value: str | bool | None) -> None:
    if value not in (None, "") and name not in filled:  # an explicit null stays
        filled[name] = value


def _service(settings: Mapping[str, Any]) -> str | None:
    """Return the service whose variables apply; plain ``openai_chat`` has only its key's."""
    backend = str(settings.get("backend"))
    is_azure = settings.get("server") == "azure" or ".openai.azure.com" in str(
        settings.get("base_url")
    )
    if true_name(backend) != backend:
        return "openai_compatible"
    if backend == "openai_chat":
        return "azure" if is_azure else None
    return backend if backend in _VARIABLES else None


def _fill_switches(filled: dict[str, Any], service: str, variables: _Variables) -> None:
    if service == "qwen_chat":
        thinks = variables.switch("QWEN_CHAT_ENABLE_THINKING")
        if thinks is not None:
            _fill(filled, "thinking", "enabled" if thinks else "disabled")
        if variables.switch("QWEN_CHAT_USE_MAX_COMPLETION_TOKENS"):
            _fill(filled, "max_tokens_name", "max_completion_tokens")
    if service == "minimax_chat":
        thinks = variables.switch("MINIMAX_ENABLE_THINKING")
        if thinks is not None:
            _fill(filled, "thinking", "adaptive" if thinks else "disabled")


def _leave_time(filled: dict[str, Any], settings: Mapping[str, Any]) -> None:
    """Increase an unset deadline to fit a time-out from the environment."""
    if "timeout_s" in settings or "timeout_s" not in filled:
        return
    try:
        _fill(filled, "deadline_s", str(max(_DEADLINE_S, float(filled["timeout_s"]))))
    except ValueError:
        return  # validation reports the error
