"""The strong model that writes skills: what it is asked, and what becomes of a bad answer.

A fault is never an empty list of skills: a teacher that cannot be reached teaches nothing, and a
bank must not look as if there had been nothing to learn.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from skillwright.asking import AskFault, Question, ask
from skillwright.bank.teaching.replies import Cited
from skillwright.bank.teaching.transcripts import Evidence, Told, tell
from skillwright.core import (
    ChatModel,
    ConfigError,
    ModelError,
    Provenance,
    Purpose,
    Sampling,
    SkillOrigin,
    did_you_mean,
)
from skillwright.core.fence import attribute
from skillwright.core.seeds import derive_seed
from skillwright.core.together import together
from skillwright.rollout.transcript_text import Cut, estimate_tokens

ReplyT = TypeVar("ReplyT", bound=BaseModel)

NONE: Final = "(none)"

PROMPT_NAMES: Final = (
    "distil_successes",
    "distil_failures",
    "distil_general",
    "distil_place",
    "evolve",
)


class TeacherDown(ModelError):
    """The teacher gave nothing usable, so there is no bank to go on with."""


TeacherFault = AskFault
"""A request that gave nothing usable. It never means that there was nothing to learn."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the teacher.

    Attributes:
        name: Names the call, and seeds it: ``heat.failures.0``.
        prompt: Name of the system prompt.
        sections: What stands above the trajectories, as (heading, text).
        evidence: The trajectories, shown whole as far as the prompt has room.
    """

    name: str
    prompt: str
    sections: tuple[tuple[str, str], ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class TeacherCall:
    """A request as it was sent.

    Attributes:
        name: The request's.
        prompt_digest: The digest of its messages.
        model: Who was asked.
        seed: The sampling seed, or ``None``.
        temperature: The sampling temperature, or ``None`` for the endpoint's own.
        episodes: Keys of the episodes that it was shown.
        cuts: What was left out of them.
    """

    name: str
    prompt_digest: str
    model: str
    seed: int | None
    temperature: float | None
    episodes: tuple[str, ...]
    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True, slots=True)
class TeacherAnswer(Generic[ReplyT]):
    """A reply in the form that was asked for, or the fault in its place."""

    request: Request
    call: TeacherCall
    reply: ReplyT | TeacherFault


@dataclass(frozen=True, slots=True)
class Teacher:
    """A chat model in the role of the teacher.

    Attributes:
        model: Who is asked.
        sampling: How it decodes; the seed is set per request.
        seed: Seeds every request together with its name; ``None`` leaves it to the endpoint.
        max_prompt_tokens: Trajectories are shortened to fit; a prompt that is longer even so is
            not sent (estimated at four characters a token).
        repair_rounds: How often a reply of another form is asked for again.
        max_concurrent: Requests in flight at once.

    Raises:
        ValueError: A number is too low.
    """

    model: ChatModel
    sampling: Sampling = Sampling(max_tokens=8_192)
    seed: int | None = 0
    max_prompt_tokens: int = 60_000
    repair_rounds: int = 1
    max_concurrent: int = 8

    def __post_init__(self) -> None:
        for name, least in (("max_prompt_tokens", 1), ("repair_rounds", 0), ("max_concurrent", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least {least}")

    async def ask_all(
        self, asked: Sequence[tuple[Request, type[BaseModel]]]
    ) -> list[TeacherAnswer[Any]]:
        """Ask several things at once; the answers are in the order of the requests."""
        slots = asyncio.Semaphore(self.max_concurrent)

        async def one(request: Request, reply_type: type[BaseModel]) -> TeacherAnswer[Any]:
            async with slots:
                return await self.ask(request, reply_type)

        return await together(one(request, reply_type) for request, reply_type in asked)

    async def ask(self, request: Request, reply_type: type[ReplyT]) -> TeacherAnswer[ReplyT]:
        """Ask, and return the reply or the fault; a fault leaves other requests alone."""
        system = load_prompt(request.prompt)
        head = user_message(request.sections)
        shown = self._shown(system, head, request.evidence)
        question = Question(
            name=request.name,
            system=system,
            user=f"{head}\n\n{shown.text}" if shown.text else head,
            purpose=Purpose.TEACHER,
            role="teacher",
            if_too_long="Raise it, or show fewer episodes.",
            seed=None if self.seed is None else derive_seed("teacher", self.seed, request.name),
        )
        answer = await ask(self, question, reply_type)
        call = TeacherCall(
            name=request.name,
            prompt_digest=answer.prompt_digest,
            model=self.model.identity,
            seed=question.seed,
            temperature=self.sampling.temperature,
            episodes=tuple(one.key for one in request.evidence),
            cuts=shown.cuts,
        )
        return TeacherAnswer(request, call, answer.reply)

    def _shown(self, system: str, head: str, evidence: Sequence[Evidence]) -> Told:
        used = estimate_tokens(system) + estimate_tokens(head)
        # The headings of two groups, and rounding up.
        return tell(evidence, self.max_prompt_tokens - used - 32)


def load_prompt(name: str) -> str:
    """Return one of the teacher's system prompts.

    Raises:
        ConfigError: There is no such prompt; the message names the nearest.
    """
    if name not in PROMPT_NAMES:
        raise ConfigError(
            f"there is no teacher prompt {name!r}. {did_you_mean(name, PROMPT_NAMES)}"
        )
    file = resources.files("skillwright.bank") / "prompts" / f"{name}.md"
    return file.read_text(encoding="utf-8").strip()


def user_message(sections: Sequence[tuple[str, str]]) -> str:
    """Put headed sections below each other; an empty one says `NONE`."""
    return "\n\n".join(f"## {heading}\n{body or NONE}" for heading, body in sections)


def provenance_of(
    answer: TeacherAnswer[Any],
    name: str | None,
    cited: Sequence[Cited],
    origin: SkillOrigin,
    step: int | None,
) -> tuple[Provenance, list[str]]:
    """Return the evidence that a reply cites, and a note where some of it was never shown.

    A reply that cites nothing that was shown has all that was shown for its evidence.
    """
    shown = {one.id: one for one in answer.request.evidence}
    known = [item for item in cited if attribute(item.id) in shown]
    unknown = [item.id[:80] for item in cited if attribute(item.id) not in shown]
    said = f"{name!r} cites trajectories that were not shown: {', '.join(map(repr, unknown))}"
    episodes: dict[str, None] = {}
    turns: dict[tuple[str, int], None] = {}
    for item in known:
        one = shown[attribute(item.id)]
        seen = {line.turn for line in one.transcript.lines}
        episodes[one.key] = None
        turns |= {(one.key, turn): None for turn in item.turns if turn in seen}
    provenance = Provenance(
        origin=origin,
        episodes=tuple(episodes) or answer.call.episodes,
        turns=tuple(turns),
        prompt_digest=answer.call.prompt_digest,
        model=answer.call.model,
        step=step,
    )
    return provenance, [said] if unknown else []


def refuse_dead_teacher(faults: Sequence[TeacherFault], calls: int) -> None:
    """Stop where every request failed: that is no lesson, and no empty bank either.

    Raises:
        TeacherDown: All of ``calls``, at least one, gave nothing usable.
    """
    if faults and len(faults) == calls:
        raise TeacherDown(
            f"all {calls} requests to the teacher failed; the latest: {faults[-1].failure.message}"
        )
