"""The prefix cache of a local server: the system messages of a prompt are computed once.

llama.cpp's own prompt cache depends on the previous call, and so does the point where it splits a
prompt and thereby the rounding. Here a prompt is always split before the first user message. The
part before is computed separately, saved, and restored before each call, so an answer depends on
its prompt alone.
"""

import itertools
import secrets
import shutil
import threading
from collections.abc import Awaitable, Callable, Mapping
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from skillwright.models.http.client import HttpReply
from skillwright.models.http.wire import EndpointFault

CHAT_ROUTE = "/v1/chat/completions"
MAX_SAVED_BYTES = 2**30
"""Of prefixes on disk, for each server; the newest one stays in any case."""

Post = Callable[[str, Mapping[str, Any]], Awaitable[HttpReply]]
"""Posts a document to a route of the server."""

_MARK = "\x01"  # where the text of the user begins; no template looks into it
_UNABLE = (400, 501)  # the prompt is too long, or the model's state cannot be saved
_TRIES = 3  # other prefixes may take the room of one before it is read


class SavedPrefixes:
    """The prefixes that a server has saved in ``folder``, until `close`. Thread-safe."""

    def __init__(self) -> None:
        self.folder = Path(gettempdir(), f"skillwright-prefixes-{secrets.token_hex(8)}")
        # Prefix -> name and bytes of its file, least recently used first.
        self._files: dict[str, tuple[str, int]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def find(self, prefix: str) -> str | None:
        """Return the file name of a prefix, and mark it as used."""
        with self._lock:
            if prefix not in self._files:
                return None
            self._files[prefix] = self._files.pop(prefix)
            return self._files[prefix][0]

    def new_name(self) -> str:
        """Return an unused file name."""
        with self._lock:
            number = next(self._numbers)
            if not number:
                self.folder.mkdir(mode=0o700)
            return f"prefix-{number}"

    def add(self, prefix: str, name: str, size: int) -> str:
        """Register a written file of ``size`` bytes, and evict the least recently used ones.

        Return the file name of the prefix: that of a concurrent call, if it was faster.
        """
        with self._lock:
            if prefix in self._files:
                (self.folder / name).unlink(missing_ok=True)
                return self._files[prefix][0]
            self._files[prefix] = name, size
            while len(self._files) > 1 and self._bytes > MAX_SAVED_BYTES:
                self._drop(next(iter(self._files)))
            return name

    def forget(self, prefix: str, name: str) -> None:
        """Remove a file that cannot be read."""
        with self._lock:
            if prefix in self._files and self._files[prefix][0] == name:
                self._drop(prefix)

    @property
    def _bytes(self) -> int:
        return sum(size for _, size in self._files.values())

    def _drop(self, prefix: str) -> None:
        name, _ = self._files.pop(prefix)
        (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files."""
        shutil.rmtree(self.folder, ignore_errors=True)


async def complete(
    post: Post, saved: SavedPrefixes, slot: int, request: Mapping[str, Any]
) -> HttpReply:
    """Complete a chat whose prefix is restored from disk, or computed and saved first.

    Args:
        post: Posts to the server.
        saved: The server's saved prefixes.
        slot: A slot that no other call uses.
        request: A chat completion request.

    Returns:
        The reply to the request, or to a step before it that failed.
    """
    pinned = {**request, "id_slot": slot, "cache_prompt": False}
    try:
        pinned["cache_prompt"] = await _restore(post, saved, slot, request)
    except _FailedError as failed:
        # If the prompt is too long, the request itself fails with the better message.
        if failed.reply.status not in _UNABLE:
            return failed.reply
    return await post(CHAT_ROUTE, pinned)


async def _restore(post: Post, saved: SavedPrefixes, slot: int, request: Mapping[str, Any]) -> bool:
    """Restore the state after a request's prefix into a slot; return whether it has a prefix."""
    system = list(takewhile(lambda one: one.get("role") == "system", request["messages"]))
    if not system:
        return False
    opening = {**request, "messages": [*system, {"role": "user", "content": _MARK}]}
    # Rendered for each call: it contains tools, and a template may contain the date.
    rendered = await _ask(post, "/apply-template", opening)
    prefix, mark, _ = rendered["prompt"].partition(_MARK)
    if not prefix or not mark:
        return False
    for _ in range(_TRIES):
        name = saved.find(prefix) or await _save(post, saved, slot, prefix)
        # Restored from disk the first time too, so that all answers start from the same state.
        reply = await post(f"/slots/{slot}?action=restore", {"filename": name})
        if reply.status == 200:
            return True
        saved.forget(prefix, name)
    raise _disk_fault(saved, reply)


async def _save(post: Post, saved: SavedPrefixes, slot: int, prefix: str) -> str:
    """Compute a prefix in a slot, save its state, and return the file name."""
    computed = {"prompt": prefix, "n_predict": 0, "cache_prompt": False, "id_slot": slot}
    await _ask(post, "/completion", computed)
    name = saved.new_name()
    try:
        written = await _ask(post, f"/slots/{slot}?action=save", {"filename": name})
    except _FailedError as failed:
        if failed.reply.status in _UNABLE:
            raise
        raise _disk_fault(saved, failed.reply) from None
    return saved.add(prefix, name, written["n_written"])


def _disk_fault(saved: SavedPrefixes, reply: HttpReply) -> EndpointFault:
    return EndpointFault(
        f"the prefix of a prompt could not be saved in {saved.folder} and read back: "
        f"{reply.text[:200]}. Is the disk full? TMPDIR names another folder."
    )


async def _ask(post: Post, route: str, document: Mapping[str, Any]) -> Any:
    reply = await post(route, document)
    if reply.status != 200:
        raise _FailedError(reply)
    return reply.payload


class _FailedError(Exception):
    """A step before the request failed; ``reply`` is the server's."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.text)
        self.reply = reply
