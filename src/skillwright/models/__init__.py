"""Minds: chat models behind endpoints, scripted ones, and the agent that acts through them."""

from skillwright.models.backends import Backend, list_backends
from skillwright.models.chat_agent import ChatAgent
from skillwright.models.config import (
    ModelConfig,
    OpenAIChatConfig,
    Prices,
    ScriptedConfig,
    parse_model_config,
)
from skillwright.models.faults import ContextOverflow, EndpointFault
from skillwright.models.http import HttpClient
from skillwright.models.openai_chat import OpenAIChat
from skillwright.models.registry import make_model
from skillwright.models.structured import (
    ask_json,
    extract_json,
    extract_json_array,
    parse_reply,
)
from skillwright.models.validation import explain_validation_error

__all__ = [
    "Backend",
    "ChatAgent",
    "ContextOverflow",
    "EndpointFault",
    "HttpClient",
    "ModelConfig",
    "OpenAIChat",
    "OpenAIChatConfig",
    "Prices",
    "ScriptedConfig",
    "ask_json",
    "explain_validation_error",
    "extract_json",
    "extract_json_array",
    "list_backends",
    "make_model",
    "parse_model_config",
    "parse_reply",
]
