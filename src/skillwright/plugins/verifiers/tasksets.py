"""Tasksets of verifiers, played by our agent in an Env and with a harness of verifiers.

An ``Env`` there plays a whole episode. Its agent is a harness, a program that sends its requests to
an endpoint on this machine; the endpoint passes them to a client, and the client is ours. Unless
another one is named, the harness is ours too: the chat loop of verifiers' ``null``, in this process
instead of in a program that is first installed. Rewards, metrics, judges, tool servers and turns
are the taskset's.

Source: verifiers 0.3.1 and 0.4.0 (PrimeIntellect-ai/verifiers), the package ``verifiers.v1``.
"""

import asyncio
import importlib
import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from functools import cache
from itertools import islice
from types import ModuleType
from typing import Any, Final
from uuid import uuid4

import aiohttp

from skillwright.core import DataError, EnvError, JudgeError, SkillwrightError
from skillwright.core.call_json import Unreadable, read_arguments
from skillwright.plugins.verifiers.words import Ask, quiet

_HARNESS: Final = "skillwright_chat"  # a name without dots, by which verifiers imports it
_OURS: Final = "http://skillwright.invalid/"  # base URL of our client; the rest names the episode
_INFINITE: Final = 1_000  # tasks taken of a taskset without end
_asking: dict[str, "_Episode"] = {}


class Taskset:
    """A taskset with the settings of its Env; ``role`` is the seat that our agent takes."""

    def __init__(self, name: str, config: Any, role: str) -> None:
        self.name = name
        self.asks_judge = bool(config.taskset.task.judges) or len(_roles(type(config))) > 1
        self._config = config
        self._role = role
        self._tools: list[Any] | None = None

    def sets(self) -> tuple[list[dict[str, Any]], None]:
        """Return its tasks as rows; a taskset has no eval set."""
        with quiet():
            taskset = _v1().load_taskset(self._config.taskset)
            tasks = islice(taskset, _INFINITE) if taskset.INFINITE else iter(taskset)
            return [_row_of(task.data) for task in tasks], None

    def as_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row, or raise a `DataError` if it is none of a taskset."""
        if not isinstance(row.get("info"), Mapping):
            raise DataError(
                f"{self.name} needs a row of its taskset; env.data of kind 'verifiers' takes those"
            )
        return dict(row)

    def tool_defs(self, row: Mapping[str, Any]) -> list[Any]:
        """Return the tools that the harness offers: those of an episode's first request."""
        if self._tools is not None:
            return self._tools
        seen: list[Any] = []

        async def ask(messages: Any, tools: Any) -> None:
            del messages
            seen.append(tools)

        def look() -> None:
            asyncio.run(self.play(row, ask, max_turns=1, recorded={}))

        with ThreadPoolExecutor(1) as thread:
            try:
                thread.submit(look).result()
            except EnvError:
                if not seen:
                    raise
        self._tools = seen[0] if seen else []
        return self._tools

    async def play(
        self, row: Mapping[str, Any], ask: Ask, *, max_turns: int, recorded: Any
    ) -> Mapping[str, Any]:
        """Play a row, and return its reward and metrics; ``recorded`` replaces the judge's."""
        v1 = _v1()
        with quiet():
            env = v1.load_environment(self._with_turns(max_turns))
        kind = type(env.taskset).task_type()
        data = kind.data_type().model_validate({**row["info"], "idx": row.get("idx")})
        task = kind(data, env.taskset.config.task)
        if recorded is not None:
            task.score = _unscored
        with _client_for(ask) as (episode, client):
            async with env.serving():
                played = await env.run_episode(task, v1.ModelContext("skillwright", client))
            if episode.failure is not None:
                raise episode.failure
        trace = self._trace_of(played)
        score = recorded if recorded is not None else self._score_of(trace)
        return {**score, "cut": trace.stop_condition == "max_turns"}

    def _with_turns(self, most: int) -> Any:
        seat = getattr(self._config, self._role)
        least = min(most, seat.max_turns or most)
        seat = seat.model_copy(update={"max_turns": least})
        return self._config.model_copy(update={self._role: seat})

    def _trace_of(self, played: Any) -> Any:
        """Return the only trace of our agent, or raise the error that ended the episode."""
        errors = [*(error for trace in played.traces for error in trace.errors), *played.errors]
        if not played.ok:
            cause = f"{errors[-1].type}: {errors[-1].message}" if errors else "it names no error"
            judged = self.asks_judge and "scoring" in cause
            raise (JudgeError if judged else EnvError)(f"{self.name} failed: {cause}")
        # An Env may name the only seat differently in its traces than in its settings.
        own = [one for one in played.traces if one.agent.name == self._role] or played.traces
        if len(own) != 1:
            raise EnvError(
                f"{self.name} has the agent play {len(own)} times in an episode, and one score is "
                "of one play here"
            )
        if str(own[0].stop_condition or "").endswith("_timeout"):
            raise EnvError(f"{self.name} ran out of the time that it gives itself")
        return own[0]

    def _score_of(self, trace: Any) -> dict[str, Any]:
        unscored = [name for name, reward in trace.rewards.items() if reward is None]
        if unscored or not trace.rewards:
            raise EnvError(f"{self.name} has no score: {', '.join(unscored) or 'it has no reward'}")
        rewards = {name: float(reward.score) for name, reward in trace.rewards.items()}
        metrics = {name: float(n) for name, n in trace.metrics.items() if n is not None}
        wrong = [name for name, n in rewards.items() if not math.isfinite(n)]
        if wrong:
            raise EnvError(f"{self.name} has no score: {wrong[0]}() gave {rewards[wrong[0]]}")
        return {"reward": float(trace.reward), "metrics": {**metrics, **rewards}}


