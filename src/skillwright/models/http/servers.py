"""The servers that speak OpenAI chat completions, and how they differ: data of late 2026."""

from dataclasses import dataclass
from typing import Literal

ServerName = Literal[
    "auto", "openai", "azure", "vllm", "sglang", "ollama", "openrouter", "llama_cpp", "other"
]


@dataclass(frozen=True, slots=True)
class Server:
    """What a request to one kind of server has to mind.

    Attributes:
        name: What a configuration writes as ``server``.
        base_url: Where it is by default; ``""`` where that differs for everybody.
        api_key_env: The variable that usually holds its key.
        needs_key: It refuses whoever has none.
        max_tokens_name: How it calls the bound on an answer.
        key_header: ``api-key`` sends the key bare, ``authorization`` as a bearer token.
        nested_effort: It takes ``reasoning: {effort}`` and not ``reasoning_effort``.
    """

    name: str
    base_url: str = ""
    api_key_env: str = "OPENAI_API_KEY"
    needs_key: bool = False
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    key_header: Literal["authorization", "api-key"] = "authorization"
    nested_effort: bool = False


OTHER = Server("other")

SERVERS = {
    server.name: server
    for server in (
        Server(
            "openai",
            "https://api.openai.com/v1",
            needs_key=True,
            max_tokens_name="max_completion_tokens",
        ),
        Server(
            "azure",
            api_key_env="AZURE_OPENAI_API_KEY",
            needs_key=True,
            max_tokens_name="max_completion_tokens",
            key_header="api-key",
        ),
        Server("vllm", "http://localhost:8000/v1", "VLLM_API_KEY"),
        Server("sglang", "http://localhost:30000/v1", "SGLANG_API_KEY"),
        Server("ollama", "http://localhost:11434/v1", "OLLAMA_API_KEY"),
        Server(
            "openrouter",
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            needs_key=True,
            nested_effort=True,
        ),
        Server("llama_cpp", "http://127.0.0.1:8080/v1", "LLAMA_API_KEY"),
        OTHER,
    )
}

OPENAI_BASE_URL = SERVERS["openai"].base_url

_HOSTS = {
    "api.openai.com": "openai",
    "openrouter.ai": "openrouter",
    "ollama.com": "ollama",
    "localhost:11434": "ollama",
    "127.0.0.1:11434": "ollama",
}


def server_at(host: str) -> Server:
    """Tell the server by its host (with the port where one is written); unknown ones are plain."""
    if host.endswith(".openai.azure.com"):
        return SERVERS["azure"]
    return SERVERS[_HOSTS.get(host, "other")]
