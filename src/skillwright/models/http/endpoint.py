"""A model behind an HTTP endpoint: one way to ask, whatever dialect the endpoint speaks."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from skillwright.core import Completion, Message, ModelError, Purpose, Sampling
from skillwright.core.jsonio import digest
from skillwright.models.http.client import HttpReply, encode
from skillwright.models.http.endpoint_config import EndpointConfig, find_key
from skillwright.models.http.hedge import Call, hedged
from skillwright.models.http.retry import Retry
from skillwright.models.http.traffic import EndpointLimits, expected_tokens
from skillwright.models.http.wire import Doubt, hidden, hide_key

Config = TypeVar("Config", bound=EndpointConfig, covariant=True)

_LEAST_S = 0.001  # of an attempt: nothing at all would mean no bound


@dataclass(frozen=True, slots=True)
class Dialect(ABC, Generic[Config]):
    """The requests and replies of one kind of endpoint. Pure: it keeps no state and sends nothing.

    Attributes:
        config: Which model, where, and how.
    """

    config: Config

    @property
    def url(self) -> str:
        """Where a conversation is posted."""
        return self.config.url

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that the dialect demands; ``key`` is ``""`` where there is none."""
        return bearer(key)

    @abstractmethod
    def request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], sampling: Sampling
    ) -> dict[str, Any]:
        """Put a call into JSON. What ``sampling`` leaves open, the settings decide.

        Raises:
            ModelRefused: The dialect or the model has no such feature; nothing was sent.
        """

    @abstractmethod
    def fault(self, reply: HttpReply, key: str) -> ModelError | None:
        """Return the error that a reply is, or ``None`` where it may hold an answer."""

    @abstractmethod
    def completion(self, payload: Any, request: Mapping[str, Any]) -> Completion:
        """Read an answer out of JSON. Unknown keys and values are ignored.

        Raises:
            EndpointFault: There is no answer in it.
        """


class Posts(Protocol):
    """What an `EndpointModel` sends with: the shared client, or one that starts a server first."""

    @property
    def limits(self) -> EndpointLimits:
        """What bounds the calls in flight, endpoint by endpoint."""
        ...

    async def post_json(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float
    ) -> HttpReply:
        """Post a JSON document; see `HttpClient.post_json`."""
        ...


class EndpointModel:
    """A chat model at the other end of HTTP.

    Args:
        dialect: Which model, where, and how it is spoken to.
        client: The shared HTTP client; its ``limits`` bound the calls to this endpoint and key.
        sleep: Waits between attempts.
        clock: Seconds that only go forward, for deadlines and latencies.
        max_garbled: Attempts that may end in a `GarbledReply`; ``None``: as many as may fail.

    Raises:
        ConfigError: The endpoint needs a key and none is there, or the key cannot be sent.
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
        self._headers = {**dialect.headers(self._key), **config.headers}
        self._traffic = client.limits.traffic(config, self._key, sleep=sleep, clock=clock)
        self._circuit = self._traffic.circuit(config.model, config.deadline_s)
        self._sleep = sleep
        self._latest_answer = 0  # tokens
        self._doubt = Doubt(f"{config.base_url} (model {config.model!r})")
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
        """Answer a conversation, with retries; ``failed_calls`` counts the attempts that failed.

        Raises:
            EndpointFault: The endpoint failed at every attempt.
            ModelTimeout: The last attempt, or the whole call, ran out of time.
            ModelRefused: The endpoint refuses the key, the model name or the request, or the
                dialect has no such feature.
            ContextOverflow: The conversation does not fit the model's window.
            ReplyInvalid: The reply is longer than the bound.
            EndpointDown: No answer came until the call's deadline, or for as long as a
                deadline before the call.
        """
        request = self._dialect.request(messages, tools, sampling)
        body = encode(request)

        traffic = self._traffic
        once = partial(self._once, purpose, request, body)

        async def attempt(timeout_s: float) -> Completion:
            self._circuit.check()  # before it takes a place in the line
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
                return answer
            finally:
                traffic.pacer.settle(expected, used)

        # The deadline's clock starts inside the slot: queueing is not slowness. A call keeps its
        # slot while it waits to try again, so a busy endpoint is asked for less.
        share = self._dialect.config.hedge
        counted = nullcontext() if share is None else traffic.hedges.call(purpose, share)
        with counted as call:
            async with traffic.limiter.slot():
                started = traffic.clock()
                deadline = started + self._retry.deadline_s
                completion, lost = await self._retry.call(attempt)
        spent = completion.usage + lost
        return replace(completion, usage=replace(spent, seconds=traffic.clock() - started))

    async def _once(
        self, purpose: Purpose, request: dict[str, Any], body: bytes, timeout_s: float
    ) -> Completion:
        """Ask once; a fault knows what the attempt is believed to have consumed."""
        with self._traffic.trial(purpose, self._circuit) as trial:
            try:
                reply = await self._client.post_json(
                    self._dialect.url, body, headers=self._headers, timeout_s=timeout_s
                )
                trial.status = reply.status
                fault = self._dialect.fault(reply, self._key)
                if fault is not None:
                    raise fault
                answer = self._dialect.completion(reply.payload, request)
            except ModelError as error:
                hide_key(error, self._key)
                error.usage = self._doubt.believed_of_call(error.usage, body)
                raise
            usage = self._doubt.believed_of_call(answer.usage, body)
            return replace(answer, model=hidden(answer.model, self._key), usage=usage)

    async def _hedged(
        self, once: Callable[[], Coroutine[Any, Any, Completion]], call: Call, purpose: Purpose
    ) -> Completion:
        """Attempt, twice where all wait for a slow first; what is cancelled is counted too."""
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
        # The other attempt's tokens are unknown; they cannot be many more.
        return replace(answer, usage=answer.usage + answer.usage) if asked_twice else answer


def identity_of(config: EndpointConfig) -> str:
    """Name a model by all that can change its answers, and nothing secret."""
    matters = digest(config.what_matters())[:12]
    return f"{config.backend}:{config.model}@{config.host}#{matters}"


def bearer(key: str) -> dict[str, str]:
    """Return the header of a bearer token, or none."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def chosen(name: str, sampling: Sampling, config: EndpointConfig) -> Any:
    """Return a decoding setting: what the call asks for, else what the configuration says."""
    asked = getattr(sampling, name)
    return getattr(config, name) if asked is None else asked