async def _unscored(*_: Any, **__: Any) -> None:
    """Score nothing, because a record has the score."""


def offers_taskset(module: ModuleType) -> bool:
    """Tell whether a module exports a taskset, as verifiers finds it: by its ``__all__``."""
    if importlib.util.find_spec("verifiers.v1") is None or not hasattr(module, "__all__"):
        return False
    base = _v1().Taskset
    exported = (getattr(module, name, None) for name in module.__all__)
    return any(isinstance(one, type) and issubclass(one, base) for one in exported)


def load_taskset(name: str, ident: str, given: Mapping[str, Any]) -> Taskset:
    """Load a taskset by the name that verifiers knows it by.

    Args:
        name: Its name in messages.
        ident: Its id there.
        given: Settings of its Env (``id`` names another one, ``agent`` or the name of a seat has
            ``harness`` and ``runtime``); all other keys are settings of the taskset.

    Raises:
        DataError: A setting is refused, a second seat has no model, or the tasks need a container.
    """
    v1 = _v1()
    kind = v1.env_config_type(ident, given.get("id", ""))
    raw = {key: value for key, value in given.items() if key in (*kind.model_fields, "harness")}
    rest = {key: value for key, value in given.items() if key not in raw}
    raw["taskset"] = {**raw.get("taskset", {}), **rest, "id": ident}
    seats = {role: dict(raw.get(role) or {}) for role in _roles(kind)}
    free = [role for role, seat in seats.items() if not (seat.get("model") and seat.get("client"))]
    if len(free) != 1:
        which = f"env.config.{free[1]} has no model and client" if free else "each has a model"
        raise DataError(
            f"{name} has the seats {', '.join(seats)}; our agent takes one, and the others need "
            f"model and client in env.config: {which}"
        )
    bundled = v1.default_harness_id(ident)
    for role, seat in seats.items():
        own = kind.model_fields[role].default
        program = (seat.get("harness") or {}).get("id") or getattr(own.harness, "id", bundled)
        if program in ("null", "bash") and "id" not in (seat.get("harness") or {}):
            seat["harness"] = {**(seat.get("harness") or {}), "id": _HARNESS}
            seat.setdefault("runtime", {"type": "subprocess"})
        raw[role] = seat
    config = v1.resolve_env_config(raw)
    local = getattr(config, free[0]).runtime.type == "subprocess"
    if local and v1.task_type(ident).NEEDS_CONTAINER:
        raise DataError(
            f"{name}: its tasks need a container; set env.config.{free[0]}.runtime to "
            "{type: docker}"
        )
    return Taskset(name, config, free[0])


