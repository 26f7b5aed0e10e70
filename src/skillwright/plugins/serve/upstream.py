"""A remote endpoint: requests are forwarded, and answers are streamed back."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from skillwright.models.http.client import HttpClient
from skillwright.plugins.serve.front import EPISODE, Asked, Reply

# Headers of one connection (RFC 9110, 7.6.1), or set anew for the next one.
_OF_A_CONNECTION: Final = frozenset(
    {
        "connection",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_DROPPED: Final = _OF_A_CONNECTION | {
    "accept-encoding",
    "content-encoding",
    "content-length",
    EPISODE,
    # Some endpoints read another path or method from these.
    "x-original-url",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
}
_KEYS: Final = frozenset({"authorization", "x-api-key"})


@dataclass(frozen=True, slots=True)
class Upstream:
    """Forwards requests.

    Attributes:
        client: HTTP client.
        root: Returns the URL without ``/v1``, to which clients' routes are appended.
        silent_s: Seconds without a byte after which the endpoint counts as gone.
        key: Its key; "" if clients send their own.
    """

    client: HttpClient
    root: Callable[[], Awaitable[str]]
    silent_s: float
    key: str = ""

    @property
    def takes_client_keys(self) -> bool:
        """Whether clients send the endpoint's keys."""
        return not self.key

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Forward a request, and stream the answer back; see `Answerer.answer`."""
        request = asked.request
        url = await self.root() + request.raw_path
        headers = self._headers(request.headers)
        async with self.client.relay(
            request.method, url, asked.raw, headers=headers, silent_s=self.silent_s
        ) as response:
            await reply.start(response.status, _returned(response))
            async for chunk in response.content.iter_any():
                await reply.write(chunk)

    def _headers(self, sent: CIMultiDictProxy[str]) -> CIMultiDict[str]:
        # Others of this connection are named in the header itself.
        listed = ",".join(sent.getall("Connection", ()))
        named = {name.strip().lower() for name in listed.split(",")} - _KEYS
        hidden = _DROPPED | named | (_KEYS if self.key else frozenset())
        kept = CIMultiDict(
            (name, value) for name, value in sent.items() if name.lower() not in hidden
        )
        # Uncompressed, so that every piece of a stream can be forwarded by itself.
        kept["Accept-Encoding"] = "identity"
        if self.key and "x-api-key" in sent:
            kept["x-api-key"] = self.key
        elif self.key:
            kept["Authorization"] = f"Bearer {self.key}"
        return kept


def _returned(response: aiohttp.ClientResponse) -> CIMultiDict[str]:
    # The client decompresses an answer, which changes its length.
    was_packed = "Content-Encoding" in response.headers
    dropped = {"content-encoding", "content-length"} if was_packed else frozenset()
    return CIMultiDict(
        (name, value)
        for name, value in response.headers.items()
        if name.lower() not in _OF_A_CONNECTION and name.lower() not in dropped
    )
