"""Distill base trajectories into skills with a teacher.

Successes of a category become principles, failures become lessons, and episodes of all categories
become general skills; if tasks are set in one place, its facts become skills of that place.
Requests are small and concurrent; results are in the order of the requests.

Source: SkillRL (arXiv 2602.08234), requirements R1-R5. Its released code read five steps of ten
memories, made general skills of the first two categories, and treated failed requests as empty
lists.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil
from typing import Any

from pydantic import BaseModel, PositiveInt

from skillwright.bank.changes import Add
from skillwright.bank.lint.lint import Finding, Sources, lint
from skillwright.bank.teaching.teacher import (
    NONE,
    Evidence,
    LessonReply,
    LessonsReply,
    Request,
    ScopeReply,
    SkillReply,
    SkillsReply,
    TaskName,
    Teacher,
    TeacherAnswer,
    TeacherCall,
    TeacherDown,
    TeacherFault,
    provenance_of,
    read_evidence,
    refuse_dead_teacher,
    round_robin,
    untrusted_texts,
)
from skillwright.core import (
    BankSkill,
    EpisodeResult,
    Provenance,
    SkillKind,
    SkillOrigin,
    SkillStatus,
)
from skillwright.core.settings import Settings
from skillwright.rollout.transcript import Skipped


class Section(StrEnum):
    """The subject of a request."""

    SUCCESSES = "successes"
    FAILURES = "failures"
    GENERAL = "general"
    PLACE = "place"


class DistillAmounts(Settings):
    """How much a configuration lets a teacher read and write."""

    place_episodes: PositiveInt = 48
    """Episodes per request about one place."""
    general: PositiveInt = 12
    """General skills to request."""
    lessons: PositiveInt = 12
    """Lessons to request, over all categories."""
    per_place: PositiveInt = 24
    """Facts to request per place."""


class DistillSettings(DistillAmounts):
    """How much is read and asked for."""

    batch_size: PositiveInt = 4
    """Episodes per request about one category."""
    general_episodes: PositiveInt = 12
    """Episodes of the request for general skills, each category in turn; where there are more
    categories, one of each."""
    per_category: PositiveInt = 6
    """Principles that are asked for, per category."""
    success_threshold: float = 1.0
    """The reward from which an episode counts as solved."""
    step: int | None = None
    """The training step or epoch, for the provenance."""
    status: SkillStatus = SkillStatus.ACTIVE
    """Status of the drafts: active, or pending until they are approved."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request and the scope of its reply.

    Attributes:
        reply_type: Model of the reply.
        count: Most skills kept of the reply.
        category: Category of the skills; "" means all categories.
        scope: Place that the skills hold in, or "".
    """

    section: Section
    request: Request
    reply_type: type[BaseModel]
    count: int
    category: str = ""
    scope: str = ""


def plan_requests(evidence: Sequence[Evidence], settings: DistillSettings) -> Iterator[Asked]:
    """Plan requests in a fixed order: general skills, then successes, failures and places."""
    if evidence:
        yield _general(evidence, settings)
    yield from _about_categories(Section.SUCCESSES, evidence, settings)
    yield from _about_categories(Section.FAILURES, evidence, settings)
    for place in sorted({one.scope for one in evidence} - {""}):
        there = [one for one in evidence if one.scope == place]
        for number, batch in enumerate(_batches(there, settings.place_episodes)):
            count = settings.per_place
            sections = (("Place", place), ("How many", f"At most {count}."))
            name = f"place.{place}.{number}"
            request = Request(name, "distill_place", sections, tuple(batch))
            yield Asked(Section.PLACE, request, ScopeReply, count, scope=place)


def _about_categories(
    section: Section, evidence: Sequence[Evidence], settings: DistillSettings
) -> Iterator[Asked]:
    succeeded = section is Section.SUCCESSES
    batches = [
        (category, number, batch)
        for category, group in sorted(_by_category(evidence).items())
        for number, batch in enumerate(
            _batches([one for one in group if one.succeeded == succeeded], settings.batch_size)
        )
    ]
    for category, number, batch in batches:
        own = sum(one[0] == category for one in batches)
        share = settings.per_category / own if succeeded else settings.lessons / len(batches)
        count = ceil(share)
        sections = (("Category", category), ("How many", f"At most {count}."))
        name = f"{section}.{category or NONE}.{number}"
        request = Request(name, f"distill_{section}", sections, tuple(batch))
        reply_type = SkillsReply if succeeded else LessonsReply
        yield Asked(section, request, reply_type, count, category)


def _general(evidence: Sequence[Evidence], settings: DistillSettings) -> Asked:
    groups = _by_category(evidence)
    # Successes and failures alternate within a category, so that both are there to compare.
    mixed = [
        round_robin(
            [[one for one in group if one.succeeded], [one for one in group if not one.succeeded]],
            len(group),
        )
        for group in groups.values()
    ]
    shown = round_robin(mixed, max(settings.general_episodes, len(groups)))
    sections = (
        ("Categories", ", ".join(sorted(groups.keys() - {""}))),
        ("How many", f"At most {settings.general}."),
    )
    request = Request("general.0", "distill_general", sections, tuple(shown))
    return Asked(Section.GENERAL, request, SkillsReply, settings.general)


def _by_category(evidence: Sequence[Evidence]) -> dict[str, list[Evidence]]:
    groups: dict[str, list[Evidence]] = {}
    for one in evidence:
        groups.setdefault(one.category, []).append(one)
    return groups


def _batches(evidence: Sequence[Evidence], size: int) -> list[Sequence[Evidence]]:
    """Split into as few batches as the size allows, of equal length up to one."""
    count = ceil(len(evidence) / size)
    return [evidence[number::count] for number in range(count)]


LIFTED_FROM = 3
"""A skill with equal wording in this many categories becomes a skill of all categories."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A draft that lint blocks.

    Attributes:
        call: Name of the request.
    """

    draft: BankSkill
    call: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class DistillReport:
    """Counts of a distillation, and what was left out.

    Attributes:
        episodes: Input episodes.
        read: Readable episodes.
        skipped: The other episodes, with the reason.
        drafts: Drafts by requested section, 0 included.
        notes: Corrections of replies.
    """

    episodes: int
    read: int
    skipped: tuple[Skipped, ...] = ()
    drafts: dict[str, int] = field(default_factory=dict)
    blocked: tuple[Blocked, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Distillation:
    """A teacher's skills. The caller writes them to the bank.

    Attributes:
        changes: One addition per draft; `apply` merges equal ones. A draft with equal wording in
            `LIFTED_FROM` categories has no category.
        calls: Every request as it was sent.
        failures: Failed requests.
    """

    changes: tuple[Add, ...]
    calls: tuple[TeacherCall, ...]
    failures: tuple[TeacherFault, ...]
    report: DistillReport

    def refuse_gaps(self) -> None:
        """Stop if a requested section has no skills.

        Only the section of places may be empty, if the teacher's reply is.

        Raises:
            TeacherDown: Every request failed, or a section has no valid draft.
        """
        refuse_dead_teacher(self.failures, len(self.calls))
        for section, count in self.report.drafts.items():
            failed = [one for one in self.failures if _section_of(one.call) == section]
            blocked = [one for one in self.report.blocked if _section_of(one.call) == section]
            if count or (section == Section.PLACE and not failed and not blocked):
                continue
            why = failed[-1].failure.message if failed else str(blocked[-1].findings[0])
            raise TeacherDown(
                f"nothing usable was written for the section {section!r}: {len(failed)} requests "
                f"failed, and lint blocked {len(blocked)} drafts; the latest: {why}"
            )


def _section_of(call: str) -> str:
    return call.partition(".")[0]


async def distill(
    episodes: Sequence[EpisodeResult],
    teacher: Teacher,
    settings: DistillSettings,
    categorize: TaskName,
    scope: TaskName,
) -> Distillation:
    """Ask a teacher to turn episodes into skills.

    Args:
        episodes: Base trajectories; faults are skipped and reported.
        teacher: The model to ask.
        settings: Amounts to read and to ask for.
        categorize: Returns the category of a task.
        scope: Returns the place that a task is set in.

    Returns:
        Drafts as changes of a bank, and failed requests. Call `Distillation.refuse_gaps` before
        building a bank.
    """
    evidence, skipped = read_evidence(episodes, categorize, scope, settings.success_threshold)
    asked = list(plan_requests(evidence, settings))
    answers = await teacher.ask_all([(one.request, one.reply_type) for one in asked])
    reading = _Reading(settings)
    for one, answer in zip(asked, answers, strict=True):
        reading.read(one, answer)
    drafts = list(reading.drafts())
    return Distillation(
        changes=tuple(Add(draft) for draft in _lifted(drafts)),
        calls=tuple(answer.call for answer in answers),
        failures=tuple(a.reply for a in answers if isinstance(a.reply, TeacherFault)),
        report=DistillReport(
            episodes=len(episodes),
            read=len(evidence),
            skipped=skipped,
            drafts=reading.counts,
            blocked=tuple(reading.blocked),
            notes=tuple(reading.notes),
        ),
    )


def _lifted(drafts: Sequence[BankSkill]) -> Iterator[BankSkill]:
    """Drop the category of drafts with equal wording in several categories; `apply` merges them."""
    plain = [
        replace(
            draft,
            category="",
            kind=SkillKind.GENERAL if draft.counterfactual is None else SkillKind.LESSON,
            provenance=Provenance(),
        )
        for draft in drafts
    ]
    categories: dict[BankSkill, set[str]] = {}
    for draft, same in zip(drafts, plain, strict=True):
        categories.setdefault(same, set()).add(draft.category)
    for draft, same in zip(drafts, plain, strict=True):
        is_common = not draft.scope and len(categories[same] - {""}) >= LIFTED_FROM
        yield replace(same, provenance=draft.provenance) if is_common else draft


class _Reading:
    """Converts replies into drafts, and collects rejected ones."""

    def __init__(self, settings: DistillSettings) -> None:
        self._drafts: dict[tuple[Section, str, str], list[BankSkill]] = {}
        self.counts: dict[str, int] = {}
        self.blocked: list[Blocked] = []
        self.notes: list[str] = []
        self._settings = settings

    def read(self, asked: Asked, answer: TeacherAnswer[Any]) -> None:
        self.counts.setdefault(asked.section.value, 0)
        if isinstance(answer.reply, TeacherFault):
            return
        self.notes += [f"{asked.request.name}: {note}" for note in answer.repairs]
        written = _written(answer.reply)
        if len(written) > asked.count:
            self.notes.append(
                f"{asked.request.name}: {len(written)} skills were written; "
                f"the first {asked.count} are kept"
            )
        sources = Sources.of(untrusted_texts(asked.request.evidence))
        for reply in written[: asked.count]:
            draft = self._draft(asked, answer, reply)
            findings = tuple(found for found in lint(draft, sources) if found.blocks)
            if findings:
                self.blocked.append(Blocked(draft, asked.request.name, findings))
                continue
            self._drafts.setdefault((asked.section, asked.category, asked.scope), []).append(draft)
            self.counts[asked.section.value] += 1

    def drafts(self) -> Iterator[BankSkill]:
        """Yield the drafts; of many requests about one category, the most frequent ones."""
        failing = sum(section == Section.FAILURES for section, _, _ in self._drafts)
        most = {
            Section.GENERAL: self._settings.general,
            Section.SUCCESSES: self._settings.per_category,
            Section.FAILURES: ceil(self._settings.lessons / max(failing, 1)),
            Section.PLACE: self._settings.per_place,
        }
        for (section, category, scope), drafts in self._drafts.items():
            written = Counter(draft.content_digest for draft in drafts)
            kept = {content for content, _ in written.most_common(most[section])}
            if len(kept) < len(written):
                self.notes.append(
                    f"{section} of {category or scope or NONE}: {len(written)} different skills "
                    f"were written; the {len(kept)} that most requests wrote are kept"
                )
            yield from (draft for draft in drafts if draft.content_digest in kept)

    def _draft(self, asked: Asked, answer: TeacherAnswer[Any], reply: SkillReply) -> BankSkill:
        provenance, notes = provenance_of(
            answer, reply.name, reply.evidence, SkillOrigin.DISTILLED, self._settings.step
        )
        self.notes += [f"{asked.request.name}: {note}" for note in notes]
        kind = {Section.GENERAL: SkillKind.GENERAL, Section.FAILURES: SkillKind.LESSON}.get(
            asked.section, SkillKind.TASK_SPECIFIC
        )
        return BankSkill(
            id="",
            name=reply.name,
            principle=reply.principle,
            applicability=reply.applicability,
            kind=kind,
            category=asked.category,
            scope=asked.scope,
            counterfactual=reply.counterfactual if isinstance(reply, LessonReply) else None,
            status=self._settings.status,
            provenance=provenance,
        )


def _written(reply: SkillsReply | LessonsReply | ScopeReply) -> Sequence[SkillReply]:
    return reply.lessons if isinstance(reply, LessonsReply) else reply.skills
