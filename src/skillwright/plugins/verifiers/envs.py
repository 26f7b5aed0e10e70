"""Environments of `verifiers` in our engine; `export` is the opposite direction.

An environment of verifiers drives its agent by asking a client for the next message. Our client
passes each request to our agent and waits for its answer; rewards, tools and conversation stay
those of the environment.

Source: verifiers 0.1.14 to 0.4 (PrimeIntellect-ai/verifiers).
"""

import asyncio
import importlib.metadata
import logging
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

from skillwright.core import DataError, EnvError, Message, Task, ToolCall, Trajectory
from skillwright.core.jsonio import canonical, read_text, text_digest
from skillwright.datasets import parse_ratio
from skillwright.envs import StepOutput, TextEnv
from skillwright.envs.about import TaskSplits
from skillwright.plugins.verifiers.loading import loaded
from skillwright.plugins.verifiers.rollouts import Loaded
from skillwright.plugins.verifiers.tasksets import Taskset
from skillwright.plugins.verifiers.words import PREFIX

_OWN_KEYS: Final = ("seed", "max_turns")  # of an episode, not of a row
_MOST_TASKS: Final = 50_000
_SHOWN_CHARS: Final = 300
_SCORE: Final = "verifiers_score"
_SILENCE: Final = "(The environment adds nothing.)"

_Answer = tuple[str, Sequence[ToolCall]] | None

logger = logging.getLogger(__name__)


