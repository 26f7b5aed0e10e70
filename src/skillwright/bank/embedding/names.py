"""Which embedder a name means."""

from skillwright.bank.embedding.embedders import (
    Embedder,
    LexicalEmbedder,
    SentenceTransformerEmbedder,
)
from skillwright.core import ConfigError

LEXICAL = "lexical"


def make_embedder(name: str = LEXICAL) -> Embedder:
    """Build an embedder by name.

    Args:
        name: ``lexical``, which needs no model; ``https://host/v1#model`` for an OpenAI-compatible
            embeddings endpoint; else a folder or a Hugging Face name for sentence-transformers,
            such as ``all-MiniLM-L6-v2``.

    Raises:
        ConfigError: The name is empty or an endpoint without a model, the extra is not installed,
            or there is no such model.
    """
    if not name.strip():
        raise ConfigError("no embedder is named; write 'lexical', 'all-MiniLM-L6-v2' or a URL")
    if name == LEXICAL:
        return LexicalEmbedder()
    if (endpoint := endpoint_named(name)) is not None:
        # The network stack takes longer to import than all the rest.
        from skillwright.bank.embedding.endpoint import EndpointEmbedder

        base_url, model = endpoint
        return EndpointEmbedder(base_url=base_url, model=model)
    return SentenceTransformerEmbedder(name)


def endpoint_named(name: str) -> tuple[str, str] | None:
    """Return address and model where a name means an endpoint; ``None`` where it means none.

    Raises:
        ConfigError: It names no model.
    """
    if not name.startswith(("http://", "https://")):
        return None
    base_url, _, model = name.partition("#")
    if not model:
        raise ConfigError(f"{base_url!r} names no model; write {base_url}#the-models-name")
    return base_url, model
