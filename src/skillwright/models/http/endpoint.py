"""The chat model behind an HTTP endpoint, for all dialects."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from skillwright.core import Completion, Message, ModelError, Purpose, Sampling, Usage
from skillwright.core.chat import INTERRUPTED
from skillwright.core.jsonio import digest
from skillwright.models.http.azure import AzureToken
from skillwright.models.http.client import HttpReply, encode
from skillwright.models.http.endpoint_config import EndpointConfig, find_key
from skillwright.models.http.hedge import Call, hedged
from skillwright.models.http.retry import Retry
from skillwright.models.http.traffic import EndpointLimits, expected_tokens
from skillwright.models.http.wire import (
    EndpointFault,
    UsageCheck,
    WebPage,
    cost_usd,
    hidden,
    hide_key,
)

Config = TypeVar("Config", bound=EndpointConfig, covariant=True)

_LEAST_S = 0.001  # shortest timeout of an attempt; 0 would mean none


@dataclass(frozen=True, slots=True)
class Dialect(ABC, Generic[Config]):
    """The requests and replies of one kind of endpoint, without state or side effects."""

    config: Config

    @property
    def url(self) -> str:
        """URL of the requests."""
        return self.config.url

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers; ``key`` is ``""`` if there is none."""
        return bearer(key)

    @abstractmethod
    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Build a request; settings apply where ``sampling`` is unset.

        Raise `ModelRefused` for a feature that the dialect or the model lacks.
        """

    @abstractmethod
    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error in a reply, or ``None``."""

    @abstractmethod
    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer, or raise an `EndpointFault`; unknown keys and values are ignored."""


class Posts(Protocol):
    """The client of an `EndpointModel`: the shared one, or one that starts a server first."""

    @property
    def limits(self) -> EndpointLimits:
        """Limits of the calls in flight, per endpoint."""

    async def post_json(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> HttpReply:
        """Post a JSON document; see `HttpClient.post_json`."""


class EndpointModel:
    """A chat model behind HTTP.

    Args:
        dialect: Dialect with the settings.
        client: Shared HTTP client; its ``limits`` apply to this endpoint and key.
        sleep: Waits between attempts.
        clock: Monotonic clock, in seconds.
        max_garbled: Attempts that may end in a `GarbledReply`; ``None``: no limit of its own.
    """

    def __init__(
        self,
        dialect: Dialect[EndpointConfig],
        client: Posts,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        max_garbled: int | None = None,
    ) -> None:
        config = dialect.config
        self._dialect = dialect
        self._client = client
        self._key = find_key(config)
        self._token = AzureToken(config.sign_in) if config.sign_in else None
        self._traffic = client.limits.traffic(config, self._key, sleep=sleep, clock=clock)
        self._circuit = self._traffic.circuit(config.model, config.deadline_s)
        self._sleep = sleep
        self._latest_answer = 0  # tokens
        self._usage_check = UsageCheck(f"{config.base_url} (model {config.model!r})")
        self._retry = Retry(
            max_attempts=config.max_attempts,
            timeout_s=config.timeout_s,
            deadline_s=config.deadline_s,
            max_garbled=max_garbled,
            circuit=self._circuit,
            sleep=sleep,
            clock=clock,
        )
        self._identity = identity_of(config)

    @property
    def identity(self) -> str:
        """``{backend}:{model}@{host}#{digest of the settings that change answers}``."""
        return self._identity

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer a conversation, with retries; ``failed_calls`` counts the failed attempts.

        Raises:
            EndpointFault: Every attempt failed.
            ModelTimeout: The last attempt or the whole call timed out.
            ModelRefused: The key, the model name, the request or a feature is refused.
            ContextOverflow: The conversation exceeds the context window.
            ReplyInvalid: The reply is too long.
            EndpointDown: The endpoint answered no call for a whole deadline.
        """
        if self._dialect.config.system == "merge":
            messages = without_system(messages)
        request = self._dialect.request(messages, tools, sampling)
        body = encode(request)

        traffic = self._traffic
        once = partial(self._once, purpose, request, body)

        async def attempt(timeout_s: float) -> Completion:
            self._circuit.check()  # before the call waits in the queue
            expected = expected_tokens(body, self._latest_answer)
            await traffic.pacer.turn(expected, deadline - traffic.clock())
            timeout_s = max(_LEAST_S, min(timeout_s, deadline - traffic.clock()))
            used = 0
            try:
                if call is None:
                    answer = await once(timeout_s)
                else:
                    answer = await self._hedged(partial(once, timeout_s), call, purpose)
                self._latest_answer = answer.usage.output_tokens
                used = answer.usage.input_tokens + self._latest_answer
            except ModelError as error:
                wasted.append(replace(error.usage, failed_calls=error.failed_calls))
                raise
            except asyncio.CancelledError:
                wasted.append(self._estimated(body))
                raise
            finally:
                traffic.pacer.settle(expected, used)
            return answer

        # The deadline starts inside the slot: queueing does not count. A call keeps its slot
        # between attempts, which reduces the load on a busy endpoint.
        share = self._dialect.config.hedge
        counted = nullcontext() if share is None else traffic.hedges.call(purpose, share)
        with counted as call, _recorded_if_cancelled(purpose) as wasted:
            async with traffic.limiter.slot():
                started = traffic.clock()
                deadline = started + self._retry.deadline_s
                completion, lost = await self._retry.call(attempt)
        spent = completion.usage + lost
        return replace(completion, usage=replace(spent, seconds=traffic.clock() - started))

    async def _once(
        self, purpose: Purpose, request: dict[str, Any], body: bytes, timeout_s: float
    ) -> Completion:
        """Make one attempt; a fault carries its estimated usage."""
        with self._traffic.trial(purpose, self._circuit) as trial:
            try:
                reply = await self._posted(body, timeout_s)
                trial.status = reply.status
                fault = self._dialect.fault(reply, self._key)
                if fault is not None:
                    raise fault
                answer = self._dialect.completion(reply.payload, request)
            except ModelError as error:
                hide_key(error, self._key)
                error.usage = self._usage_check.plausible_of_call(error.usage, body)
                raise
            usage = self._usage_check.plausible_of_call(answer.usage, body)
            return replace(answer, model=hidden(answer.model, self._key), usage=usage)

    def _estimated(self, body: bytes) -> Usage:
        """Estimate the usage of a request in flight: the endpoint may well answer and charge it."""
        usage = Usage(
            calls=1, input_tokens=expected_tokens(body, 0), output_tokens=self._latest_answer
        )
        return replace(usage, cost_usd=cost_usd(usage, self._dialect.config.known_prices))

    async def _posted(self, body: bytes, timeout_s: float) -> HttpReply:
        if self._token is not None:
            self._key = await self._token.value()
        headers = {**self._dialect.headers(self._key), **self._dialect.config.headers}
        try:
            return await self._client.post_json(
                self._dialect.url, body, headers=headers, timeout_s=timeout_s
            )
        except WebPage as page:
            if not self._traffic.has_answered:
                raise
            # So the URL is right, and it is retried like a 503.
            raise EndpointFault(
                f"{page.args[0].partition(' Check ')[0]} It answered before, so look at the log of "
                "the server, or of the proxy in front of it.",
                status=503,
            ) from None

    async def _hedged(
        self, once: Callable[[], Coroutine[Any, Any, Completion]], call: Call, purpose: Purpose
    ) -> Completion:
        """Make an attempt, with a second one if it is late at the end of a wave; count both."""
        limiter, hedges = self._traffic.limiter, self._traffic.hedges
        call.started = self._traffic.clock()
        is_late = hedges.is_late(call, purpose, self._dialect.config.hedge or 0.0)
        has_place = False

        def may_begin() -> bool:
            nonlocal has_place
            has_place = limiter.enter_at_once()
            return has_place

        try:
            answer, asked_twice = await hedged(once, is_late, may_begin)
        finally:
            if has_place:
                limiter.leave()
        # The cancelled attempt's tokens are unknown; this is an estimate.
        return replace(answer, usage=answer.usage + answer.usage) if asked_twice else answer


@contextmanager
def _recorded_if_cancelled(purpose: Purpose) -> Iterator[list[Usage]]:
    """Collect the usage of attempts without an answer, and record it if the call is cancelled."""
    wasted: list[Usage] = []
    try:
        yield wasted
    except asyncio.CancelledError:
        record = INTERRUPTED.get()
        if record is not None and wasted:
            record(purpose, sum(wasted, Usage()))
        raise


def identity_of(config: EndpointConfig) -> str:
    """Return the identity of a model: all settings that change answers, without secrets."""
    matters = digest(config.what_matters())[:12]
    return f"{config.backend}:{config.model}@{config.host}#{matters}"


def without_system(messages: Sequence[Message]) -> list[Message]:
    """Turn system messages into user messages, and join neighboring user messages."""
    made: list[Message] = []
    for message in messages:
        if message["role"] == "system":
            message = {"role": "user", "content": message["content"]}
        if made and made[-1]["role"] == message["role"] == "user":
            joined = f"{made[-1]['content']}\n\n{message['content']}".strip()
            made[-1] = {"role": "user", "content": joined}
        else:
            made.append(message)
    return made


def bearer(key: str) -> dict[str, str]:
    """Return the header of a bearer token; empty without a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def chosen(name: str, sampling: Sampling, config: EndpointConfig) -> Any:
    """Return a decoding setting of the call, else of the configuration."""
    asked = getattr(sampling, name)
    return getattr(config, name) if asked is None else asked
