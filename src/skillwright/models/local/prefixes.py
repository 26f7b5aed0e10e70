"""The prefix cache of a local server: the system messages of a prompt are computed once.

A skill is most of a short prompt, and the same in every call. llama.cpp's own prompt cache keeps
what the call before has left, so it depends on that call where a prompt is split, and with it how
its numbers round. Here a prompt is always split in the same place, before the first message of the
user; what stands before it is computed by itself, saved, and restored before each call. So an
answer depends on its prompt alone, whatever was asked before.
"""

import hashlib
import itertools
import threading
from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from skillwright.models.http.client import HttpReply, encode
from skillwright.models.http.wire import EndpointFault

CHAT_ROUTE = "/v1/chat/completions"
MAX_SAVED_BYTES = 2**30
"""Of prefixes on disk, for each server; the newest one stays in any case."""

Post = Callable[[str, Mapping[str, Any]], Awaitable[HttpReply]]
"""Posts a document to a route of the server."""

_MARK = "\x01"  # where the text of the user begins; no template looks into it
_UNABLE = (400, 501)  # the prompt is too long, or the model's state cannot be saved


class SavedPrefixes:
    """The prefixes that a server has saved on disk. Safe to use from several threads.

    Attributes:
        folder: Where their files are, until `close`.
    """

    def __init__(self) -> None:
        self._temporary = TemporaryDirectory(prefix="skillwright-prefixes-")
        self.folder = Path(self._temporary.name)
        self._sizes: dict[str, int] = {}  # bytes by name, the one used last at the end
        self._names: dict[bytes, str] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def find(self, key: bytes) -> str | None:
        """Return the name of the file of a prefix, which counts as used now."""
        with self._lock:
            name = self._names.get(key)
            if name is not None:
                self._sizes[name] = self._sizes.pop(name)
            return name

    def new_name(self) -> str:
        """Return a name that no other file has."""
        return f"prefix-{next(self._numbers)}"

    def add(self, key: bytes, name: str, size: int) -> None:
        """Count a file that was written; those used longest ago make room for it.

        Args:
            key: Whose file it is.
            name: From `new_name`.
            size: In bytes.
        """
        with self._lock:
            self._drop(self._names.pop(key, None))
            self._names[key], self._sizes[name] = name, size
            while len(self._sizes) > 1 and sum(self._sizes.values()) > MAX_SAVED_BYTES:
                oldest = next(iter(self._sizes))
                self._names = {one: other for one, other in self._names.items() if other != oldest}
                self._drop(oldest)

    def _drop(self, name: str | None) -> None:
        if name is not None:
            del self._sizes[name]
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files."""
        self._temporary.cleanup()


async def complete(
    post: Post, saved: SavedPrefixes, slot: int, request: Mapping[str, Any]
) -> HttpReply:
    """Ask for a chat completion whose prefix comes from disk, or is computed and saved first.

    Args:
        post: Posts to the server.
        saved: What it has saved.
        slot: A slot that nobody else uses meanwhile.
        request: Of a chat completion.

    Returns:
        The reply to the request, or to a step before it that failed.

    Raises:
        EndpointFault: A prefix could not be saved.
    """
    pinned = {**request, "id_slot": slot, "cache_prompt": False}
    try:
        pinned["cache_prompt"] = await _restore(post, saved, slot, request)
    except _FailedError as failed:
        # A prompt that is too long is so for the request itself, which says it better.
        if failed.reply.status not in _UNABLE:
            return failed.reply
    return await post(CHAT_ROUTE, pinned)


async def _restore(post: Post, saved: SavedPrefixes, slot: int, request: Mapping[str, Any]) -> bool:
    """Put the state after a request's prefix into a slot; false where it has no prefix."""
    system = list(takewhile(lambda one: one.get("role") == "system", request["messages"]))
    if not system:
        return False
    opening = {**request, "messages": [*system, {"role": "user", "content": _MARK}]}
    opening.pop("seed", None)
    key = hashlib.sha256(encode(opening)).digest()
    action = f"/slots/{slot}?action="
    name = saved.find(key)
    if name is not None:
        reply = await post(f"{action}restore", {"filename": name})
        if reply.status == 200:
            return True
        # Its file made room for another one after it was found.
    rendered = await _ask(post, "/apply-template", opening)
    prefix, mark, _ = rendered["prompt"].partition(_MARK)
    if not prefix or not mark:
        return False
    computed = {"prompt": prefix, "n_predict": 0, "cache_prompt": False, "id_slot": slot}
    await _ask(post, "/completion", computed)
    name = saved.new_name()
    written = await _ask(post, f"{action}save", {"filename": name})
    saved.add(key, name, written["n_written"])
    # From disk this time too: every answer begins with the same state, the first like the others.
    reply = await post(f"{action}restore", {"filename": name})
    if reply.status != 200:
        raise EndpointFault(
            f"a prompt's prefix could not be read back from {saved.folder}: {reply.text[:200]}. "
            "Is the disk full? TMPDIR names another folder."
        )
    return True


async def _ask(post: Post, route: str, document: Mapping[str, Any]) -> Any:
    reply = await post(route, document)
    if reply.status != 200:
        raise _FailedError(reply)
    return reply.payload


class _FailedError(Exception):
    """A step before the request itself was not done.

    Args:
        reply: What the server said.
    """

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.text)
        self.reply = reply
