"""Settings of a tool server for the agent, and the interface of its client.

The client is a plug-in: the entry point ``mcp`` of the group ``skillwright.tool_clients``.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, model_validator

from skillwright.core import DataError, EnvError
from skillwright.core.jsonio import read_text, text_digest
from skillwright.core.settings import Frozen
from skillwright.entry_points import entry_point

ENTRY_POINT_GROUP: Final = "skillwright.tool_clients"
_SHOWN_CHARS: Final = 400


class ToolServer(Frozen):
    """A server of the Model Context Protocol, whose tools are offered to the agent."""

    command: list[str] = Field(default_factory=list)
    """The program to start for every episode, with its arguments, such as ``[python, shop.py]``."""
    url: str | None = None
    """Instead of a program, a server's URL (streamable HTTP): http://127.0.0.1:8000/mcp."""
    env: list[str] = Field(default_factory=list)
    """Names of environment variables for the program, in addition to HOME, PATH and similar."""
    api_key_env: str | None = None
    """The environment variable that holds the bearer token for the URL."""
    time_limit_s: Annotated[PositiveFloat, Field(allow_inf_nan=False)] = 30.0
    """Maximum seconds of a call; after it, the episode ends with a failure."""
    calls: Literal["native", "tags"] = "native"
    """``tags`` lets calls be written as text, for agents that cannot be offered tools."""

    @model_validator(mode="after")
    def _check_server(self) -> "ToolServer":
        if bool(self.command) == bool(self.url):
            raise ValueError("give a command to start, or the url of a server; one of them")
        if self.url is not None and (self.env or not self._is_bare_url(self.url)):
            raise ValueError(
                "url is http:// or https:// without a name or password in it, and env is for a "
                "command; name the variable with a token in api_key_env"
            )
        if self.command and self.api_key_env:
            raise ValueError("api_key_env is for a url; name what a command is given in env")
        return self

    @staticmethod
    def _is_bare_url(url: str) -> bool:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        )

    @property
    def label(self) -> str:
        """The name in messages."""
        return f"MCP server {self.url or ' '.join(self.command)!r}"

    def secrets(self) -> dict[str, str]:
        """Return the environment variables for the server, by name.

        Raises:
            DataError: A variable is not set.
        """
        names = [*self.env, *([self.api_key_env] if self.api_key_env else [])]
        missing = [name for name in names if name not in os.environ]
        if missing:
            raise DataError(
                f"{self.label} is given the environment variable {missing[0]!r}, which is not set; "
                "set it, or take it out of env.config.mcp"
            )
        return {name: os.environ[name] for name in names}

    def identity(self) -> dict[str, str]:
        """Return digests of the files in the command, whose change may change scores."""
        files = [part for part in self.command[1:] if Path(part).is_file()]
        return {file: text_digest(read_text(Path(file), self.label)) for file in files}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool.

    Attributes:
        text: Its texts; images and other media are only named.
        is_error: Whether the tool reports an error.
    """

    text: str
    is_error: bool = False


class ToolSession(Protocol):
    """One session with a server."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool, from any event loop.

        Raises:
            EnvError: The server is missing, died, or took too long.
        """

    def close(self) -> None:
        """End the session without waiting for it. Closing twice is allowed."""


class ToolClient(Protocol):
    """The interface of a plug-in: its module or object has these two functions."""

    def offered_tools(self, server: ToolServer) -> tuple[dict[str, Any], ...]:
        """Return a server's tools in OpenAI's form; the server is asked once per process.

        Raises:
            DataError: The client is not installed, the server is missing, or it offers no tools.
        """

    def open_session(self, server: ToolServer) -> ToolSession:
        """Open a session; nothing is sent before the first call."""


def tool_client() -> ToolClient:
    """Load the client of MCP servers that an installed package registers.

    Raises:
        DataError: None is registered, or it cannot be imported.
    """
    client: ToolClient = entry_point(ENTRY_POINT_GROUP, "mcp", "tool client").load()
    return client


def complaints(tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Validate arguments by a tool's schema, and return the errors; ``[]`` if they are valid.

    Raises:
        EnvError: The schema is invalid.
    """
    jsonschema = importlib.import_module("jsonschema")
    registry = importlib.import_module("referencing").Registry()  # which fetches nothing
    schema = tool["function"]["parameters"]
    try:
        found = jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(arguments)
        return [
            f"{'.'.join(['arguments', *map(str, one.absolute_path)])}: {one.message[:_SHOWN_CHARS]}"
            for one in sorted(found, key=lambda one: list(map(str, one.absolute_path)))
        ]
    except Exception as error:
        name = tool["function"]["name"]
        raise EnvError(f"the schema of tool {name!r} is none: {error}") from error


def named(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return tools by their names."""
    return {tool["function"]["name"]: tool for tool in tools}
