"""A local model: chat completions with a server process of our own."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from skillwright.core import ConfigError, Message, ModelError, ModelTimeout, Sampling
from skillwright.models.dialects.chat_completions import ChatDialect, fault_of_reply
from skillwright.models.gguf import EXAMPLE_TEMPLATE, read_gguf, template_beside
from skillwright.models.http.client import HttpClient, HttpReply, encode
from skillwright.models.http.endpoint import EndpointModel, bearer, chosen
from skillwright.models.http.traffic import EndpointLimits
from skillwright.models.http.wire import ContextOverflow, EndpointFault, charged
from skillwright.models.weights import find_weights
from skillwright.plugins.local.config import LocalConfig
from skillwright.plugins.local.prefixes import complete
from skillwright.plugins.local.server import LocalServer, Served, share_server

_LOOKS_AGAIN_S = 0.01
_ABANDONED_S = 2.0  # llama.cpp checks once a second whether the client is still there
_DYING_S = 1.0  # between a connection that breaks and its process being gone


@dataclass(frozen=True, slots=True)
class LocalChat(ChatDialect[LocalConfig]):
    """Chat completions as llama.cpp takes them."""

    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Put a call into JSON; see `skillwright.models.http.endpoint.Dialect`."""
        fields = {"max_tokens": chosen("max_tokens", sampling, self.config), "seed": sampling.seed}
        return self.chat_request(messages, tools, sampling, fields)

    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error that a reply is, or ``None``."""
        fault = fault_of_reply(reply, self.config, key)
        if isinstance(fault, ContextOverflow):
            longer = ContextOverflow(f"{fault} A longer context is set by context.")
            return charged(longer, fault.usage)
        return fault


class LocalClient:
    """Posts to a local server, and starts it if it does not run."""

    def __init__(self, client: HttpClient, server: LocalServer) -> None:
        self._client = client
        self.server = server
        self._starting = asyncio.Lock()

    @property
    def limits(self) -> EndpointLimits:
        """Limits of the calls in flight."""
        return self._client.limits

    async def post_json(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> HttpReply:
        """Post a JSON document, as `HttpClient.post_json`; `ModelRefused` if no server starts."""
        server = self.server
        async with _slot(server, timeout_s) as slot:
            async with self._starting:
                # In a thread: the start may take a minute and would block the loop.
                address = await asyncio.to_thread(server.address, timeout_s)
            answered, process = server.answers, server.pid

            async def post(route: str, document: Mapping[str, Any]) -> HttpReply:
                return await self._client.post_json(
                    address + route,
                    encode(document),
                    headers={**headers, **bearer(server.key)},
                    timeout_s=timeout_s,
                )

            try:
                async with asyncio.timeout(timeout_s):
                    reply = await complete(post, server.prefixes, slot, json.loads(body))
            except TimeoutError as error:
                if server.answers == answered and server.pid == process:
                    # No call was answered in that time: it hangs. The next call restarts it.
                    server.kill()
                raise ModelTimeout(
                    f"the server of {server.served.path} did not answer within {timeout_s:g} s. "
                    "Raise timeout_s, or ask for fewer tokens."
                ) from error
            except EndpointFault as fault:
                why = await asyncio.to_thread(server.why_it_ended, _DYING_S)
                if not why:
                    raise
                path = server.served.path
                raise EndpointFault(
                    f"the server of {path} broke off: {why}. Another is started."
                ) from fault
            server.answers += 1
            return reply


@asynccontextmanager
async def _slot(server: LocalServer, timeout_s: float) -> AsyncIterator[int]:
    """Wait for a free slot of a server and hold it; raise `ModelTimeout` after ``timeout_s``."""
    ends = time.monotonic() + timeout_s
    # Clients of several event loops share the server, so an asyncio event would not do.
    while (slot := server.take_slot()) is None:
        if time.monotonic() > ends:
            raise ModelTimeout(
                f"no slot of the server of {server.served.path} was free within {timeout_s:g} s. "
                "Raise timeout_s or max_concurrent, or ask for fewer tokens."
            )
        await asyncio.sleep(_LOOKS_AGAIN_S)
    abandoned = True
    try:
        yield slot
        abandoned = False
    finally:
        # The slot may still compute an abandoned request.
        rests = abandoned and server.pid is not None
        server.give_slot(slot, _ABANDONED_S if rests else 0.0)


def make_local(config: LocalConfig, client: HttpClient, **timing: Any) -> EndpointModel:
    """Make the model of a local server."""
    return EndpointModel(LocalChat(config), local_client(config, client), **timing)


def local_client(config: LocalConfig, client: HttpClient) -> LocalClient:
    """Return a client of a local model's server, which ends when all its clients are closed."""
    path = find_weights(config.model)
    header = read_gguf(path)
    most = header.context_length
    if config.context and most and config.context > most:
        raise ConfigError(
            f"context is {config.context}, and {path.name} supports at most {most} tokens; lower it"
        )
    template = template_beside(path)
    if header.chat_template is None and template is None:
        raise ConfigError(
            f"{path} has no chat template: it continues a text, and was not trained to answer. Use "
            f"the instruction-tuned weights, or write a Jinja template of its prompts to "
            f"{path.with_suffix('.jinja')}, such as: {EXAMPLE_TEMPLATE} (for a template without a "
            "system role also set system: merge)"
        )
    served = Served(
        path=str(path.resolve()),
        slots=config.max_concurrent,
        context=config.context_of(header),
        threads=config.threads or max(1, _cores() // 2),
        template=template,
    )
    server, give_back = share_server(served)
    client.at_close(give_back)
    return LocalClient(client, server)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