def _roles(kind: type[Any]) -> list[str]:
    seat = _v1().AgentConfig
    return [name for name, one in kind.model_fields.items() if isinstance(one.default, seat)]


def _row_of(data: Any) -> dict[str, Any]:
    """Return a task as a row: what is asked, and all else that makes the task."""
    info = data.model_dump(mode="json", exclude_defaults=True, exclude={"idx"})
    prompt = info.get("prompt") or info.get("description") or info.get("name") or ""
    shown = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return {"prompt": shown, "info": info, "idx": data.idx}


@cache
def _v1() -> Any:
    """Import ``verifiers.v1``, and let it find our harness and client."""
    v1 = importlib.import_module("verifiers.v1")
    module = ModuleType(_HARNESS)
    module.__dict__.update(__all__=["ChatHarness"], ChatHarness=_harness(v1))
    module.__spec__ = importlib.util.spec_from_loader(_HARNESS, None)
    sys.modules[_HARNESS] = module
    server: Any = importlib.import_module("verifiers.v1.interception.server")
    theirs, ours = server.resolve_client, _client(v1)

    def resolve(config: Any) -> Any:
        return ours(config) if config.base_url.startswith(_OURS) else theirs(config)

    server.resolve_client = resolve
    return v1


# Our agent as a client


class _Episode:
    """An episode that asks our agent, and the error of ours that ended it."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.failure: SkillwrightError | None = None


@contextmanager
def _client_for(ask: Ask) -> Iterator[tuple[_Episode, Any]]:
    key, episode = uuid4().hex, _Episode(ask)
    _asking[key] = episode
    try:
        yield episode, _v1().EvalClientConfig(base_url=f"{_OURS}{key}", api_key_var="")
    finally:
        del _asking[key]


def _client(v1: Any) -> Any:
    class AgentOfOurs(v1.Client):  # type: ignore[misc]
        """Passes each request to the agent of its episode."""

        def __init__(self, config: Any) -> None:
            self.episode = _asking[config.base_url.removeprefix(_OURS)]

        async def get_response(self, dialect: Any, body: Any, *_: Any, **__: Any) -> Any:
            if "messages" not in body or "/chat/" not in dialect.upstream_path:
                raise v1.ProviderError("our agents are asked by chat completions", status_code=400)
            try:
                tools = [one["function"] for one in body.get("tools") or ()]
                answer = await self.episode.ask(body["messages"], tools)
            except SkillwrightError as error:
                self.episode.failure = error
                raise v1.ProviderError(str(error), status_code=400) from error
            if answer is None:
                raise v1.ProviderError("the agent's turns are used up", status_code=400)
            raw = _completion(*answer)
            response = dialect.parse_response(dialect.validate_response(raw))
            response.raw = raw
            return response

        async def relay(self, dialect: Any, body: Any, *_: Any, **__: Any) -> Any:
            response = await self.get_response(dialect, body)

            async def events() -> Any:
                for event in dialect.stream_events(response.raw):
                    yield event

            reply = importlib.import_module("verifiers.v1.clients.client").RelayReply
            return reply("text/event-stream", events(), self.close)

    return AgentOfOurs


def _completion(spoken: str, calls: Any) -> dict[str, Any]:
    """Return an answer as a chat completion."""
    made = [
        {"id": one.id, "type": "function",
         "function": {"name": _sendable(one.name), "arguments": _sendable(one.arguments)}}
        for one in calls
    ]  # fmt: skip
    message = {
        "role": "assistant",
        "content": _sendable(spoken),
        **({"tool_calls": made} if made else {}),
    }
    finish = "tool_calls" if made else "stop"
    return {
        "id": "skillwright",
        "object": "chat.completion",
        "created": 0,
        "model": "skillwright",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _sendable(text: str) -> str:
    """Replace what a model may write and UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode()


