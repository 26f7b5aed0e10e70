"""Models: endpoints, scripted models, Python code, and the agent that acts with a model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillwright.models.backends import (
    Backend,
    FolderAgent,
    ModelConfig,
    find_backend,
    list_backends,
    register_backend,
)
from skillwright.models.chat_agent import ChatAgent, agent_of
from skillwright.models.config import PythonConfig, ScriptedConfig, parse_model_config
from skillwright.models.dialects.config import (
    ClaudeChatConfig,
    MiniMaxChatConfig,
    OpenAIChatConfig,
    QwenChatConfig,
)
from skillwright.models.gguf import GgufHeader, read_gguf
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.wire import ContextOverflow, EndpointFault
from skillwright.models.prices import Prices
from skillwright.models.registry import dialect_of, make_model
from skillwright.models.skill_md import render_skill_md
from skillwright.models.structured import ask_json, extract_json, parse_reply
from skillwright.models.validation import explain_validation_error
from skillwright.models.weights import (
    LocalWeights,
    find_weights,
    installed_weights,
    weights_at_hand,
)

if TYPE_CHECKING:
    from skillwright.models.http.client import HttpClient
    from skillwright.models.http.endpoint import Dialect, EndpointModel
    from skillwright.models.http.retry import EndpointDown
    from skillwright.models.python_model import PythonModel

__all__ = [
    "Backend",
    "ChatAgent",
    "ClaudeChatConfig",
    "ContextOverflow",
    "Dialect",
    "EndpointConfig",
    "EndpointDown",
    "EndpointFault",
    "EndpointModel",
    "FolderAgent",
    "GgufHeader",
    "HttpClient",
    "LocalWeights",
    "MiniMaxChatConfig",
    "ModelConfig",
    "OpenAIChatConfig",
    "Prices",
    "PythonConfig",
    "PythonModel",
    "QwenChatConfig",
    "ScriptedConfig",
    "agent_of",
    "ask_json",
    "dialect_of",
    "explain_validation_error",
    "extract_json",
    "find_backend",
    "find_weights",
    "installed_weights",
    "list_backends",
    "make_model",
    "parse_model_config",
    "parse_reply",
    "read_gguf",
    "register_backend",
    "render_skill_md",
    "weights_at_hand",
]

# Loaded on first use: importing the network stack takes longer than all the rest.
_NETWORKED = {
    "Dialect": "skillwright.models.http.endpoint",
    "EndpointDown": "skillwright.models.http.retry",
    "EndpointModel": "skillwright.models.http.endpoint",
    "HttpClient": "skillwright.models.http.client",
    "PythonModel": "skillwright.models.python_model",
}


def __getattr__(name: str) -> Any:
    if name not in _NETWORKED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NETWORKED[name]), name)