class VerifiersEnv(TextEnv):
    """An environment of verifiers, unchanged, for our engine.

    Its reward is clipped to [0, 1]; the metadata of the last turn has the original one, with the
    rubric's metrics. A rubric or a tool server that raises is an `EnvError`, where verifiers itself
    would score 0. The cost of its own judges is not counted.

    Args:
        env_config: Arguments of its ``load_environment()``, or settings of its taskset and Env.
        extras: A row of its data set: ``prompt``, ``answer``, ``info`` and so on.

    Raises:
        DataError: verifiers or the environment is not installed, it refuses its arguments, it
            scores rollouts only in groups, or the row has no prompt.
    """

    verifiers_name: ClassVar[str] = ""

    def __init__(
        self, env_config: object | None = None, extras: dict[str, Any] | None = None
    ) -> None:
        super().__init__(env_config, extras)
        self._theirs = loaded(self.verifiers_name, env_config)
        row = {key: value for key, value in self.extras.items() if key not in _OWN_KEYS}
        self._row = self._theirs.as_row(row)
        self._asked: asyncio.Queue[_Question] = asyncio.Queue()
        self._question: _Question | None = None
        self._rollout: asyncio.Task[Mapping[str, Any]] | None = None
        self._seen: list[Message] = []
        self._score: Mapping[str, Any] = {}
        self._recorded: Mapping[str, Any] | None = None

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Return the first rows of its default data set."""
        rows = loaded(cls.verifiers_name, None).sets()[0]
        return [_plain(rows[at]) for at in range(min(3, len(rows)))]

    @classmethod
    def find_tasks(cls, data: Mapping[str, Any], env_config: object | None = None) -> TaskSplits:
        """Return rows of the data set; test is its eval set, if it has a separate one."""
        return _Rows(f"{PREFIX}:{cls.verifiers_name}", loaded(cls.verifiers_name, env_config)).deal(
            data
        )

    @classmethod
    def identity(cls, env_config: object | None = None) -> dict[str, Any]:
        """Return its versions, and a digest if it is a single file."""
        del env_config
        name, own = cls.verifiers_name, {}
        if name.endswith(".py"):
            own = {"file": text_digest(read_text(Path(name), "environment"))}
        else:
            with suppress(importlib.metadata.PackageNotFoundError):
                own = {"version": importlib.metadata.version(name.rpartition("/")[2])}
        return {PREFIX: importlib.metadata.version("verifiers"), **own}

    def native_tools(self) -> Sequence[dict[str, Any]]:
        """Return the row's tools, or else the environment's."""
        return _tools(self._theirs.tool_defs(self._row))

    def use_record(self, record: Trajectory, turns: int | None = None) -> None:
        """Take a whole episode's score from a record, if it comes from a judge."""
        if turns is None and record.turns and self._theirs.asks_judge:
            self._recorded = record.turns[-1].metadata.get(_SCORE)

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Raise an error, because a rollout of verifiers needs an event loop."""
        raise EnvError("an environment of verifiers is awaited: call ainit() and astep()")

    def step(self, action: str) -> StepOutput:
        """Raise an error, like `init`."""
        raise EnvError("an environment of verifiers is awaited: call ainit() and astep()")

    async def ainit(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the rollout, whose first request opens the conversation."""
        self._rollout = asyncio.create_task(self._roll_out())
        self._rollout.add_done_callback(lambda task: task.cancelled() or task.exception())
        asked = await self._next()
        if asked is None:
            raise EnvError(f"{self._name} ended before it asked anything")
        self._seen = asked.messages
        return [*prompt, *asked.messages], {"observation": asked.messages[-1]["content"]}

    async def astep(self, action: str) -> StepOutput:
        """Answer the rollout's request with a text."""
        return await self._answer(action, ())

    async def astep_native(self, said: str, calls: Sequence[ToolCall]) -> StepOutput:
        """Answer the rollout's request with a text, with calls, or both."""
        return await self._answer(said, calls)

    def close(self) -> None:
        """Stop a running rollout. Closing twice is allowed."""
        if self._rollout is not None and not self._rollout.done():
            with suppress(RuntimeError):  # its event loop is closed
                self._rollout.cancel()

    def get_metrics(self) -> dict[str, float]:
        """Return the rubric's metrics by name."""
        metrics: Mapping[str, Any] = self._score.get("metrics") or {}
        return {name: float(n) for name, n in metrics.items() if math.isfinite(n)}

    @property
    def _name(self) -> str:
        return f"{PREFIX}:{self.verifiers_name}"

    async def _answer(self, spoken: str, calls: Sequence[ToolCall]) -> StepOutput:
        if self._question is None:
            raise EnvError(f"{self._name} asked nothing: the episode is over, or not begun")
        self.turns += 1
        act: Message = {"role": "assistant", "content": spoken}
        question, self._question = self._question, None
        question.reply.set_result((spoken, calls))
        asked = await self._next()
        if asked is None and self._score.get("cut"):
            return self.reply(self._verdict(), reward=self._share(), metadata=self._about())
        if asked is None:
            return self.finish(self._verdict(), reward=self._share(), metadata=self._about())
        news = self._news([*self._seen, act], asked.messages)
        self._seen = asked.messages
        if self.turns < self.max_turns:
            shown = self.reply("\n\n".join(one["content"] for one in news))
            return {**shown, "observations": news}
        return await self._cut_off(news)

    async def _cut_off(self, news: Sequence[Message]) -> StepOutput:
        """End the rollout at the turn limit as if the context were full, so that it is scored."""
        if self._question is not None:
            self._question.reply.set_result(None)
        while await self._next() is not None:
            raise EnvError(f"{self._name} asked on after its last turn")
        last = self.reply(self._verdict(), reward=self._share(), metadata=self._about())
        return {**last, "observations": [*news, *last["observations"]]}

    def _news(self, known: Sequence[Message], now: Sequence[Message]) -> list[Message]:
        """Return the new messages; raise an error if earlier messages were changed."""
        for then, again in zip(known, now, strict=False):
            same = then["role"] == again["role"]
            if not same or (then["role"] != "assistant" and then["content"] != again["content"]):
                raise EnvError(
                    f"{self._name} rewrites its conversation, which our agents only read on; such "
                    "environments run in verifiers alone"
                )
        if len(now) < len(known):
            raise EnvError(f"{self._name} shortens its conversation")
        return list(now[len(known) :]) or [{"role": "user", "content": _SILENCE}]

    async def _next(self) -> "_Question | None":
        """Wait for the next request; ``None`` when the rollout is scored."""
        if self._rollout is None:
            raise EnvError(f"{self._name} was not begun")
        waits = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait({waits, self._rollout}, return_when="FIRST_COMPLETED")
        finally:
            if not waits.done():
                waits.cancel()
        if waits.done() and not waits.cancelled():
            self._question = waits.result()
            return self._question
        self._score = self._rollout.result()
        return None

    async def _ask(self, prompt: Any, tools: Any) -> tuple[str, Sequence[ToolCall]] | None:
        """Act as the rollout's client: pass on a request, and wait for the agent's answer."""
        offered, now = (
            {_tool_name(one) for one in listed} for listed in (self.native_tools(), _tools(tools))
        )
        if offered != now:
            raise EnvError(f"{self._name} offers other tools in an episode than before it")
        reply: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._asked.put_nowait(_Question([_read(one) for one in prompt], reply))
        return await reply

    async def _roll_out(self) -> Mapping[str, Any]:
        recorded = self._recorded
        score = await self._theirs.play(
            self._row, self._ask, max_turns=self.max_turns, recorded=recorded
        )
        if not math.isfinite(score["reward"]):
            raise EnvError(f"{self._name} gave {score['reward']} as a reward")
        return score

    def _share(self) -> float:
        reward = float(self._score["reward"])
        if not 0 <= reward <= 1:
            _warn_once(self._name)
        return min(max(reward, 0.0), 1.0)

    def _about(self) -> dict[str, Any]:
        return {_SCORE: dict(self._score)}

    def _verdict(self) -> str:
        """Describe the score, for analysts."""
        parts = ", ".join(f"{name} {n:g}" for name, n in self._score["metrics"].items())
        return f"The rubric's reward is {self._score['reward']:g} ({parts})."


