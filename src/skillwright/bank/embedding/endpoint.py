"""Embed texts with an OpenAI-compatible embeddings endpoint.

Source: OpenAI API reference, "Embeddings"; also served by vLLM, Ollama and
text-embeddings-inference.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from skillwright.bank.embedding.embedders import (
    Embedder,
    LexicalEmbedder,
    SentenceTransformerEmbedder,
    Vectors,
    unit_rows,
)
from skillwright.core import ConfigError, ModelError, Usage
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest
from skillwright.models import HttpClient, OpenAIChatConfig
from skillwright.models.dialects.chat_completions import fault_of_reply, usage_of
from skillwright.models.http.client import HttpReply, encode
from skillwright.models.http.endpoint import bearer, identity_of
from skillwright.models.http.endpoint_config import find_key
from skillwright.models.http.retry import Retry
from skillwright.models.http.wire import GarbledReply, UsageCheck, hide_key
from skillwright.rollout.loop_thread import LoopThread

DEFAULT_BATCH: Final = 128


class EndpointEmbedder:
    """Encodes texts by an endpoint, in batches, with retries and limits.

    Its calls block and run in their own event loop, so they also work inside another loop, which
    they block: an engine calls from a thread.

    Args:
        base_url: URL without ``/embeddings``.
        model: Name of the model at the endpoint.
        delta: Least similarity of an injected skill; calibrate it for the model (`calibrate`).
        query_prompt: Prefix of each query, if the model needs one.
        skill_prompt: Prefix of each skill's text.
        batch: Most texts in one request.
        settings: Further settings of `OpenAIChatConfig`: ``api_key_env``, ``timeout_s``,
            ``max_concurrent``, ``extra_body`` (``dimensions``), ...

    Raises:
        ConfigError: The endpoint's key is missing, or ``batch`` is below 1.
        ValidationError: A setting is invalid.

    Attributes:
        usage: Tokens and requests so far.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        delta: float = 0.2,
        query_prompt: str = "",
        skill_prompt: str = "",
        batch: int = DEFAULT_BATCH,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if batch < 1:
            raise ConfigError(f"batch is {batch}; send at least one text per request")
        self.delta = delta
        self._config = OpenAIChatConfig(base_url=base_url, model=model, **(settings or {}))
        self.usage = Usage()
        self._key = find_key(self._config)
        self._prompts = (query_prompt, skill_prompt)
        self._batch = batch
        self._usage_check = UsageCheck(f"{base_url} (model {model!r})")
        self._loop = LoopThread()
        self._client = HttpClient()
        prompts = digest([query_prompt, skill_prompt])[:6]
        self.identity = f"embeddings:{identity_of(self._config)}/{prompts}"

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode task descriptions; see `Embedder`.

        Raises:
            ModelError: Every attempt failed, or the reply has no vectors.
        """
        return self._encode([self._prompts[0] + text for text in texts])

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode texts of skills; see `Embedder`.

        Raises:
            ModelError: As for queries.
        """
        return self._encode([self._prompts[1] + text for text in texts])

    def close(self) -> None:
        """Close the connections and the thread; may be called twice."""
        self._loop.run(self._client.aclose())
        self._loop.close()

    def _encode(self, texts: list[str]) -> Vectors:
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        return unit_rows(np.concatenate(self._loop.run(self._asked(texts))))

    async def _asked(self, texts: list[str]) -> list[Vectors]:
        starts = range(0, len(texts), self._batch)
        return await together(self._ask(texts[at : at + self._batch]) for at in starts)

    async def _ask(self, texts: list[str]) -> Vectors:
        config = self._config
        traffic = self._client.limits.traffic(config, self._key)
        retry = Retry(
            max_attempts=config.max_attempts,
            timeout_s=config.timeout_s,
            deadline_s=config.deadline_s,
        )
        request = {"model": config.model, "input": texts, **config.extra_body}
        async with traffic.limiter.slot():
            rows, lost = await retry.call(partial(self._post, encode(request), len(texts)))
        self.usage += lost
        return rows

    async def _post(self, body: bytes, count: int, timeout_s: float) -> Vectors:
        try:
            reply = await self._client.post_json(
                f"{self._config.base_url}/embeddings",
                body,
                headers={**bearer(self._key), **self._config.headers},
                timeout_s=timeout_s,
            )
            fault = fault_of_reply(reply, self._config, self._key)
            if fault is not None:
                raise fault
            rows = _vectors(reply, count)
        except ModelError as error:
            hide_key(error, self._key)
            raise
        used = usage_of(reply.payload, self._config)
        self.usage += self._usage_check.plausible_of_call(used, body)
        return rows


def _vectors(reply: HttpReply, count: int) -> Vectors:
    """Read the vectors of a reply, in the order of the texts."""
    try:
        found = sorted(reply.payload["data"], key=lambda one: one["index"])
        rows = np.asarray([one["embedding"] for one in found], dtype=np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise GarbledReply(
            f"{reply.url} sent no list of embeddings ({type(error).__name__}: {error}). Check that "
            "base_url is an OpenAI-compatible embeddings endpoint."
        ) from error
    if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
        raise GarbledReply(
            f"{reply.url} sent embeddings of shape {rows.shape} for {count} texts; one finite row "
            "per text was expected"
        )
    return rows


LEXICAL = "lexical"


def make_embedder(name: str = LEXICAL) -> Embedder:
    """Build an embedder by name.

    Args:
        name: ``lexical``, which needs no model; ``https://host/v1#model`` for an OpenAI-compatible
            embeddings endpoint; else a folder or a Hugging Face name for sentence-transformers,
            such as ``all-MiniLM-L6-v2``.

    Raises:
        ConfigError: The name is empty or has no model, the extra is not installed, or the model
            does not exist.
    """
    if not name.strip():
        raise ConfigError("no embedder is named; write 'lexical', 'all-MiniLM-L6-v2' or a URL")
    if name == LEXICAL:
        return LexicalEmbedder()
    if (endpoint := endpoint_named(name)) is not None:
        base_url, model = endpoint
        return EndpointEmbedder(base_url=base_url, model=model)
    return SentenceTransformerEmbedder(name)


def endpoint_named(name: str) -> tuple[str, str] | None:
    """Return URL and model of an endpoint's name; ``None`` for other names.

    Raises:
        ConfigError: The name has no model.
    """
    if not name.startswith(("http://", "https://")):
        return None
    base_url, _, model = name.partition("#")
    if not model:
        raise ConfigError(f"{base_url!r} names no model; write {base_url}#the-models-name")
    return base_url, model
