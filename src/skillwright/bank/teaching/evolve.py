"""Evolve a bank: a teacher reads failures and proposes changes within limits.

Success is counted by category on the evolution split. Failures of weak categories are sampled and
shown whole, together with the bank. The reply is a proposal: a gate decides whether agents do
better with it (`candidate_sources`).

Source: SkillRL (arXiv 2602.08234), requirements R12-R16. Its released code took the first ten rows
of a batch, and evolved on the tasks that it reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import PositiveInt

from skillwright.bank.bank import Bank
from skillwright.bank.changes import (
    Add,
    Change,
    ChangeReport,
    GrowthCaps,
    IsNear,
    Refine,
    Retire,
    apply,
    near_in_text,
)
from skillwright.bank.lint.lint import Finding, Sources, lint
from skillwright.bank.render import skill_line
from skillwright.bank.teaching.teacher import (
    AddReply,
    ChangeReply,
    Evidence,
    EvolveReply,
    RefineReply,
    Request,
    RetireReply,
    TaskName,
    Teacher,
    TeacherAnswer,
    TeacherCall,
    TeacherFault,
    provenance_of,
    read_evidence,
    round_robin,
    untrusted_texts,
)
from skillwright.core import (
    BankSkill,
    Counterfactual,
    DataError,
    EpisodeResult,
    Provenance,
    SkillKind,
    SkillOrigin,
    StopReason,
    did_you_mean,
)
from skillwright.core.fence import fenced, one_line
from skillwright.core.settings import Settings
from skillwright.datasets import EvolutionTasks
from skillwright.models.validation import Share
from skillwright.rollout.transcript import Skipped


@dataclass(frozen=True, slots=True)
class EvolutionResults:
    """Episodes of an evolution split only: reported tasks may not be learned from.

    Raises:
        DataError: An episode is of a task outside the split.
    """

    split: EvolutionTasks
    results: tuple[EpisodeResult, ...]

    def __post_init__(self) -> None:
        known = set(self.split.ids)
        for result in self.results:
            if result.task_id not in known:
                raise DataError(
                    f"task {result.task_id!r} is outside of the evolution split; a bank that "
                    "learns from the tasks it is judged by proves nothing. "
                    f"{did_you_mean(result.task_id, known)}"
                )


@dataclass(frozen=True, slots=True)
class CategorySuccess:
    """Success of one category.

    Attributes:
        category: "" for tasks without one.
        wins: Solved episodes.
        episodes: Scored episodes.
    """

    category: str
    wins: int
    episodes: int

    @property
    def accuracy(self) -> float:
        """The success rate, in [0, 1]."""
        return self.wins / self.episodes


def success_by_category(evidence: Sequence[Evidence]) -> tuple[CategorySuccess, ...]:
    """Count wins by category, sorted by name."""
    names = sorted({one.category for one in evidence})
    return tuple(
        CategorySuccess(
            name,
            sum(one.succeeded for one in evidence if one.category == name),
            sum(one.category == name for one in evidence),
        )
        for name in names
    )


def weakest_of(success: Sequence[CategorySuccess]) -> str | None:
    """Return the category with the lowest accuracy, the first by name among equals."""
    if not success:
        return None
    return min(success, key=lambda one: (one.accuracy, one.category)).category


def budgets(
    success: Sequence[CategorySuccess], failures: Mapping[str, int], most: int
) -> dict[str, int]:
    """Divide the failures to show among categories, in proportion to 1 - accuracy.

    Seats are given one by one to the category with the fewest for its weight (Sainte-Laguë), and no
    category gets more than it has failures.

    Args:
        success: The categories to divide among.
        failures: Failures of each category.
        most: Failures to show in total.
    """
    seats = {one.category: 0 for one in success}
    weights = {one.category: 1 - one.accuracy for one in success}
    for _ in range(most):
        open_ones = [
            name for name in seats if seats[name] < failures.get(name, 0) and weights[name] > 0
        ]
        if not open_ones:
            break
        best = max(open_ones, key=lambda name: weights[name] / (2 * seats[name] + 1))
        seats[best] += 1
    return seats


def sample_failures(
    evidence: Sequence[Evidence], success: Sequence[CategorySuccess], most: int
) -> list[Evidence]:
    """Choose the failures that a teacher is shown; the order of ``evidence`` does not matter.

    Args:
        evidence: Every episode.
        success: The categories whose failures may be shown.
        most: Failures to show in total.

    Returns:
        The most severe failures of each category, categories in turn, the weakest first.
    """
    failed = {
        one.category: by_severity(
            [e for e in evidence if e.category == one.category and not e.succeeded]
        )
        for one in success
    }
    seats = budgets(success, {name: len(group) for name, group in failed.items()}, most)
    order = sorted(success, key=lambda one: (one.accuracy, one.category))
    return round_robin((failed[o.category][: seats[o.category]] for o in order), most)


def by_severity(failures: Sequence[Evidence]) -> list[Evidence]:
    """Order failures: first attempts of tasks, then by reward, then lost before cut off."""
    ordered = sorted(failures, key=_severity)
    met: dict[str, int] = {}
    rounds = []
    for one in ordered:
        rounds.append(met.get(one.transcript.task_id, 0))
        met[one.transcript.task_id] = rounds[-1] + 1
    return [one for _, one in sorted(zip(rounds, ordered, strict=True), key=lambda pair: pair[0])]


def _severity(one: Evidence) -> tuple[float, bool, int, str]:
    seen = one.transcript
    was_cut_off = seen.stop == StopReason.MAX_TURNS.value
    return seen.reward, was_cut_off, -seen.turns, one.id


_LONGEST_EARLIER, _LONGEST_NAME = 300, 80


class EvolveTrigger(Settings):
    """Settings of the trigger of an update."""

    trigger_accuracy: Share = 0.4
    """Success rate below which a category is updated."""
    max_failures: PositiveInt = 10
    """Maximum failures shown to the teacher."""


class EvolveSettings(EvolveTrigger):
    """Settings of an update."""

    caps: GrowthCaps = GrowthCaps()
    """The maximum amounts to add."""
    success_threshold: float = 1.0
    """The reward from which an episode counts as solved."""
    step: int | None = None
    """The training step or epoch, for the provenance."""


@dataclass(frozen=True, slots=True)
class BlockedChange:
    """A change that lint blocks."""

    change: Change
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Evolution:
    """A teacher's proposal after an epoch. The caller writes it to the bank.

    Attributes:
        success: Success of each category, sorted by name.
        weakest: The category with the lowest accuracy, or ``None`` if nothing was scored.
        failures: The failures in the prompt.
        reasoning: The teacher's explanation.
        calls: The request as it was sent; empty if no category was weak.
        faults: The request, if it failed.
        blocked: Changes that lint blocks.
        skipped: Episodes that cannot be read, with the reason.
        notes: Why there was no request, and corrections of the reply.
    """

    changes: tuple[Change, ...] = ()
    success: tuple[CategorySuccess, ...] = ()
    weakest: str | None = None
    failures: tuple[Evidence, ...] = ()
    reasoning: str = ""
    calls: tuple[TeacherCall, ...] = ()
    faults: tuple[TeacherFault, ...] = ()
    blocked: tuple[BlockedChange, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    def candidate(
        self, bank: Bank, caps: GrowthCaps, is_near: IsNear = near_in_text
    ) -> tuple[Bank, ChangeReport]:
        """Apply the changes up to ``caps``; return the new bank, and the outcome of each change."""
        return apply(bank, self.changes, caps, weakest=self.weakest, is_near=is_near)


async def evolve(
    results: EvolutionResults,
    bank: Bank,
    teacher: Teacher,
    settings: EvolveSettings,
    categorize: TaskName,
    scope: TaskName,
    earlier: Sequence[str] = (),
) -> Evolution:
    """Ask a teacher to turn failures into changes of a bank.

    Args:
        results: Episodes of the evolution split, played with ``bank``.
        bank: The current version.
        teacher: The model to ask.
        settings: Trigger and limits of the update.
        categorize: Returns the category of a task.
        scope: Returns the place that a task is set in.
        earlier: Earlier proposals and their results, a line each (`shown_change`).
    """
    evidence, skipped = read_evidence(
        results.results, categorize, scope, settings.success_threshold
    )
    success = success_by_category(evidence)
    found = Evolution(success=success, weakest=weakest_of(success), skipped=skipped)
    weak = [one for one in success if one.accuracy < settings.trigger_accuracy]
    failures = sample_failures(evidence, weak, settings.max_failures)
    if not failures:
        threshold = f"trigger_accuracy = {settings.trigger_accuracy:g}"
        why = f"no category is below {threshold}" if success else "no episode could be read"
        return replace(found, notes=(f"{why}; the bank stays",))
    request = _request(found, bank, failures, settings.caps, earlier)
    chosen = len(failures)
    while len(failures) > 1 and not teacher.has_room_for(request):
        # Categories alternate in the list, so each of them loses its mildest failures.
        failures = failures[: -max(1, len(failures) // 20)]
        request = _request(found, bank, failures, settings.caps, earlier)
    if len(failures) < chosen:
        shown = f"{len(failures)} of {chosen} failures were shown: a prompt has room for no more"
        found = replace(found, notes=(shown,))
    answer = await teacher.ask(request, EvolveReply)
    found = replace(
        found, failures=tuple(failures), calls=(answer.call,), notes=(*found.notes, *answer.repairs)
    )
    if isinstance(answer.reply, TeacherFault):
        return replace(found, faults=(answer.reply,))
    reading = _Reading(bank, answer, failures, settings.step)
    for reply in answer.reply.changes:
        reading.read(reply)
    return replace(
        found,
        changes=tuple(reading.changes),
        reasoning=answer.reply.reasoning,
        blocked=tuple(reading.blocked),
        notes=(*found.notes, *reading.notes),
    )


def shown_change(change: Change, outcome: str) -> str:
    """Return a change and its result as a later teacher reads it."""
    match change:
        case Add(draft=draft):
            text = f"add {_line(replace(draft, id='new')).removeprefix('- ')}"
        case Refine():
            words = (change.name, change.principle, change.applicability)
            text = f"refine [{change.id}]: {' '.join(filter(None, words))}"
        case _:
            text = f"{type(change).__name__.lower()} [{change.id}]: {change.reason}"
    return one_line(f"{outcome}: {text}", _LONGEST_EARLIER)


def _request(
    found: Evolution,
    bank: Bank,
    failures: Sequence[Evidence],
    caps: GrowthCaps,
    earlier: Sequence[str],
) -> Request:
    places = {"", *(one.scope for one in failures)}
    skills = [skill for skill in bank.active if skill.scope in places]
    shown = "\n".join(f"- {line}" for line in earlier)
    limits = (
        f"Add at most {caps.per_checkpoint} skills, and at most {caps.per_category} to one "
        f"category; {caps.weakest_extra} more to the weakest."
    )
    sections = (
        ("Success by category", "\n".join(_shown_success(found))),
        ("Limits", limits),
        ("Current skills", fenced("skills", "\n".join(map(_line, skills)))),
        ("Earlier changes", fenced("skill_changes", shown) if shown else ""),
    )
    return Request(f"evolve.{bank.version}", "evolve", sections, tuple(failures))


def _shown_success(found: Evolution) -> Iterator[str]:
    for one in found.success:
        mark = " (the weakest)" if one.category == found.weakest else ""
        name = one_line(one.category, _LONGEST_NAME) or "(no category)"
        yield f"- {name}: {one.wins} of {one.episodes}{mark}"


def _line(skill: BankSkill) -> str:
    """Return a skill on one line, as agents read it, with its kind, category and place."""
    where = f", category {skill.category}" if skill.category else ""
    where += f", place {skill.scope}" if skill.scope else ""
    label = f"- [{skill.id}] "
    return f"{label}{skill.kind}{where}: {skill_line(skill).removeprefix(label)}"


class _Reading:
    """Converts the changes of a reply, checked against the bank and the failures shown."""

    def __init__(
        self,
        bank: Bank,
        answer: TeacherAnswer[EvolveReply],
        failures: Sequence[Evidence],
        step: int | None,
    ) -> None:
        self.changes: list[Change] = []
        self.blocked: list[BlockedChange] = []
        self.notes: list[str] = []
        self._bank = bank
        self._answer = answer
        self._step = step
        self._places = {one.scope for one in failures}
        self._categories = {one.category for one in failures}
        self._sources = Sources.of(untrusted_texts(failures))

    def read(self, reply: ChangeReply) -> None:
        match reply:
            case AddReply():
                self._add(reply)
            case RefineReply():
                self._refine(reply)
            case RetireReply():
                self.changes.append(Retire(reply.id, one_line(reply.reason, _LONGEST_EARLIER)))

    def _add(self, reply: AddReply) -> None:
        if reply.place not in {"", *self._places}:
            self.notes.append(f"{reply.name!r} holds in {reply.place[:80]!r}, which was not shown")
            return
        known = {skill.category for skill in self._bank.skills} | self._categories
        if reply.category not in {"", *known}:
            self.notes.append(f"{reply.name!r} has the unknown category {reply.category[:80]!r}")
            return
        is_general = reply.skill_kind is SkillKind.GENERAL
        draft = BankSkill(
            id="",
            name=reply.name,
            principle=reply.principle,
            applicability=reply.applicability,
            kind=reply.skill_kind,
            category="" if is_general else reply.category,
            scope=reply.place,
            counterfactual=reply.counterfactual,
            provenance=self._provenance(reply),
        )
        self._keep(Add(draft), draft)

    def _refine(self, reply: RefineReply) -> None:
        if reply.id not in self._bank:
            self.notes.append(f"there is no skill {reply.id[:80]!r} to be refined")
            return
        old = self._bank.get(reply.id)
        change = Refine(
            reply.id,
            name=reply.name,
            principle=reply.principle,
            applicability=reply.applicability,
            counterfactual=_refined(old.counterfactual, reply),
            provenance=self._provenance(reply),
            reason=one_line(reply.reason, _LONGEST_EARLIER),
        )
        self._keep(change, change.of(old), old)

    def _provenance(self, reply: AddReply | RefineReply) -> Provenance:
        provenance, notes = provenance_of(
            self._answer, reply.name, reply.evidence, SkillOrigin.EVOLVED, self._step
        )
        self.notes += notes
        return provenance

    def _keep(self, change: Change, skill: BankSkill, old: BankSkill | None = None) -> None:
        # Agents quote their skills, so findings of the old wording are not new faults.
        known = lint(old, self._sources) if old else ()
        found = lint(skill, self._sources)
        findings = tuple(one for one in found if one.blocks and one not in known)
        if findings:
            self.blocked.append(BlockedChange(change, findings))
        else:
            self.changes.append(change)


def _refined(old: Counterfactual | None, reply: RefineReply) -> Counterfactual | None:
    parts = (reply.failure_point, reply.flawed_reasoning, reply.corrective_action)
    if old is None or not any(parts):
        return None
    return Counterfactual(
        reply.failure_point or old.failure_point,
        reply.flawed_reasoning or old.flawed_reasoning,
        reply.corrective_action or old.corrective_action,
    )
