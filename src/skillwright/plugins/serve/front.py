"""The HTTP server: access, limits, injected skills, and recording.

aiohttp serves with the same C parser that its client uses.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol
from unicodedata import normalize
from urllib.parse import unquote

import orjson
from aiohttp import web

from skillwright.core import (
    Message,
    ModelError,
    ModelTimeout,
    RunError,
    SkillContext,
    SkillSource,
    SkillwrightError,
    Task,
)
from skillwright.core.loopback import port_named, same_token
from skillwright.models.http.client import MAX_REPLY_BYTES, encode
from skillwright.plugins.serve.dialects import DIALECTS, OPENAI, Body, ClientDialect, last_user_text
from skillwright.plugins.serve.raw_json import parsed, patched
from skillwright.plugins.serve.recording import Conversations, Exchange, NoConversation
from skillwright.plugins.serve.slots import Busy, Slots

MOST_BYTES: Final = 8 * 2**20
"""Maximum bytes of a request; above it, 413."""
EPISODE: Final = "x-skillwright-episode"
"""Header with the name of a conversation, in answers and optionally in requests."""
_FEEDBACK: Final = "/v1/feedback"
_BODY_S: Final = 60.0  # until a request's body is complete
_REMEMBERED: Final = 1_024
_SEARCHED: Final = 2_000  # characters at each end of the user's text
_LONGEST_NAME: Final = 200
_TOO_LONG: Final = f"a request may have {MOST_BYTES:,} bytes"
_MOST_HELD: Final = 64 * MOST_BYTES  # bytes of all requests together
# Others may be rewritten on their way to the endpoint, into a path outside /v1/.
_PATH: Final = re.compile(r"/v1(?:/[\w.~!$&'()*+,=:@-]+)+/?")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

logger = logging.getLogger(__name__)


class Refused(SkillwrightError):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[1])


class ClientGone(SkillwrightError):
    """A client closed its connection, or stopped reading."""


@dataclass(slots=True)
class Asked:
    """A request.

    Attributes:
        request: The HTTP request.
        raw: Its body.
        body: Its body as a JSON object; ``None`` if it is none, or no conversation.
        dialect: Client format; ``None`` for requests that are forwarded unread.
    """

    request: web.BaseRequest
    raw: bytes
    body: Body | None
    dialect: ClientDialect | None

    def inject(self, body: Body) -> None:
        """Replace the body; in ``raw``, its other parts stay as they were written."""
        self.raw = patched(self.raw.decode(), self.body, body).encode()
        self.body = body


class Reply:
    """The answer to a request; ``kept`` is its copy for the recording, or ``None``."""

    def __init__(self, request: web.BaseRequest, silent_s: float) -> None:
        self._request, self._silent_s = request, silent_s
        self._response: web.StreamResponse | None = None
        self._headers: dict[str, str] = {}
        self._size = 0
        self.kept: list[bytes] | None = None

    @property
    def began(self) -> bool:
        """Whether its head was sent."""
        return self._response is not None

    @property
    def sent(self) -> web.StreamResponse:
        """The response, once its head was sent."""
        if self._response is None:
            raise RuntimeError("a request has no answer")
        return self._response

    def keep(self, conversation: str) -> None:
        """Keep a copy, and name its conversation."""
        self.kept = []
        if conversation.isascii() and conversation.isprintable():
            self._headers[EPISODE] = conversation

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head, or raise `ClientGone`."""
        self._response = web.StreamResponse(status=status, headers=headers)
        self._response.headers.update(self._headers)
        if status != 200:
            self.kept = None
        await self._taken(self._response.prepare(self._request))

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body, or raise `ClientGone`."""
        self._size += len(chunk)
        if self._size > MAX_REPLY_BYTES:
            self.kept = None
        if self.kept is not None:
            self.kept.append(chunk)
        await self._taken(self.sent.write(chunk))

    async def end(self) -> None:
        """Send the end, or raise `ClientGone`."""
        await self._taken(self.sent.write_eof())

    async def whole(self, status: int, body: Any, headers: Mapping[str, str] = {}) -> None:
        """Send a JSON value."""
        raw = encode(body)
        length = {"Content-Type": "application/json", "Content-Length": str(len(raw))}
        await self.start(status, {**length, **headers})
        await self.write(raw)

    async def _taken(self, sending: Coroutine[Any, Any, Any]) -> None:
        try:
            async with asyncio.timeout(self._silent_s):
                await sending
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone("its client is gone") from error

    def cut(self) -> None:
        """Abort the connection: an incomplete answer must not look complete."""
        if self._request.transport is not None:
            self._request.transport.abort()


class Answerer(Protocol):
    """Answers requests: a remote endpoint, or a policy in this process."""

    @property
    def takes_client_keys(self) -> bool:
        """Whether clients send the endpoint's own keys, and so need none of this server's."""

    async def answer(self, asked: Asked, reply: Reply) -> None:
        """Answer a request; errors are `Refused` (wrong request) and `ModelError` (no answer)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the server.

    Attributes:
        in_flight: Concurrent requests.
        waiting: Waiting requests; further ones get 429.
        silent_s: Seconds for which a client may read nothing of its answer.
    """

    in_flight: int
    waiting: int
    silent_s: float


class Skills:
    """Skills to inject for the user's last text."""

    def __init__(self, source: SkillSource, env: str = "") -> None:
        self._source, self._env = source, env
        # An agent with tools repeats the user's last text in every request.
        self._known: OrderedDict[str, SkillContext] = OrderedDict()

    async def of(self, said: str) -> SkillContext:
        """Return the skills to inject."""
        if len(said) > 2 * _SEARCHED:  # the middle of a pasted file says little of the task
            said = f"{said[:_SEARCHED]} {said[-_SEARCHED:]}"
        known = self._known.get(said)
        if known is None:
            task = Task("query", self._env, description=said)
            if self._source.waits:
                known = await asyncio.to_thread(self._source.context, task)
            else:
                known = self._source.context(task)
            self._known[said] = known
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known