@dataclass(frozen=True, slots=True)
class _Question:
    """A request of a rollout to its model, with the future for the answer."""

    messages: list[Message]
    reply: "asyncio.Future[_Answer]"


@cache
def env_of(name: str) -> type[VerifiersEnv]:
    """Return the class behind ``verifiers:<name>``."""
    members = {"verifiers_name": name, "__module__": __name__}
    return type(f"VerifiersEnv_{name}", (VerifiersEnv,), members)


@cache
def _warn_once(name: str) -> None:
    logger.warning(
        "%s gives rewards outside [0, 1]; they are cut to it, and %s in the metadata has them as "
        "they came",
        name,
        _SCORE,
    )


# Conversion of messages, tools and answers.


def _read(message: Any) -> Message:
    """Convert a message; unsupported content is an `EnvError`."""
    given = message if isinstance(message, Mapping) else message.model_dump(exclude_none=True)
    read = Message(role=str(given["role"]), content=_text(given.get("content")))
    if given.get("tool_call_id"):
        read["tool_call_id"] = str(given["tool_call_id"])
    return read


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part for part in content if part.get("type") == "text"]
    if len(parts) < len(content):
        raise EnvError("this environment shows pictures, and our agents read text")
    return "\n".join(str(part["text"]) for part in parts)


def _tools(defined: Any) -> list[dict[str, Any]]:
    read = [one if isinstance(one, Mapping) else one.model_dump() for one in defined or ()]
    return [
        {
            "type": "function",
            "function": {key: one.get(key) or {} for key in _TOOL_KEYS}
            | {"description": one.get("description") or ""},
        }
        for one in read
    ]


_TOOL_KEYS: Final = ("name", "description", "parameters")


def _tool_name(tool: Mapping[str, Any]) -> str:
    return str(tool["function"]["name"])


# Tasks from rows of data sets.


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Distributes rows over splits, deterministically."""

    env_name: str
    loaded: Loaded | Taskset

    def deal(self, data: Mapping[str, Any]) -> TaskSplits:
        first, evaluated = self.loaded.sets()
        order = list(range(len(first)))
        random.Random(data["seed"]).shuffle(order)
        shares = parse_ratio(data["ratio"])
        cut = sum(shares[:2]) if evaluated is not None else sum(shares)
        ends = [len(order) * sum(shares[:n]) // cut for n in (1, 2)]
        cuts = {
            "train": order[: ends[0]],
            "val": order[ends[0] : ends[1]],
            "test": order[ends[1] :],
        }
        taken: dict[str, list[Task]] = {}
        asked: set[str] = set()
        for split in ("test", "val", "train"):  # a repeated prompt stays in the first of these
            rows, places = first, cuts[split]
            if split == "test" and evaluated is not None:
                rows, places = evaluated, list(range(len(evaluated)))
            taken[split] = list(self._tasks(split, rows, places, data[split], asked))
        empty = [split for split in cuts if not taken[split]]
        if empty:
            sizes = f"{len(first)} rows" + (f" and {len(evaluated)} eval rows" if evaluated else "")
            raise DataError(
                f"{self.env_name} has {sizes}, and none is left for {empty[0]}; set another "
                "env.data.ratio, or load more rows by env.config"
            )
        return taken["train"], taken["val"], taken["test"]

    def _tasks(
        self, split: str, rows: Any, places: Iterable[int], most: int | None, asked: set[str]
    ) -> Iterator[Task]:
        left = _MOST_TASKS if most is None else most
        for place in places:
            if not left:
                return
            row = _plain(rows[place])
            try:
                question = text_digest(canonical([row.get("prompt"), row.get("info")]))
                canonical(row)
            except (TypeError, ValueError) as error:
                raise DataError(
                    f"{self.env_name}, row {place}: {error}; it cannot be stored"
                ) from error
            if question in asked:
                continue
            asked.add(question)
            left -= 1
            info = row.get("info")
            route = info.get("env_id") if isinstance(info, Mapping) else None  # of an EnvGroup
            kind = route or row.get("task")
            last = _read(row["prompt"][-1])["content"] if isinstance(row["prompt"], list) else ""
            yield Task(
                id=f"{split}-{place}",
                env=self.env_name,
                extras=row,
                task_type=kind if isinstance(kind, str) and kind != "default" else "",
                description=last[:_SHOWN_CHARS],
                split=split,
            )
