"""Models: chat models behind endpoints, scripted ones, and the agent that acts through them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillwright.models.backends import Backend, list_backends
from skillwright.models.chat_agent import ChatAgent
from skillwright.models.config import (
    ModelConfig,
    PythonConfig,
    ScriptedConfig,
    is_scripted_model,
    parse_model_config,
)
from skillwright.models.dialects.config import (
    ClaudeChatConfig,
    MiniMaxChatConfig,
    OpenAIChatConfig,
    QwenChatConfig,
)
from skillwright.models.http.endpoint_config import EndpointConfig
from skillwright.models.http.wire import ContextOverflow, EndpointFault
from skillwright.models.prices import Prices
from skillwright.models.structured import (
    ask_json,
    extract_json,
    extract_json_array,
    parse_reply,
)
from skillwright.models.validation import explain_validation_error
from skillwright.plugins.executors.config import ClaudeCodeExecConfig, CodexExecConfig, ExecConfig
from skillwright.plugins.local import (
    GgufHeader,
    LocalWeights,
    find_weights,
    installed_weights,
    read_gguf,
    weights_at_hand,
)
from skillwright.plugins.local.config import LocalConfig

if TYPE_CHECKING:
    from skillwright.models.http.client import HttpClient
    from skillwright.models.http.endpoint import Dialect, EndpointModel
    from skillwright.models.http.retry import EndpointDown
    from skillwright.models.registry import PythonModel, dialect_of, make_model
    from skillwright.plugins.executors.agent import ExecAgent, agent_of
    from skillwright.plugins.executors.model import ExecModel
    from skillwright.plugins.executors.report import ExecFault, OutputFlood
    from skillwright.plugins.executors.workspace import prepare_workspace, render_skill_md

__all__ = [
    "Backend",
    "ChatAgent",
    "ClaudeChatConfig",
    "ClaudeCodeExecConfig",
    "CodexExecConfig",
    "ContextOverflow",
    "Dialect",
    "EndpointConfig",
    "EndpointDown",
    "EndpointFault",
    "EndpointModel",
    "ExecAgent",
    "ExecConfig",
    "ExecFault",
    "ExecModel",
    "GgufHeader",
    "HttpClient",
    "LocalConfig",
    "LocalWeights",
    "MiniMaxChatConfig",
    "ModelConfig",
    "OpenAIChatConfig",
    "OutputFlood",
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
    "extract_json_array",
    "find_weights",
    "installed_weights",
    "is_scripted_model",
    "list_backends",
    "make_model",
    "parse_model_config",
    "parse_reply",
    "prepare_workspace",
    "read_gguf",
    "render_skill_md",
    "weights_at_hand",
]

# Loaded when they are asked for: the network stack takes longer to import than all the rest, and
# who only wants a schedule, a score or a parser needs none.
_NETWORKED = {
    "Dialect": "skillwright.models.http.endpoint",
    "EndpointDown": "skillwright.models.http.retry",
    "EndpointModel": "skillwright.models.http.endpoint",
    "ExecAgent": "skillwright.plugins.executors.agent",
    "ExecFault": "skillwright.plugins.executors.report",
    "ExecModel": "skillwright.plugins.executors.model",
    "OutputFlood": "skillwright.plugins.executors.report",
    "HttpClient": "skillwright.models.http.client",
    "PythonModel": "skillwright.models.registry",
    "agent_of": "skillwright.plugins.executors.agent",
    "dialect_of": "skillwright.models.registry",
    "make_model": "skillwright.models.registry",
    "prepare_workspace": "skillwright.plugins.executors.workspace",
    "render_skill_md": "skillwright.plugins.executors.workspace",
}


def __getattr__(name: str) -> Any:
    if name not in _NETWORKED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NETWORKED[name]), name)