class Front:
    """Answers HTTP requests.

    Args:
        answerer: Answers the requests.
        key: Key of requests, except those with a key of the endpoint's own.
        bounds: Limits.
        skills: Injects skills; ``None`` for none.
        conversations: Records; ``None`` for no recording.
        is_local: Refuse requests that address another host name.
    """

    def __init__(
        self,
        answerer: Answerer,
        key: str,
        bounds: Bounds,
        skills: Skills | None = None,
        conversations: Conversations | None = None,
        *,
        is_local: bool = True,
    ) -> None:
        self._answerer, self._key, self._bounds = answerer, key, bounds
        self._skills, self._conversations, self._is_local = skills, conversations, is_local
        self.slots = Slots(bounds.in_flight, bounds.waiting)
        self._held = 0

    async def handle(
        self, request: web.BaseRequest, is_complete: Callable[[], None]
    ) -> web.StreamResponse:
        """Answer a request.

        Args:
            request: Its head; the body may still be on its way.
            is_complete: Called when the body is there.
        """
        path = request.path.removesuffix("/")
        dialect = DIALECTS.get(path)
        reply = Reply(request, self._bounds.silent_s)
        chunks: list[bytes] = []
        try:
            self._check(request, path)
            await self._read(request, chunks)
            is_complete()
            async with self.slots.slot():
                raw = b"".join(chunks)
                if path == _FEEDBACK:
                    await reply.whole(200, await self._feedback(raw))
                else:
                    body = None if dialect is None else _parsed(raw)
                    await self._answer(Asked(request, raw, body, dialect), reply)
        except (Refused, ClientGone, Busy, NoConversation, ModelError) as problem:
            await _excuse(problem, dialect or OPENAI, reply)
        except RecursionError:
            deep = Refused(400, "the request is nested too deeply")
            await _excuse(deep, dialect or OPENAI, reply)
        finally:
            self._held -= sum(map(len, chunks))
        return reply.sent

    def _check(self, request: web.BaseRequest, path: str) -> None:
        if self._is_local and port_named(request.headers.get("Host", "")) is None:
            raise Refused(403, "this server answers only as 127.0.0.1 or localhost")
        if not _is_served(request.raw_path):
            raise Refused(404, "there is nothing here; routes begin with /v1/")
        if request.method not in _METHODS:
            raise Refused(405, f"the method {request.method} is not served")
        bearer = request.headers.get("Authorization", "")
        shown = bearer.removeprefix("Bearer ") or request.headers.get("x-api-key", "")
        if not shown:
            raise Refused(401, "no key was sent: send Authorization: Bearer KEY, or x-api-key: KEY")
        is_theirs = self._answerer.takes_client_keys and path != _FEEDBACK
        if not is_theirs and not same_token(shown, self._key):
            raise Refused(401, "the key is wrong; `skillwright serve` printed it when it began")
        if (request.content_length or 0) > MOST_BYTES:
            raise Refused(413, _TOO_LONG)

    async def _answer(self, asked: Asked, reply: Reply) -> None:
        dialect, injected, exchange = asked.dialect, SkillContext(""), None
        looks = self._skills is not None or self._conversations is not None
        if dialect is not None and asked.body is not None and looks:
            # A body without a conversation stays unchanged; the endpoint will refuse it.
            sent = _encodable(dialect.conversation(asked.body))
            if sent and self._skills is not None:
                injected = await self._skills.of(last_user_text(sent))
            if injected.text.strip():
                asked.inject(dialect.with_skill(asked.body, injected.text))
            if sent and self._conversations is not None:
                name = asked.request.headers.get(EPISODE, "")[:_LONGEST_NAME]
                exchange = self._conversations.begin(sent, name)
                reply.keep(exchange.conversation.id)
        try:
            await self._answerer.answer(asked, reply)
            await reply.end()
        finally:
            # Also if the client left: some leave at the last event, before the stream's end.
            if exchange is not None and dialect is not None and reply.began and reply.kept:
                await self._record(dialect, exchange, injected, reply)

    async def _record(
        self, dialect: ClientDialect, exchange: Exchange, skills: SkillContext, reply: Reply
    ) -> None:
        """Add a complete answer to its conversation, after the client got it."""
        if self._conversations is None:
            return
        streamed = reply.sent.headers.get("Content-Type", "").startswith("text/event-stream")
        try:
            said = dialect.completion(b"".join(reply.kept or ()), streamed=streamed)
        except (ModelError, ValueError, RecursionError) as problem:
            logger.info("an answer is not recorded: %s", problem)
            return
        try:
            await self._conversations.answered(exchange, skills, said)
        except RunError as problem:
            logger.warning("a conversation is not stored: %s", problem)

    async def _read(self, request: web.BaseRequest, chunks: list[bytes]) -> None:
        """Read a request's body up to the limits."""
        size = 0
        try:
            async with asyncio.timeout(_BODY_S):
                while chunk := await request.content.readany():
                    chunks.append(chunk)
                    size += len(chunk)
                    self._held += len(chunk)
                    if size > MOST_BYTES:
                        raise Refused(413, _TOO_LONG)
                    if self._held > _MOST_HELD:
                        raise Busy("the requests are too long together; try again in a moment")
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {_BODY_S:g} s") from None

    async def _feedback(self, raw: bytes) -> Body:
        if self._conversations is None:
            raise Refused(404, "nothing is recorded here: leave --no-record out")
        body = _parsed(raw) or {}
        name = body.get("episode", "")
        said: Any = body.get("reward")
        is_number = isinstance(said, int | float) and not isinstance(said, bool)
        if not (isinstance(name, str) and is_number and 0 <= said <= 1):
            raise Refused(
                400,
                'send {"reward": 0 to 1}, with "episode": ID for another conversation than the '
                f"one that was answered last; ids are in the answers' header {EPISODE}",
            )
        reward = float(said)
        try:
            judged = await self._conversations.judge(name, reward)
        except RunError as error:
            raise Refused(507, str(error)) from error
        return {"episode": judged.id, "reward": reward, "turns": len(judged.exchanges)}


