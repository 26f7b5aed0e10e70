"""The minds that can be named in a configuration: what each needs and which parts it can play."""

from dataclasses import dataclass

from skillwright.core import did_you_mean


@dataclass(frozen=True, slots=True)
class Backend:
    """One way to reach a mind.

    Attributes:
        name: What a configuration writes as ``backend``.
        summary: What it talks to.
        needs: What must be there before it answers.
        roles: ``agent`` acts in environments; ``optimizer`` reflects, merges and ranks.
        implemented: False for a documented name that this version cannot run yet.
        other_names: What other systems call it; a configuration that uses one is told ours.
    """

    name: str
    summary: str
    needs: str
    roles: tuple[str, ...] = ("agent", "optimizer")
    implemented: bool = True
    other_names: tuple[str, ...] = ()


_BACKENDS = (
    Backend(
        "openai_chat",
        "any endpoint that speaks OpenAI chat completions (OpenAI, Azure v1, vLLM, SGLang, "
        "llama.cpp, Ollama, OpenRouter, ...)",
        "a model name; a key for hosted endpoints, a base_url for all but OpenAI",
        other_names=("azure_openai", "compat", "openai_compatible", "openai_compatible_chat"),
    ),
    Backend("scripted", "two small deterministic minds for tests and the demo", "nothing"),
    Backend(
        "claude_chat",
        "the Anthropic messages API",
        "ANTHROPIC_API_KEY",
        implemented=False,
        other_names=("anthropic", "claude"),
    ),
    Backend(
        "qwen_chat",
        "Qwen through vLLM, SGLang or DashScope, with its thinking switch",
        "a base_url; DASHSCOPE_API_KEY where it is hosted",
        implemented=False,
        other_names=("qwen",),
    ),
    Backend(
        "minimax_chat",
        "the MiniMax chat API",
        "MINIMAX_API_KEY",
        implemented=False,
        other_names=("minimax",),
    ),
    Backend(
        "codex_exec",
        "the Codex command line",
        "the codex program, signed in",
        implemented=False,
        other_names=("codex",),
    ),
    Backend(
        "claude_code_exec",
        "the Claude Code command line",
        "the claude program, signed in",
        roles=("agent",),
        implemented=False,
        other_names=("claude_code",),
    ),
)


def list_backends() -> tuple[Backend, ...]:
    """List every documented backend, those that can be used today first."""
    return _BACKENDS


def why_unusable(name: str) -> str | None:
    """Say why no model can be made of a backend name, and what to write instead.

    Returns:
        ``None`` for a backend that can be used.
    """
    by_name = {backend.name: backend for backend in _BACKENDS}
    renamed = {other: backend for backend in _BACKENDS for other in backend.other_names}
    usable = [backend.name for backend in _BACKENDS if backend.implemented]
    if name in usable:
        return None
    if name not in by_name and name not in renamed:
        return f"no backend {name!r}. {did_you_mean(name, usable)}"
    backend = by_name.get(name) or renamed[name]
    if backend.implemented:
        return f"backend {name!r} is called {backend.name!r} here; write that"
    return (
        f"backend {backend.name!r} is not part of this version. Where it has an OpenAI-compatible "
        "endpoint, use backend 'openai_chat' with that base_url"
    )
