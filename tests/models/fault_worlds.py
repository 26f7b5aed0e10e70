"""A small training run with every stage, over models behind each dialect, and faults by stage.

Which stage a request belongs to is in its words: train, val and test have rooms of their own,
and the optimizer's questions have headings of their own.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

import mock_anthropic
import mock_openai
import mock_responses
from doors import Veteran, Walker, doors_config, rule
from mock_endpoint import Body, MockEndpoint
from mock_openai import Fault, completion, empty_choices, hold, raw, reset, status, truncated
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import Run, TrainReport, open_run, run_training, start_run
from skillwright.models import make_model

KEY = "sk-canary-4711"
ROOMS = {"train": ("attic", 4), "val": ("hall", 6), "test": ("loft", 2)}
RULES = [rule(*room) for room in ROOMS.values()]
PLAN = [[RULES[1], RULES[2]], [RULES[0], "Be quick."]]
STAGES = ("rollout", "gate", "analyst", "merge", "ranking", "slow_update", "meta_skill", "test")
_ROOM_STAGES = {"attic": "rollout", "hall": "gate", "loft": "test"}
_HEADINGS = {
    "## Previous guidance": "slow_update",
    "## Previous notes": "meta_skill",
    "## Trajectories": "analyst",
    "## Patches": "merge",
}


class MockAzure(MockEndpoint):
    """Azure's v1 route with Azure's own header."""

    route = "/openai/v1/chat/completions"

    def error(self, status: int, message: str, **fields: Any) -> web.Response:
        return mock_openai.error(status, message, **fields)

    def refusal(self, request: web.Request, body: Body) -> web.Response | None:
        del body
        if request.headers.get("api-key") == self.api_key:
            return None
        return self.error(401, "Access denied due to invalid subscription key.", code="401")

    async def respond(self, request: web.Request, body: Body, answer: Any) -> web.StreamResponse:
        del request, body
        return web.json_response(answer)


class World(NamedTuple):
    """A dialect: its server, what answers there, its settings, and how it words what it refuses."""

    server: Any
    mock: Any
    settings: dict[str, Any]
    no_quota: Fault
    blocked: Fault
    overflow: Fault
    nothing: Fault


def _json(payload: dict[str, Any], status_code: int = 200) -> Fault:
    return raw(json.dumps(payload).encode(), status_code=status_code)


def _minimax(code: int, words: str) -> Fault:
    return _json({"base_resp": {"status_code": code, "status_msg": words}})


_QUOTA = status(429, "You exceeded your current quota.", code="insufficient_quota")
_LONG = status(400, "This model's maximum context length is 9 tokens.", code="whatever")
_OPENAI = (
    _QUOTA,
    status(400, "Invalid prompt.", code="invalid_prompt"),
    _LONG,
    empty_choices(),
)
_AZURE = (
    status(429, "You exceeded your current quota.", kind="insufficient_quota"),
    status(400, "The prompt triggered the content policy.", code="content_filter"),
    _LONG,
    empty_choices(),
)
_QWEN = (
    _QUOTA,
    status(400, "Output data may contain inappropriate content.", code="data_inspection_failed"),
    status(400, "Range of input length should be [1, 9].", code="invalid_parameter_error"),
    empty_choices(),
)
_RESPONSES = (
    _QUOTA,
    _json(
        mock_responses.response(status="failed", error={"code": "invalid_prompt", "message": "no"})
    ),
    status(400, "Your input exceeds the window.", code="context_length_exceeded"),
    _json(mock_responses.response()),
)
_CLAUDE = (
    mock_anthropic.claude_status(
        429, "Limit reached.", details={"error_code": "enforced_spend_limit_reached"}
    ),
    _json(mock_anthropic.message(stop_reason="refusal")),
    mock_anthropic.claude_status(400, "prompt is too long: 9 tokens > 8 maximum"),
    _json(mock_anthropic.message(stop_reason=None)),
)
_MINIMAX = (
    _minimax(1008, "insufficient balance"),
    _minimax(1026, "input sensitive"),
    _minimax(2013, "context window exceeds limit"),
    _json(completion(None) | {"choices": None}),
)

_SILENCE: Mapping[Any, Body] = {
    mock_openai: completion(""),
    mock_responses: mock_responses.response(mock_responses.say("")),
    mock_anthropic: mock_anthropic.message(""),
}

_chat = mock_openai.MockOpenAI
WORLDS: Mapping[str, World] = {
    "openai_chat": World(_chat, mock_openai, {"backend": "openai_chat"}, *_OPENAI),
    "responses": World(
        mock_responses.MockResponses,
        mock_responses,
        {"backend": "openai_chat", "transport": "responses"},
        *_RESPONSES,
    ),
    "azure": World(MockAzure, mock_openai, {"backend": "openai_chat", "server": "azure"}, *_AZURE),
    "claude_chat": World(
        mock_anthropic.MockAnthropic, mock_anthropic, {"backend": "claude_chat"}, *_CLAUDE
    ),
    "qwen_chat": World(_chat, mock_openai, {"backend": "qwen_chat"}, *_QWEN),
    "minimax_chat": World(_chat, mock_openai, {"backend": "minimax_chat"}, *_MINIMAX),
}

PASSING: Mapping[str, Callable[[World], Fault]] = {
    "rate limit": lambda world: status(429, "slow down", retry_after="1"),
    "server error": lambda world: status(500),
    "unavailable": lambda world: status(503),
    "overloaded": lambda world: status(529, kind="overloaded_error"),
    "time-out": lambda world: hold(asyncio.Event()),
    "reset": lambda world: reset(),
    "half an answer": lambda world: truncated(),
    "half of the JSON": lambda world: raw(b'{"id": "x", "choices": [{"index'),
    "nothing in it": lambda world: world.nothing,
}
FATAL: Mapping[str, Callable[[World], Fault]] = {
    "wrong key": lambda world: status(401, "no such key"),
    "no quota": lambda world: world.no_quota,
}
ALONE: Mapping[str, Callable[[World], Fault]] = {
    "context overflow": lambda world: world.overflow,
    "refused content": lambda world: world.blocked,
    "empty answer": lambda world: _json(_SILENCE[world.mock]),
}


class Storm:
    """Lets requests of the named stages meet a fault.

    Args:
        fault: What they meet.
        stages: Which.
        times: How often one question of each stage meets it; ``None``: all questions, always.

    Attributes:
        met: How many met it, by stage.
    """

    def __init__(self, fault: Fault, stages: Collection[str], times: int | None = 1) -> None:
        self.met: Counter[str] = Counter()
        self._fault = fault
        self._stages = frozenset(stages)
        self._times = times
        self._questions: dict[str, str] = {}

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        body = await request.json()
        stage = stage_of(body)
        if stage not in self._stages or self._is_spared(stage, _question(body)):
            return None
        self.met[stage] += 1
        return await self._fault(request)

    def _is_spared(self, stage: str, question: str) -> bool:
        if self._times is None:
            return False
        chosen = self._questions.setdefault(stage, question)
        return question != chosen or self.met[stage] >= self._times


def _question(body: Body) -> str:
    """Return what a request asks, which stays the same when it is asked again with a complaint."""
    system, turns = body.get("system"), body.get("messages") or body["input"]
    return json.dumps([system, turns[: 1 if system else 2]])


def stage_of(body: Body) -> str:
    """Tell which stage a request belongs to."""
    said = json.dumps(body)
    if body["model"] == "walker":
        return next(stage for room, stage in _ROOM_STAGES.items() if f"in the {room}." in said)
    return next((stage for heading, stage in _HEADINGS.items() if heading in said), "ranking")


def write_rooms(folder: Path) -> Path:
    """Write the tasks: each split has a room of its own."""
    for split, (room, door) in ROOMS.items():
        items = [
            {"id": f"{split}-{index}", "task_type": room, "room": room, "door": door}
            for index in range(6 if split == "train" else 4)
        ]
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / "items.json").write_text(json.dumps(items), encoding="utf-8")
    return folder


class _Time:
    """Passes only when somebody waits, and then at once."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