def _is_served(target: str) -> bool:
    """Tell whether a request's target is a path below /v1/, also after any normalization."""
    path = target.partition("?")[0]
    plain = normalize("NFKC", unquote(path))
    is_below = path.startswith("/v1/") and _PATH.fullmatch(plain) is not None
    return is_below and not {".", ".."} & {*plain.split("/")}


def _parsed(raw: bytes) -> Body | None:
    """Return a JSON object; ``None`` for anything else, which is forwarded unchanged."""
    try:
        body = orjson.loads(raw)
    except ValueError:
        try:
            body = parsed(raw.decode())
        except ValueError:
            return None
    return body if isinstance(body, dict) else None


def _encodable(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages in which "?" replaces lone surrogates, which no text file holds."""
    try:
        orjson.dumps(messages)
    except orjson.JSONEncodeError:
        return tuple(orjson.loads(encode(messages)))
    return messages


async def _excuse(problem: Exception, dialect: ClientDialect, reply: Reply) -> None:
    """Answer with an error, or abort an answer in progress."""
    if reply.began or isinstance(problem, ClientGone):
        if not isinstance(problem, ClientGone):
            logger.warning("an answer broke off: %s", problem)
        reply.cut()
        return
    match problem:
        case Refused(status=status):
            pass
        case Busy():
            status = 429
        case NoConversation():
            status = 404
        case ModelTimeout():
            status = 504
        case _:
            status = 502
    body, again = dialect.error(status, str(problem)), {"Retry-After": "1"}
    with suppress(ClientGone):
        await reply.whole(status, body, again if status in (429, 503) else {})