# Our harness


def _harness(v1: Any) -> Any:
    null: Any = importlib.import_module("verifiers.v1.harnesses.null").NullHarness
    wire = importlib.import_module("verifiers.v1.dialects.chat").message_to_wire
    done = importlib.import_module("verifiers.v1.runtimes").ProgramResult

    class ChatHarness(null):  # type: ignore[misc]
        """Talks and calls tools until an answer has no call."""

        SUPPORTS_TOOL_INTERCEPTION = False

        async def setup(self, runtime: Any) -> None:
            """Install nothing."""

        async def launch(
            self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str,
            mcp_urls: Mapping[str, str], data: Any, **_: Any,
        ) -> Any:  # fmt: skip
            del trace, runtime
            system, prompt = self.resolve_prompt(data)
            messages = [{"role": "system", "content": system}] if system else []
            if isinstance(prompt, str):
                messages.append({"role": "user", "content": prompt})
            else:
                messages += [wire(one) for one in prompt or ()]
            refused = await _talk(f"{endpoint}/chat/completions", secret, ctx.model, messages,
                                  mcp_urls)  # fmt: skip
            return done(int(bool(refused)), "", refused)

    del v1
    return ChatHarness


async def _talk(
    url: str, secret: str, model: str, messages: list[Any], mcp_urls: Mapping[str, str]
) -> str:
    """Talk until an answer calls no tool; returns what the endpoint said if it refused one."""
    async with AsyncExitStack() as stack:
        tools: dict[str, _Tool] = {}
        for server, address in mcp_urls.items():
            tools |= await _tools_at(server, address, stack)
        body: dict[str, Any] = {"model": model, "messages": messages}
        if tools:
            body["tools"] = [tool.schema for tool in tools.values()]
        limits = aiohttp.ClientTimeout(total=None)
        headers = {"Authorization": f"Bearer {secret}"}
        http = await stack.enter_async_context(
            aiohttp.ClientSession(headers=headers, timeout=limits)
        )
        while True:
            async with http.post(url, json=body) as reply:
                if reply.status != 200:
                    return await reply.text()
                message = (await reply.json())["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return ""
            for call in message["tool_calls"]:
                content = await _called(tools, call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


class _Tool:
    """A tool of a server, with its schema for the model."""

    def __init__(self, session: Any, name: str, tool: Any) -> None:
        self.call = session.call_tool
        self.name = tool.name
        self.schema = {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.description or "",
                # `mcp` 2 has the first name, `mcp` 1 the second.
                "parameters": getattr(tool, "input_schema", None) or tool.inputSchema,
            },
        }


async def _tools_at(server: str, url: str, stack: AsyncExitStack) -> dict[str, _Tool]:
    mcp: Any = importlib.import_module("mcp")
    connect = importlib.import_module("mcp.client.streamable_http").streamable_http_client
    streams = await stack.enter_async_context(connect(url))
    session = await stack.enter_async_context(mcp.ClientSession(streams[0], streams[1]))
    await session.initialize()
    listed = (await session.list_tools()).tools
    names = [f"{server}_{tool.name}" if server else tool.name for tool in listed]
    return {name: _Tool(session, name, tool) for name, tool in zip(names, listed, strict=True)}


async def _called(tools: Mapping[str, _Tool], function: Mapping[str, Any]) -> str:
    tool = tools.get(function["name"])
    if tool is None:
        return f"error: unknown tool {function['name']!r}"
    try:
        arguments = read_arguments(function["arguments"] or "{}")
    except Unreadable as error:
        return f"error: {error}; send the call again with a JSON object as arguments"
    result = await tool.call(tool.name, arguments)
    return "\n".join(getattr(block, "text", str(block)) for block in result.content)
