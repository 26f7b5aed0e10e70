"""Texts and prompts that come again, each stored once and found by its content.

The address of a text or prompt is the digest of what was really said; its body has known secrets
taken out.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence

from skillwright.core import Message, RunError
from skillwright.core.inflate import inflate
from skillwright.core.jsonio import digest
from skillwright.core.secrets import Redactor
from skillwright.runs.columns import to_json
from skillwright.runs.database import Database
from skillwright.runs.messages import contents, read_message, referred_texts, write_message

_LEVEL = 4
"""A twentieth larger than at zlib's usual 6, in half of the time."""
_SMALL = 16_384
"""Bytes from which a text is worth the tables of zlib's largest window."""


class Archive:
    """Texts and prompts of a run.

    Args:
        database: Where they are. Writing methods must be called in a transaction.
        redactor: Takes known secrets out of what is stored.
    """

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self.database = database
        self.redactor = redactor

    def put_texts(self, texts: Iterable[str]) -> dict[str, int]:
        """Store texts that are new, and return the number of each."""
        digests = {text: _sha256(text) for text in dict.fromkeys(texts)}
        rows = self.database.rows_in(
            "SELECT digest, id FROM texts WHERE digest IN ({})", digests.values()
        )
        known: dict[bytes, int] = {row["digest"]: row["id"] for row in rows}
        for text, address in digests.items():
            if address not in known:
                body = self.pack(text)
                known[address] = self.database.insert("texts", {"digest": address, "body": body})
        return {text: known[address] for text, address in digests.items()}

    def put_text(self, text: str) -> int:
        """Store one text, and return its number."""
        return self.put_texts([text])[text]

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return texts by number."""
        rows = self.database.rows_in("SELECT id, body FROM texts WHERE id IN ({})", set(ids))
        return {row["id"]: unpack(row["body"]) for row in rows}

    def text(self, text_id: int) -> str:
        """Return one text."""
        return self.texts([text_id])[text_id]

    def put_prompt(self, messages: Sequence[Message]) -> int:
        """Store a prompt if it is new, and return its number."""
        address = bytes.fromhex(digest(list(messages)))
        row = self.database.row("SELECT id FROM prompts WHERE digest = ?", (address,))
        if row is not None:
            return int(row["id"])
        texts = self.put_texts(contents(messages))
        body = self.redactor.exact(to_json([write_message(one, texts) for one in messages]))
        return self.database.insert("prompts", {"digest": address, "messages": body})

    def prompt(self, prompt_digest: str) -> tuple[Message, ...]:
        """Return a prompt by the digest of its messages (`core.jsonio.digest`).

        Raises:
            RunError: There is none.
        """
        address = bytes.fromhex(prompt_digest)
        row = self.database.row("SELECT messages FROM prompts WHERE digest = ?", (address,))
        if row is None:
            raise RunError(f"{str(self.database.path)!r} holds no prompt {prompt_digest!r}")
        items = json.loads(row["messages"])
        texts = self.texts(referred_texts(items))
        return tuple(read_message(item, texts) for item in items)

    def pack(self, text: str) -> bytes:
        """Take known secrets out of a text, and compress it for a column of its own."""
        body = self.redactor.exact(text).encode("utf-8", "surrogatepass")
        # For a text of 1 KB, clearing those tables takes five times as long as compressing it.
        window, memory = (13, 6) if len(body) < _SMALL else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
        packer = zlib.compressobj(level=_LEVEL, wbits=window, memLevel=memory)
        return packer.compress(body) + packer.flush()


class RunTable:
    """A part of a run's store.

    Args:
        archive: Holds the texts that rows refer to, and says where the rows are.
        clock: Tells the time, in seconds since 1970.
    """

    def __init__(self, archive: Archive, clock: Callable[[], float]) -> None:
        self._archive = archive
        self._database = archive.database
        self._clock = clock


def unpack(body: bytes) -> str:
    """Read what `Archive.pack` wrote."""
    return inflate(body, "a text of this run").decode("utf-8", "surrogatepass")


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
