"""Models: endpoints, scripted models, Python code, and the agent that acts with a model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillwright.models.backends import Backend as Backend
from skillwright.models.backends import FolderAgent as FolderAgent
from skillwright.models.backends import ModelConfig as ModelConfig
from skillwright.models.backends import find_backend as find_backend
from skillwright.models.backends import list_backends as list_backends
from skillwright.models.chat_agent import ChatAgent as ChatAgent
from skillwright.models.chat_agent import agent_of as agent_of
from skillwright.models.config import PythonConfig as PythonConfig
from skillwright.models.config import ScriptedConfig as ScriptedConfig
from skillwright.models.config import parse_model_config as parse_model_config
from skillwright.models.dialects.config import ClaudeChatConfig as ClaudeChatConfig
from skillwright.models.dialects.config import MiniMaxChatConfig as MiniMaxChatConfig
from skillwright.models.dialects.config import OpenAIChatConfig as OpenAIChatConfig
from skillwright.models.dialects.config import QwenChatConfig as QwenChatConfig
from skillwright.models.gguf import read_gguf as read_gguf
from skillwright.models.http.endpoint_config import EndpointConfig as EndpointConfig
from skillwright.models.http.wire import ContextOverflow as ContextOverflow
from skillwright.models.http.wire import EndpointFault as EndpointFault
from skillwright.models.prices import Prices as Prices
from skillwright.models.registry import dialect_of as dialect_of
from skillwright.models.registry import make_model as make_model
from skillwright.models.skill_md import render_skill_md as render_skill_md
from skillwright.models.structured import ask_json as ask_json
from skillwright.models.structured import extract_json as extract_json
from skillwright.models.structured import parse_reply as parse_reply
from skillwright.models.validation import explain_validation_error as explain_validation_error
from skillwright.models.weights import LocalWeights as LocalWeights
from skillwright.models.weights import find_weights as find_weights
from skillwright.models.weights import installed_weights as installed_weights
from skillwright.models.weights import weights_at_hand as weights_at_hand

if TYPE_CHECKING:
    from skillwright.models.http.client import HttpClient as HttpClient
    from skillwright.models.http.endpoint import Dialect as Dialect
    from skillwright.models.http.endpoint import EndpointModel as EndpointModel
    from skillwright.models.http.retry import EndpointDown as EndpointDown
    from skillwright.models.python_model import PythonModel as PythonModel


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