class Named:
    """A model whose identity does not tell the port of its server, as each run here has its own."""

    def __init__(self, model: Any) -> None:
        self.identity = model.identity.partition("@")[0]
        self.complete = model.complete


class Trainer:
    """Trains in a folder against a server of a dialect, and continues after a stop."""

    def __init__(self, folder: Path, dialect: str, **settings: Any) -> None:
        self.path = folder / "runs" / "doors"
        self._folder = folder
        self._world = WORLDS[dialect]
        self._settings = settings

    async def train(self, storm: Storm | None = None) -> TrainReport:
        """Train from where the run stands."""
        llms = {"walker": Walker(), "coach": Veteran(PLAN, "Look twice.")}
        world = self._world
        async with world.server(world.mock.answer_with(llms), api_key=KEY) as server:
            if storm is not None:
                server.next(*[storm] * 9999)
            # A run keeps its endpoint's address, and every server here has another.
            address, time = server.base_url, _Time()

            def make(config: Any, client: Any) -> Any:
                here = {"base_url": address, "api_key": KEY}
                settings = type(config)(**{**config.model_dump(), **here})
                return Named(make_model(settings, client, sleep=time.sleep, clock=time))

            with self._opened() as run:
                return await run_training(run, NullCallback(), make)

    def _opened(self) -> Run:
        if self.path.is_dir():
            return open_run(self.path)
        self._folder.mkdir(parents=True, exist_ok=True)
        known = {"base_url": "http://127.0.0.1:1/v1", "api_key": KEY} | self._world.settings
        roles = {"target": "walker", "optimizer": "coach"}
        config = doors_config(
            self._folder,
            models={
                role: {**known, **self._settings, "model": name} for role, name in roles.items()
            },
            env={
                "max_turns": 1,
                "data": {
                    "kind": "split_dir",
                    "path": str(write_rooms(self._folder / "rooms")),
                },
            },
            train={"epochs": 2, "batch_size": 6},
            gradient={"minibatch_size": 3, "analyst_budget": "initial"},
            optimizer={"learning_rate": 2, "min_learning_rate": 1, "lr_scheduler": "linear"},
            evaluation={"gate": {"kind": "strict"}},
        )
        return start_run(config, "")
