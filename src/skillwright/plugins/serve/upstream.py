"""An endpoint elsewhere: requests are passed on, and answers come back while they are written."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import aiohttp
from multidict import CIMultiDict

from skillwright.models.http.client import HttpClient
from skillwright.plugins.serve.front import EPISODE, Asked, Reply

# Of one connection, and so of no use on the next (RFC 9110, 7.6.1), or made anew there.
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
}
_KEYS: Final = frozenset({"authorization", "x-api-key"})


@dataclass(frozen=True, slots=True)
class Upstream:
    """Passes requests on.

    Attributes:
        client: The pool of connections.
        root: Gives what the routes of clients are put behind: an address without ``/v1``.
        silent_s: Seconds without a byte after which it counts as gone.
        key: Its key; "" where clients bring their own.
    """

    client: HttpClient
    root: Callable[[], Awaitable[str]]
    silent_s: float
    key: str = ""

    @property
    def takes_client_keys(self) -> bool:
        """Whether clients bring its keys."""
        return not self.key

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Pass a request on, and what comes back piece by piece; see `Answerer.answer`."""
        request = asked.request
        url = await self.root() + request.raw_path
        headers = self._headers(request.headers)
        async with self.client.relay(
            request.method, url, asked.raw, headers=headers, silent_s=self.silent_s
        ) as response:
            await reply.start(response.status, _returned(response))
            async for chunk in response.content.iter_any():
                await reply.write(chunk)

    def _headers(self, sent: Mapping[str, str]) -> CIMultiDict[str]:
        hidden = _DROPPED | _KEYS if self.key else _DROPPED
        kept = CIMultiDict(
            (name, value) for name, value in sent.items() if name.lower() not in hidden
        )
        # As it is, so that every piece of a stream can be passed on by itself.
        kept["Accept-Encoding"] = "identity"
        if self.key and "x-api-key" in sent:
            kept["x-api-key"] = self.key
        elif self.key:
            kept["Authorization"] = f"Bearer {self.key}"
        return kept


def _returned(response: aiohttp.ClientResponse) -> CIMultiDict[str]:
    # What came packed all the same is unpacked by the client, so its length is another one.
    was_packed = "Content-Encoding" in response.headers
    dropped = {"content-encoding", "content-length"} if was_packed else frozenset()
    return CIMultiDict(
        (name, value)
        for name, value in response.headers.items()
        if name.lower() not in _OF_A_CONNECTION and name.lower() not in dropped
    )
