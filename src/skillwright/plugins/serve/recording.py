"""Conversations of clients as episodes of a run, from which `bank distill` learns.

A request continues the conversation whose last request and answer it repeats; system texts may
differ. A conversation has no reward until `Conversations.judge`; an unjudged one is stored as a
failure and teaches nothing.
"""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import yaml

from skillwright.core import (
    Act,
    Completion,
    DataError,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Message,
    SkillContext,
    StopReason,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.loopback import new_token
from skillwright.core.secrets import environment_secrets, redact
from skillwright.jobs.run import SERVE, make_run
from skillwright.models.http.client import encode
from skillwright.plugins.serve.dialects import OPENAI, SYSTEM, category_in

PHASE: Final = "served"
_MOST_OPEN: Final = 1_000
_MOST_CHARS: Final = 64_000_000
_DESCRIBED: Final = 500
_UNJUDGED: Final = "this conversation was not judged"

T = TypeVar("T")


class NoConversation(DataError):
    """There is no such conversation, or it was judged already."""


class Exchanged(NamedTuple):
    """A request and its answer.

    Attributes:
        sent: The request.
        reply: New messages of the request.
        skill: Injected skills.
        said: The answer.
    """

    sent: tuple[Message, ...]
    reply: tuple[Message, ...]
    skill: str
    said: Completion


@dataclass(slots=True)
class Conversation:
    """A conversation of a client with a model.

    Attributes:
        id: Name for judging it.
        exchanges: In order of the answers.
        skills: Skills injected last.
        chars: Size; repeated messages count once.
        tail: Digest of the last request; ``b""`` if the client named the conversation.
    """

    id: str
    exchanges: list[Exchanged] = field(default_factory=list)
    skills: SkillContext = field(default_factory=lambda: SkillContext(""))
    chars: int = 0
    tail: bytes = b""

    @property
    def sent(self) -> tuple[Message, ...]:
        """The last request."""
        return self.exchanges[-1].sent if self.exchanges else ()

    def episode(self, env: str, reward: float | None) -> EpisodeResult:
        """Return it as an episode; a ``reward`` of ``None`` is unjudged."""
        asked = (one["content"] for one in self.exchanges[0].sent if one["role"] == "user")
        opening = str(redact("\n\n".join(asked)))
        judged = reward is not None
        category = category_in(opening, env)
        task = Task(self.id, env, {}, category, opening[:_DESCRIBED], split="train")
        return EpisodeResult(
            EpisodeSpec(task, seed=0, phase=PHASE),
            reward=reward,
            failure=None if judged else Failure(FailureCause.JUDGE, _UNJUDGED),
            stop_reason=StopReason.DONE if judged else StopReason.FAILURE,
            trajectory=Trajectory(opening, tuple(self._turns())),
            skill_version=self.skills.version,
            skill_ids=self.skills.skill_ids,
            skill_scores=self.skills.scores,
            key=f"{PHASE}:{self.id}",
        )

    def _turns(self) -> Iterator[Turn]:
        replies = [one.reply for one in self.exchanges[1:]]
        shown = _Shown()
        for index, one in enumerate(self.exchanges):
            act = Act.of(one.said, offered_tools=bool(one.said.tool_calls))
            reply = [
                shown.clean(message) for message in (replies[index] if index < len(replies) else ())
            ]
            yield Turn(
                index,
                shown.prompt(one),
                _without_secrets(act),
                "\n\n".join(message["content"] for message in reply),
                0.0,
                messages=tuple(reply),
            )


class _Shown:
    """Prompts without secrets; each message is searched and stored once."""

    def __init__(self) -> None:
        self._clean: dict[int, Message] = {}
        self._heads: dict[tuple[int, str], Message] = {}

    def clean(self, message: Message) -> Message:
        """Return a message without secrets."""
        known = self._clean.get(id(message))
        if known is None:
            known = self._clean[id(message)] = redact(message)
        return known

    def prompt(self, one: Exchanged) -> tuple[Message, ...]:
        """Return the model's prompt."""
        messages = tuple(map(self.clean, one.sent))
        if not one.skill:
            return messages
        body = OPENAI.with_skill({"messages": list(messages)}, one.skill)
        return tuple(
            self._heads.setdefault((id(one.sent[0]), one.skill), message)
            if message["role"] in SYSTEM
            else message
            for message in body["messages"]
        )


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request in progress, and its conversation."""

    conversation: Conversation
    sent: tuple[Message, ...]
    reply: tuple[Message, ...]
    tail: bytes


class Conversations:
    """The conversations of a server, and the run that stores them.

    It belongs to one event loop; the store has a thread of its own.

    Args:
        root: Folder of runs.
        name: Name of the run; a number is appended if it is taken.
        env: Environment whose rules determine task categories, or "".
        facts: Configuration of the run.
        secrets: Texts that must not be stored.
    """

    def __init__(
        self, root: Path, name: str, env: str, facts: dict[str, Any], secrets: Sequence[str] = ()
    ) -> None:
        self._env = env
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._tails: defaultdict[bytes, list[Conversation]] = defaultdict(list)
        self._chars = 0
        self._writer = ThreadPoolExecutor(1, "conversations")
        config = yaml.safe_dump({"run": {"name": name, "root": str(root)}, "serve": facts})
        known = [*environment_secrets(), *filter(None, secrets)]
        # A store belongs to the thread that opened it.
        made = self._writer.submit(make_run, root, name, config, known, lambda *_: {"job": SERVE})
        self._folder, self._store = made.result()

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    def begin(self, sent: tuple[Message, ...], name: str = "") -> Exchange:
        """Find the conversation of a request by its name or its messages, or begin one."""
        known, tail = (self._open.get(name), b"") if name else self._continued(sent)
        one = known or Conversation(name or new_token())
        same = _same(one.sent, sent)
        # Messages shared with the last request keep a long conversation small.
        old = [was if was == now else now for was, now in zip(one.sent, sent[:same], strict=False)]
        reply = tuple(message for message in sent[same:] if message["role"] != "assistant")
        return Exchange(one, (*old, *sent[same:]), reply, tail)

    async def answered(self, exchange: Exchange, skills: SkillContext, said: Completion) -> None:
        """Add an answer to its conversation; store the oldest ones above the limit."""
        one = exchange.conversation
        one.exchanges.append(Exchanged(exchange.sent, exchange.reply, skills.text, said))
        one.skills = skills
        grown = len(said.text) + sum(len(message["content"]) for message in exchange.reply)
        one.chars += grown
        self._chars += grown
        self._forget(one)
        one.tail = exchange.tail
        if one.tail:
            self._tails[one.tail].append(one)
        self._open[one.id] = one
        self._open.move_to_end(one.id)
        while len(self._open) > _MOST_OPEN or self._chars > _MOST_CHARS:
            await self._store_oldest()

    async def judge(self, name: str, reward: float) -> Conversation:
        """Store a conversation with a reward from 0 to 1; the name "" is the last answered one.

        After a `RunError` it can be judged again.
        """
        known = name or next(reversed(self._open), "")
        one = self._open.get(known)
        if one is None:
            which = f"conversation {name!r}" if name else "conversation"
            raise NoConversation(
                f"no {which} waits to be judged: it has no answer yet, was judged already, or was "
                "put away because others came; ids are in the answers' header x-skillwright-episode"
            )
        await self._write(one, reward)
        return one

    async def close(self) -> None:
        """Store unjudged conversations, and close the run."""
        try:
            while self._open:
                await self._store_oldest()
        finally:
            await self._in_writer(self._store.close)
            self._folder.close()
            self._writer.shutdown()

    async def _store_oldest(self) -> None:
        one = next(iter(self._open.values()))
        self._drop(one)  # also after an error, which would otherwise repeat forever
        await self._write(one, None)

    async def _write(self, one: Conversation, reward: float | None) -> None:
        # A copy: it may be continued while the other thread reads it.
        fixed = replace(one, exchanges=list(one.exchanges))
        await self._in_writer(lambda: self._store.record_episode(fixed.episode(self._env, reward)))
        self._drop(one)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    def _drop(self, one: Conversation) -> None:
        if self._open.pop(one.id, None) is not None:
            self._chars -= one.chars
            self._forget(one)

    def _forget(self, one: Conversation) -> None:
        """Remove a conversation from the index by last request."""
        if one.tail and one in (same := self._tails[one.tail]):
            same.remove(one)
            if not same:
                del self._tails[one.tail]

    def _continued(self, sent: Sequence[Message]) -> tuple[Conversation | None, bytes]:
        """Return the conversation that a request continues, and the digest of the request."""
        found, said = None, blake2b(digest_size=16)
        for message in sent:
            if message["role"] == "assistant":
                found = _of_answer(self._tails.get(said.digest(), ()), message) or found
            if message["role"] not in SYSTEM:
                said.update(encode(message))
        return found, said.digest()


def _of_answer(asked: Sequence[Conversation], said: Message) -> Conversation | None:
    """Return the one of equal requests with this answer, which clients may shorten."""
    text = said["content"].strip()
    equal = [one for one in asked if one.exchanges[-1].said.text.strip() == text]
    return next(iter(equal or (asked if len(asked) == 1 else ())), None)


def _same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """Count the equal messages at the start of both; system texts may differ."""
    for index, (was, is_) in enumerate(zip(before, now, strict=False)):
        if was != is_ and not {was["role"], is_["role"]} <= SYSTEM:
            return index
    return min(len(before), len(now))


def _without_secrets(act: Act) -> Act:
    calls = tuple(
        type(call)(call.id, call.name, str(redact(call.arguments))) for call in act.tool_calls
    )
    return Act(str(redact(act.text)), act.usage, finish_reason=act.finish_reason, tool_calls=calls)
