"""The models that can be named in a configuration, and the scripted ones that are installed."""

import inspect
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from skillwright.core import ChatModel, DataError, did_you_mean
from skillwright.core.found_code import find_code

# The models that can be named in a configuration: what each needs and which parts it can play.


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to reach a model.

    Attributes:
        name: What a configuration writes as ``backend``.
        summary: What it talks to.
        needs: What must be there before it answers.
        roles: ``agent`` acts in environments; ``optimizer`` reflects, merges and ranks.
        implemented: Always true; scripts read it.
        other_names: What other systems call it; a message names ours instead.
        aliases: Names that a configuration may write in the place of ``name``.
    """

    name: str
    summary: str
    needs: str
    roles: tuple[str, ...] = ("agent", "optimizer")
    implemented: bool = True
    other_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


_NEVER = frozenset(
    {
        *("copilot_chat", "copilot", "copilot_cli", "github_copilot", "copilot_exec"),
        *("cursor_exec", "cursor", "cursor_agent"),
    }
)

_BACKENDS = (
    Backend(
        "openai_chat",
        "any endpoint that speaks OpenAI chat completions (OpenAI, Azure, vLLM, SGLang, "
        "llama.cpp, Ollama, OpenRouter, ...)",
        "a model name; a key for hosted endpoints, a base_url or server for all but OpenAI",
        other_names=("azure", "azure-openai", "azure_openai"),
        aliases=("openai_compatible", "openai_compatible_chat", "openai-compatible", "compat"),
    ),
    Backend(
        "local",
        "a GGUF model on this machine, in a server process of its own",
        "the extra skillwright[local], and weights: a file, or a package that ships one",
        other_names=("xllamacpp", "llama_cpp", "llama-cpp", "gguf"),
    ),
    Backend("scripted", "small deterministic models for tests and the demo", "nothing"),
    Backend(
        "python",
        "a class of your own, by file or import path: a model in this process, or a stand-in",
        "the file, and what it imports",
    ),
    Backend(
        "claude_chat",
        "the Anthropic messages API, or with transport: cli the claude program",
        "ANTHROPIC_API_KEY; with transport: cli a login of the program will do",
        other_names=("anthropic", "claude"),
    ),
    Backend(
        "qwen_chat",
        "Qwen through vLLM, SGLang or DashScope, with its thinking switch",
        "a server, by default on localhost:8000; DASHSCOPE_API_KEY where it is hosted",
        other_names=("qwen",),
    ),
    Backend(
        "minimax_chat",
        "the MiniMax chat API",
        "MINIMAX_API_KEY",
        other_names=("minimax",),
    ),
    Backend(
        "codex_exec",
        "the Codex command line",
        "the codex program, with CODEX_API_KEY or signed in",
        aliases=("codex", "codex_cli"),
    ),
    Backend(
        "claude_code_exec",
        "the Claude Code command line",
        "the claude program, with ANTHROPIC_API_KEY or signed in",
        roles=("agent",),
        aliases=("claude_code",),
    ),
)


def list_backends() -> tuple[Backend, ...]:
    """List every documented backend, those that can be used today first."""
    return _BACKENDS


def true_name(name: str) -> str:
    """Return the backend that an alias stands for; any other name as it is."""
    return next((each.name for each in _BACKENDS if name in each.aliases), name)


def why_unusable(name: str) -> str | None:
    """Say why no model can be made of a backend name, and what to write instead.

    Returns:
        ``None`` for a backend that can be used.
    """
    name = true_name(name)
    if name in _NEVER:
        return (
            f"backend {name!r} is not supported; use 'openai_chat' or 'claude_chat' for a model "
            "behind an endpoint, or 'codex_exec' or 'claude_code_exec' for an agent at a command "
            "line"
        )
    usable = [backend.name for backend in _BACKENDS]
    if name in usable:
        return None
    renamed = {other: backend.name for backend in _BACKENDS for other in backend.other_names}
    if name in renamed:
        return f"backend {name!r} is called {renamed[name]!r} here; write that"
    return f"no backend {name!r}. {did_you_mean(name, usable)}"


# Scripted models by name: what packages offer in the entry point group ``skillwright.models``.


ENTRY_POINT_GROUP = "skillwright.models"


def make_scripted_model(name: str, noise: float = 0.0) -> ChatModel:
    """Make the scripted model of a name."""
    made: ChatModel = _found(name)(**({"noise": noise} if noise else {}))
    return made


def why_not_scripted(name: str, noise: float = 0.0) -> str:
    """Say why no scripted model can be made with these settings, or return ""."""
    if name not in _installed():
        return _unknown(name)
    if noise and "noise" not in inspect.signature(_found(name)).parameters:
        return f"the scripted {name!r} takes no noise. Leave 'noise' out here"
    return ""


def _found(name: str) -> Any:
    if name not in _installed():
        raise DataError(_unknown(name))
    return find_code(_installed()[name], f"scripted model {name!r}")


def _unknown(name: str) -> str:
    known = _installed()
    if not known:
        return (
            f"no scripted model {name!r}: this installation is older than its code. Install it "
            "again, with `pip install -e .` or `make setup`"
        )
    return f"no scripted model {name!r}. {did_you_mean(name, known)}"


@cache
def _installed() -> dict[str, str]:
    points = entry_points(group=ENTRY_POINT_GROUP)
    return {point.name: f"{point.module}:{point.attr}" for point in points}
