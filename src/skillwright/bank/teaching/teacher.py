"""Ask the teacher model for skills, and handle invalid replies.

A failed request is never treated as an empty list of skills: it would look as if there had been
nothing to learn.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from skillwright.asking import AskFault, Question, ask
from skillwright.core import (
    ChatModel,
    ConfigError,
    Counterfactual,
    EpisodeResult,
    ModelError,
    Provenance,
    Purpose,
    Sampling,
    SkillKind,
    SkillOrigin,
    Task,
    did_you_mean,
)
from skillwright.core.concurrency import together
from skillwright.core.fence import attribute, plain_text
from skillwright.core.seeds import derive_seed
from skillwright.models.repairs import restored_latex
from skillwright.models.shapes import LENIENT, NOT_MEANT, has_nothing, operation_group
from skillwright.rollout.transcript import (
    Cut,
    Skipped,
    Transcript,
    estimate_tokens,
    read_episodes,
    render_trajectories,
)

MOST_WORDS = 5
MOST_CHARACTERS = {"principle": 400, "other": 300}


def _short_name(name: str) -> str:
    words = len(name.split())
    if words > MOST_WORDS:
        raise ValueError(f"a name has 1 to {MOST_WORDS} words, not {words}")
    if "\n" in name or ":" in name:
        raise ValueError("a name stands on one line and has no colon")
    return name


def _on_one_line(text: str) -> str:
    return " ".join(plain_text(restored_latex(text)).split())


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=60),
    AfterValidator(_short_name),
]
Principle = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_CHARACTERS["principle"]),
    AfterValidator(_on_one_line),
]
Words = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_CHARACTERS["other"]),
    AfterValidator(_on_one_line),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class Cited(_Strict):
    """A trajectory and the relevant turns of it."""

    id: str
    turns: list[int] = []

    @model_validator(mode="before")
    @classmethod
    def _bare_id(cls, value: Any, info: ValidationInfo) -> Any:
        if info.context is LENIENT and isinstance(value, str):
            return {"id": value}
        if info.context is LENIENT and isinstance(value, dict) and type(value.get("turns")) is int:
            return {**value, "turns": [value["turns"]]}
        return value


class SkillReply(_Strict):
    """A principle and its applicability."""

    name: Name
    principle: Principle
    applicability: Words
    evidence: Annotated[list[Cited], Field(min_length=1)]


class LessonReply(SkillReply):
    """A lesson from a failure; the principle prevents it."""

    failure_point: Words
    flawed_reasoning: Words
    corrective_action: Words

    @property
    def counterfactual(self) -> Counterfactual:
        """The three parts besides the principle."""
        return Counterfactual(self.failure_point, self.flawed_reasoning, self.corrective_action)


def _one_of_a_list(key: str, value: Any, info: ValidationInfo) -> Any:
    """Read a reply that is one item of its list."""
    is_item = isinstance(value, dict) and key not in value and "principle" in value
    return {key: [value]} if info.context is LENIENT and is_item else value


class SkillsReply(_Strict):
    """At least one principle."""

    skills: Annotated[list[SkillReply], Field(min_length=1)]

    _one = model_validator(mode="before")(partial(_one_of_a_list, "skills"))


class LessonsReply(_Strict):
    """At least one lesson."""

    lessons: Annotated[list[LessonReply], Field(min_length=1)]

    _one = model_validator(mode="before")(partial(_one_of_a_list, "lessons"))


class ScopeReply(_Strict):
    """Facts about one place; the list may be empty."""

    skills: list[SkillReply]


class AddReply(SkillReply):
    """A new skill; lessons have three more parts."""

    op: Literal["add"]
    kind: Literal["general", "task_specific", "lesson"]
    category: str = ""
    place: str = ""
    failure_point: Words | None = None
    flawed_reasoning: Words | None = None
    corrective_action: Words | None = None

    @model_validator(mode="after")
    def _parts_fit_the_kind(self) -> "AddReply":
        if self.skill_kind is SkillKind.LESSON and self.counterfactual is None:
            raise ValueError("a lesson needs failure_point, flawed_reasoning and corrective_action")
        if self.skill_kind is SkillKind.TASK_SPECIFIC and not (self.category or self.place):
            raise ValueError("a task_specific skill needs a category, or the place it holds in")
        return self

    @property
    def skill_kind(self) -> SkillKind:
        """The kind as an enum."""
        return SkillKind(self.kind)

    @property
    def counterfactual(self) -> Counterfactual | None:
        """The three parts of a lesson; ``None`` for other kinds, or if one is missing."""
        parts = (self.failure_point, self.flawed_reasoning, self.corrective_action)
        if self.skill_kind is not SkillKind.LESSON or None in parts:
            return None
        return Counterfactual(*(part or "" for part in parts))


class RefineReply(_Strict):
    """A new wording of a skill; omitted fields stay as they are."""

    op: Literal["refine"]
    id: str
    name: Name | None = None
    principle: Principle | None = None
    applicability: Words | None = None
    failure_point: Words | None = None
    flawed_reasoning: Words | None = None
    corrective_action: Words | None = None
    reason: Words
    evidence: Annotated[list[Cited], Field(min_length=1)]


class RetireReply(_Strict):
    """A skill that is harmful or useless."""

    op: Literal["retire"]
    id: str
    reason: Words


ChangeReply = Annotated[AddReply | RefineReply | RetireReply, Field(discriminator="op")]


_CHANGES = {"add": "add", "replace": "refine", "delete": "retire"}


def _with_groups(reply: dict[str, Any]) -> dict[str, Any]:
    """Add changes that a reply has below their operations: ``{"additions": [..]}``."""
    groups = [
        {"op": _CHANGES[group], **one}
        for key, items in reply.items()
        if (group := operation_group(key)) is not None and isinstance(items, list)
        if not NOT_MEANT.fullmatch(key)
        for one in items
        if isinstance(one, dict)
    ]
    changes = reply.get("changes") or []
    return {**reply, "changes": changes + groups} if groups and isinstance(changes, list) else reply


class EvolveReply(_Strict):
    """Changes of a bank; may be empty, and the reasoning then explains it."""

    reasoning: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    changes: list[ChangeReply]

    @model_validator(mode="before")
    @classmethod
    def _without_reasoning(cls, value: Any, info: ValidationInfo) -> Any:
        """Read changes alone; where there are none, the reasoning has to say why."""
        if info.context is not LENIENT:
            return value
        found = {"changes": value} if isinstance(value, list) else value
        if not isinstance(found, dict):
            return found
        found = _with_groups(found)
        if has_nothing(found, "changes"):
            return {**found, "changes": []}
        return {"reasoning": NONE, **found} if found.get("changes") else found


TaskName = Callable[[Task], str]
"""Returns a task's category or scope; ``""`` if it has none."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A scored episode that a teacher may read.

    Attributes:
        id: Its id in prompts; unique among the episodes of a request.
        key: Its id in provenance: the content address of the episode, else the id.
        category: The category of its task, or ``""``.
        scope: The place that its task is set in, or ``""``.
    """

    id: str
    key: str
    category: str
    scope: str
    succeeded: bool
    transcript: Transcript


@dataclass(frozen=True, slots=True)
class Shown:
    """Trajectories as text.

    Attributes:
        text: Sections of a prompt.
        cuts: Parts that were left out to fit the budget.
    """

    text: str
    cuts: tuple[Cut, ...]


def read_evidence(
    episodes: Sequence[EpisodeResult], categorize: TaskName, scope: TaskName, threshold: float
) -> tuple[list[Evidence], tuple[Skipped, ...]]:
    """Read the episodes that have a reward; faults say nothing about skills.

    Args:
        episodes: Finished attempts, in reading order.
        categorize: Returns the category of a task.
        scope: Returns the place that a task is set in.
        threshold: The least reward of a solved episode.

    Returns:
        The readable episodes in input order, and the others with the reason.
    """
    read = read_episodes(episodes)
    scored = (result for result in episodes if result.reward is not None)
    found = []
    for result, transcript in zip(scored, read.rows, strict=True):
        if not transcript.lines:
            continue
        task, place = result.spec.task, scope(result.spec.task)
        facts = (*transcript.facts, *((("place", place),) if place else ()))
        found.append(
            Evidence(
                id=transcript.id,
                key=transcript.key or transcript.id,
                category=categorize(task),
                scope=place,
                succeeded=result.is_success(threshold),
                transcript=replace(transcript, task_type=categorize(task), facts=facts),
            )
        )
    return found, read.skipped


def untrusted_texts(evidence: Iterable[Evidence]) -> list[str]:
    """List the distinct texts that environments, tools, users and the agent wrote."""
    texts: dict[str, None] = {}
    for one in evidence:
        texts[one.transcript.opening] = None
        texts |= {line.text: None for line in one.transcript.lines}
    return list(texts)


def show_evidence(evidence: Sequence[Evidence], max_tokens: int) -> Shown:
    """Render episodes under two headings, successes and failures.

    Over the budget, the middle is left out, never the task or the end.

    Args:
        evidence: The episodes to show.
        max_tokens: The total budget, shared between the groups in proportion to their length.
    """
    groups = [
        (heading, outcome, [one.transcript for one in evidence if one.succeeded == succeeded])
        for heading, outcome, succeeded in (
            ("Trajectories that succeeded", "success", True),
            ("Trajectories that failed", "failure", False),
        )
    ]
    groups = [group for group in groups if group[2]]
    sizes = [_size(transcripts) for _, _, transcripts in groups]
    texts: list[str] = []
    cuts: list[Cut] = []
    for (heading, outcome, transcripts), size in zip(groups, sizes, strict=True):
        shown = render_trajectories(transcripts, outcome, max_tokens * size // max(sum(sizes), 1))
        texts.append(f"## {heading}\n{shown.text}")
        cuts += shown.cuts
    return Shown("\n\n".join(texts), tuple(cuts))


def _size(transcripts: Iterable[Transcript]) -> int:
    return sum(
        len(one.opening) + sum(len(line.text) + len(line.kind) for line in one.lines)
        for one in transcripts
    )


def round_robin(groups: Iterable[Sequence[Evidence]], count: int) -> list[Evidence]:
    """Take one of each group in turn, until ``count`` are taken or none is left."""
    queues = [list(group) for group in groups]
    taken: list[Evidence] = []
    while any(queues) and len(taken) < count:
        for queue in queues:
            if queue and len(taken) < count:
                taken.append(queue.pop(0))
    return taken


ReplyT = TypeVar("ReplyT", bound=BaseModel)

NONE: Final = "(none)"

PROMPT_NAMES: Final = (
    "distill_successes",
    "distill_failures",
    "distill_general",
    "distill_place",
    "evolve",
)


class TeacherDown(ModelError):
    """Every teacher request failed, so there is no bank to continue with."""


TeacherFault = AskFault
"""A failed request. It never means that there was nothing to learn."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the teacher.

    Attributes:
        name: Identifies and seeds the call: ``heat.failures.0``.
        prompt: Name of the system prompt.
        sections: Sections above the trajectories, as (heading, text).
        evidence: The trajectories, shortened to fit the prompt.
    """

    name: str
    prompt: str
    sections: tuple[tuple[str, str], ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class TeacherCall:
    """A request as it was sent.

    Attributes:
        name: Name of the request.
        prompt_digest: Digest of its messages.
        seed: Sampling seed, or ``None``.
        temperature: Sampling temperature, or ``None`` for the endpoint's default.
        episodes: Keys of the episodes in the prompt.
        cuts: Parts of them that were left out.
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
    """A valid reply, or the fault in its place.

    Attributes:
        repairs: What was done to read the reply, a note each.
    """

    request: Request
    call: TeacherCall
    reply: ReplyT | TeacherFault
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Teacher:
    """A chat model in the role of the teacher.

    Attributes:
        sampling: Decoding settings; the seed is set per request.
        seed: Seeds every request together with its name; ``None`` sends no seed.
        max_prompt_tokens: Trajectories are shortened to this; a prompt that is still longer is not
            sent (estimated at four characters a token).
        repair_rounds: Retries after an invalid reply.
        max_concurrent: Requests in flight at once.
        as_written: Replies are not repaired.

    Raises:
        ValueError: A number is too low.
    """

    model: ChatModel
    sampling: Sampling = Sampling(max_tokens=8_192)
    seed: int | None = 0
    max_prompt_tokens: int = 60_000
    repair_rounds: int = 1
    max_concurrent: int = 8
    as_written: bool = False

    def __post_init__(self) -> None:
        for name, least in (("max_prompt_tokens", 1), ("repair_rounds", 0), ("max_concurrent", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least {least}")

    async def ask_all(
        self, asked: Sequence[tuple[Request, type[BaseModel]]]
    ) -> list[TeacherAnswer[Any]]:
        """Ask several questions concurrently; answers are in the order of the requests."""
        slots = asyncio.Semaphore(self.max_concurrent)

        async def one(request: Request, reply_type: type[BaseModel]) -> TeacherAnswer[Any]:
            async with slots:
                return await self.ask(request, reply_type)

        return await together(one(request, reply_type) for request, reply_type in asked)

    async def ask(self, request: Request, reply_type: type[ReplyT]) -> TeacherAnswer[ReplyT]:
        """Ask, and return the reply or the fault; a fault does not affect other requests."""
        system, user, shown = self._prompt(request)
        question = Question(
            name=request.name,
            system=system,
            user=user,
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
        return TeacherAnswer(request, call, answer.reply, answer.repairs)

    def has_room_for(self, request: Request) -> bool:
        """Return whether a request would be sent with at least half of its trajectories' text."""
        system, user, _ = self._prompt(request)
        if estimate_tokens(system) + estimate_tokens(user) > self.max_prompt_tokens:
            return False
        whole = show_evidence(request.evidence, self.max_prompt_tokens).text
        return estimate_tokens(whole) <= 2 * self._left(system, user_message(request.sections))

    def _prompt(self, request: Request) -> tuple[str, str, Shown]:
        system = load_prompt(request.prompt)
        head = user_message(request.sections)
        shown = show_evidence(request.evidence, self._left(system, head))
        return system, f"{head}\n\n{shown.text}" if shown.text else head, shown

    def _left(self, system: str, head: str) -> int:
        # Two group headings, and rounding up.
        return self.max_prompt_tokens - estimate_tokens(system) - estimate_tokens(head) - 32


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
    """Join sections with headings; an empty one becomes `NONE`."""
    return "\n\n".join(f"## {heading}\n{body or NONE}" for heading, body in sections)


def provenance_of(
    answer: TeacherAnswer[Any],
    name: str | None,
    cited: Sequence[Cited],
    origin: SkillOrigin,
    step: int | None,
) -> tuple[Provenance, list[str]]:
    """Return the evidence that a reply cites, and a note if some of it was not in the prompt.

    A reply without valid citations gets all episodes of the prompt as evidence.
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
    """Stop if every request failed.

    Raises:
        TeacherDown: All of ``calls``, at least one, failed.
    """
    if faults and len(faults) == calls:
        raise TeacherDown(
            f"all {calls} requests to the teacher failed; the latest: {faults[-1].failure.message}"
        )
