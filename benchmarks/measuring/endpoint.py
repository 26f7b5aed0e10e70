"""A chat endpoint in a process of its own: as much HTTP as clients need, at next to no cost.

It knows clients that send one request at a time over a connection. Peers' clients import this too,
and their Python has the standard library only.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Reply = Callable[[bytes, bytes], tuple[float, Callable[[], bytes]]]
"""Head and body of a request -> the seconds to wait, and what then makes the body of the answer."""
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def completion(text: str, model: str = "m", tokens: tuple[int, int] = (500, 50)) -> bytes:
    """Return a chat completion as JSON, with the tokens that it says it read and wrote."""
    read, written = tokens
    message = {"role": "assistant", "content": text}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        },
    }
    return json.dumps(answer).encode()


class _Connection(asyncio.Protocol):
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer a request when it is whole; the wait counts from its arrival."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or len(body) < (int(length[1]) if length else 0):
            return
        self._received = b""
        wait_s, made = self._reply(head, body)
        if wait_s:
            loop.call_at(arrived + wait_s, self._send, made)
        else:
            self._send(made)

    def _send(self, made: Callable[[], bytes]) -> None:
        body = made()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(head.encode() + b"\r\n\r\n" + body)


async def serve(reply: Reply) -> None:
    """Serve on a free port until killed; the first line printed is the port."""
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(reply), "127.0.0.1", 0, backlog=4_096
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def served(*script: object) -> Iterator[str]:
    """Run a script that serves, with its arguments, and give the base URL without ``/v1``."""
    command = [sys.executable, *map(str, script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
