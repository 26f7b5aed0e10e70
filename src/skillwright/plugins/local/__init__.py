"""GGUF models on this machine, served by llama.cpp in a process of our own."""

from typing import Any, Final

from skillwright.models.backends import Backend
from skillwright.plugins.local.config import LocalConfig


def _make(*args: Any, **timing: Any) -> Any:
    from skillwright.plugins.local.model import make_local

    return make_local(*args, **timing)


def _dialect(config: LocalConfig) -> Any:
    from skillwright.plugins.local.model import LocalChat

    return LocalChat(config)


def _serve(weights: str, slots: int, client: Any) -> Any:
    from skillwright.plugins.local.model import local_client

    return local_client(LocalConfig(model=weights, max_concurrent=slots), client).server


LOCAL: Final = Backend(
    "local",
    "a GGUF model on this machine, in a server process of its own",
    "the extra skillwright[local], and weights: a file, or a package that ships one",
    LocalConfig,
    _make,
    _dialect,
    _serve,
    other_names=("xllamacpp", "llama_cpp", "llama-cpp", "gguf"),
    requires="xllamacpp>=2026.10",
    install="skillwright[local]",
)
