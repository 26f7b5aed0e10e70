"""Apply changes to a bank: add, refine, retire and approve skills, within growth limits.

Ids are never reused. A draft that equals or nearly equals a skill is merged: its evidence is added
to that skill. A change beyond a limit is refused with a reason.

Source: SkillRL (arXiv 2602.08234), requirements R12-R15. Its released code numbered additions by
a different bank than the one it added them to, so growth stopped at three.
"""

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from typing import Any, assert_never

import numpy as np

from skillwright.bank.bank import Bank, make_id, prefix_of
from skillwright.bank.embedding.embedders import Embedder
from skillwright.bank.lint.lint import lint
from skillwright.core import BankSkill, Counterfactual, Provenance, SkillStatus, did_you_mean

IsNear = Callable[[BankSkill, BankSkill], bool]
"""Whether two skills of the same kind, category and scope have the same meaning."""

SIMILAR_TEXT = 0.85
SIMILAR_MEANING = 0.9

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


def only_equal(one: BankSkill, other: BankSkill) -> bool:
    """Treat no two different skills as near."""
    return False


def near_in_text(one: BankSkill, other: BankSkill) -> bool:
    """Return whether two skills have the same name and numbers, and nearly the same text."""
    if _normalized(one.name) != _normalized(other.name) or one.details != other.details:
        return False
    first, second = _normalized(one.text), _normalized(other.text)
    if _NUMBER.findall(first) != _NUMBER.findall(second):
        return False
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # the cheapest first
    return all(ratio() >= SIMILAR_TEXT for ratio in bounds)


def block_of(is_near: IsNear, skill: BankSkill) -> str:
    """Return a key that near skills share, so that only skills with equal keys are compared."""
    if is_near is near_in_text:
        numbers = _NUMBER.findall(_normalized(skill.text))
        return " ".join([_normalized(skill.name), *numbers])
    return skill.id if is_near is only_equal else ""


def near_in_meaning(embedder: Embedder, threshold: float = SIMILAR_MEANING) -> IsNear:
    """Return a test for near text or near embeddings.

    Args:
        embedder: Encodes each text once in the lifetime of the test.
        threshold: Least cosine of near skills; scales differ between embedders, so calibrate it.
    """
    vectors: dict[str, Any] = {}

    def vector(text: str) -> Any:
        if text not in vectors:
            vectors[text] = np.asarray(embedder.encode_skills([text]))[0]
        return vectors[text]

    def is_near(one: BankSkill, other: BankSkill) -> bool:
        if near_in_text(one, other):
            return True
        if one.details != other.details:
            return False
        return bool(float(vector(one.text) @ vector(other.text)) >= threshold)

    return is_near


def nearness(embedder: Embedder) -> IsNear:
    """Return the nearness test for an embedder: by text if it is lexical, else also by meaning."""
    return near_in_text if embedder.identity.startswith("lexical") else near_in_meaning(embedder)


@lru_cache(maxsize=65_536)
def _normalized(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


Block = tuple[str, str, str, str]


class WorkingCopy:
    """The skills of a bank while changes are applied.

    Args:
        bank: The bank before the changes.
        is_near: The nearness test.
    """

    def __init__(self, bank: Bank, is_near: IsNear) -> None:
        self._bank = bank
        self._is_near = is_near
        self._skills = {skill.id: skill for skill in bank.skills}
        self._digests = dict(bank.content_digests)
        self._ids = {content: skill_id for skill_id, content in self._digests.items()}
        self._issued = dict(bank.highest)
        self._order = {skill.id: number for number, skill in enumerate(bank.skills)}
        self._blocks: defaultdict[Block, list[str]] = defaultdict(list)
        for skill in bank.skills:
            self._blocks[self._block(skill)].append(skill.id)
        self._active = Counter(skill.scope for skill in bank.active)
        self._changed = False

    def get(self, skill_id: str) -> BankSkill | None:
        """Return the current skill of an id."""
        return self._skills.get(skill_id)

    @property
    def ids(self) -> list[str]:
        """All current ids."""
        return list(self._skills)

    def active_in(self, scope: str) -> int:
        """Count the active skills of a scope."""
        return self._active[scope]

    def next_version(self, skill: BankSkill) -> int:
        """Return a version number for a skill that no other wording of it ever had."""
        return max(skill.version, self._issued.get(skill.id, 0)) + 1

    def twin(self, skill: BankSkill) -> tuple[BankSkill, str] | None:
        """Find another skill with the same meaning, and a phrase for how it matches.

        A retired skill is found only if its text is equal, so that a better wording of a retired
        skill can be added.
        """
        equal = self._ids.get(skill.content_digest)
        if equal is not None and equal != skill.id:
            return self._skills[equal], "equals"
        for other_id in self._blocks[self._block(skill)]:
            other = self._skills[other_id]
            if other_id == skill.id or other.status == SkillStatus.RETIRED:
                continue
            if self._is_near(skill, other):
                return other, "says nearly the same as"
        return None

    def add(self, draft: BankSkill) -> BankSkill:
        """Add a skill under a new id."""
        prefix = prefix_of(draft.kind)
        self._issued[prefix] += 1
        skill = replace(draft, id=make_id(draft.kind, self._issued[prefix]), version=1)
        self._order[skill.id] = len(self._order)
        self.put(skill)
        return skill

    def put(self, skill: BankSkill) -> None:
        """Replace the skill of the same id."""
        before = self._skills.get(skill.id)
        if before == skill:
            return
        self._changed = True
        if before is None or self._block(before) != self._block(skill):
            if before is not None:
                self._blocks[self._block(before)].remove(skill.id)
            insort(self._blocks[self._block(skill)], skill.id, key=self._order.__getitem__)
        if before is not None:
            self._active[before.scope] -= before.status == SkillStatus.ACTIVE
            if self._ids.get(self._digests[skill.id]) == skill.id:
                del self._ids[self._digests[skill.id]]
        self._active[skill.scope] += skill.status == SkillStatus.ACTIVE
        self._skills[skill.id] = skill
        self._digests[skill.id] = skill.content_digest
        self._ids.setdefault(self._digests[skill.id], skill.id)

    def _block(self, skill: BankSkill) -> Block:
        return str(skill.kind), skill.category, skill.scope, block_of(self._is_near, skill)

    def bank(self) -> Bank:
        """Return the next version, or the bank as it was where nothing changed."""
        if not self._changed:
            return self._bank
        made = Bank(
            self._bank.version + 1,
            tuple(self._skills.values()),
            self._bank.stats,
            self._issued,
            self._bank.meta,
        )
        # Digests of ten thousand skills take a tenth of a second, so they are passed on.
        made.__dict__["content_digests"] = self._digests
        return made


def joined(known: Provenance, new: Provenance | None) -> Provenance:
    """Merge evidence: episodes and turns, without duplicates, in order."""
    if new is None:
        return known
    return replace(
        known,
        episodes=tuple(dict.fromkeys((*known.episodes, *new.episodes))),
        turns=tuple(dict.fromkeys((*known.turns, *new.turns))),
    )


@dataclass(frozen=True, slots=True)
class Add:
    """A new skill.

    Attributes:
        draft: An active or pending skill; its id and version are replaced.
    """

    draft: BankSkill


@dataclass(frozen=True, slots=True)
class Refine:
    """A new wording of a skill, with the same id and the next version.

    Attributes:
        name: The new name; ``None`` keeps the old one, as in the next fields.
        counterfactual: For lessons only.
        provenance: Evidence of the new wording; it is added to the known evidence.
    """

    id: str
    name: str | None = None
    principle: str | None = None
    applicability: str | None = None
    counterfactual: Counterfactual | None = None
    provenance: Provenance | None = None
    reason: str = ""

    def of(self, old: BankSkill) -> BankSkill:
        """Return a skill in the new wording."""
        words = ("name", "principle", "applicability", "counterfactual")
        said = {key: getattr(self, key) for key in words}
        return replace(old, **{key: text for key, text in said.items() if text is not None})


@dataclass(frozen=True, slots=True)
class Retire:
    """Stop injecting a skill; it stays in the bank and keeps its id."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Approve:
    """Make a pending skill active, after lint and gate passed."""

    id: str
    reason: str


Change = Add | Refine | Retire | Approve


@dataclass(frozen=True, slots=True)
class GrowthCaps:
    """How fast and how far a bank may grow.

    Attributes:
        per_checkpoint: Additions of one update.
        per_category: Those of one category; general skills count as a category of their own.
        weakest_extra: Additions on top of both that only the weakest category may use.
        max_active: Active skills per scope. What one home taught takes no room from what holds
            everywhere.

    Raises:
        ValueError: A limit is negative.
    """

    per_checkpoint: int = 6
    per_category: int = 3
    weakest_extra: int = 1
    max_active: int = 100

    def __post_init__(self) -> None:
        for name in ("per_checkpoint", "per_category", "weakest_extra", "max_active"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it is 0 or more")


class Decision(StrEnum):
    """The result of a change."""

    ADDED = "added"
    MERGED = "merged"
    """The skill equals another one, whose evidence was extended; no id was assigned."""
    REFINED = "refined"
    RETIRED = "retired"
    APPROVED = "approved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change and its result.

    Attributes:
        id: The skill that was created, changed or matched; "" if there is none.
        reason: One sentence.
    """

    change: Change
    decision: Decision
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """The outcome of every change, in the order of the proposals, and notes on an import."""

    outcomes: tuple[Outcome, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> tuple[str, ...]:
        """New ids."""
        return self._ids(Decision.ADDED)

    @property
    def merged(self) -> tuple[str, ...]:
        """Ids of skills that were proposed again."""
        return self._ids(Decision.MERGED)

    @property
    def refined(self) -> tuple[str, ...]:
        """Ids of skills with a new wording."""
        return self._ids(Decision.REFINED)

    @property
    def retired(self) -> tuple[str, ...]:
        """Ids of retired skills."""
        return self._ids(Decision.RETIRED)

    @property
    def approved(self) -> tuple[str, ...]:
        """Ids of skills that became active."""
        return self._ids(Decision.APPROVED)

    @property
    def refused(self) -> tuple[Outcome, ...]:
        """Outcomes of refused changes."""
        return tuple(one for one in self.outcomes if one.decision == Decision.REFUSED)

    def _ids(self, decision: Decision) -> tuple[str, ...]:
        return tuple(one.id for one in self.outcomes if one.decision == decision)


def apply(
    bank: Bank,
    changes: Sequence[Change],
    caps: GrowthCaps | None = None,
    *,
    weakest: str | None = None,
    is_near: IsNear = near_in_text,
) -> tuple[Bank, ChangeReport]:
    """Build the next version of a bank. Pure: equal arguments give equal banks.

    Retirements come first, because they make room, then refinements, approvals and additions, each
    in the order of the proposals. A skill that fails lint cannot become active.

    Args:
        bank: The current version.
        changes: The proposed changes.
        caps: Growth limits; ``None`` sets none.
        weakest: The category with the lowest success rate, which may grow by `weakest_extra` more;
            "" means the general skills.
        is_near: Whether two skills of one kind, category and scope have the same meaning.

    Returns:
        The next version, or ``bank`` itself if nothing changed, and the outcome of each change.
    """
    update = _Update(WorkingCopy(bank, is_near), caps, weakest)
    outcomes: dict[int, Outcome] = {}
    for kind in (Retire, Refine, Approve, Add):
        for position, change in enumerate(changes):
            if isinstance(change, kind):
                outcomes[position] = update.make(change)
    return update.copy.bank(), ChangeReport(tuple(outcomes[n] for n in range(len(changes))))


_Decided = tuple[Decision, str, str]


class _Update:
    """One update of a bank, and its use of the limits."""

    def __init__(self, copy: WorkingCopy, caps: GrowthCaps | None, weakest: str | None) -> None:
        self.copy = copy
        self._caps = caps
        self._weakest = weakest
        self._added: Counter[str] = Counter()
        self._extra = 0
        self._refined: set[str] = set()

    def make(self, change: Change) -> Outcome:
        match change:
            case Add(draft=draft):
                return Outcome(change, *self._add(draft))
            case Refine():
                return Outcome(change, *self._refine(change))
            case Retire(id=skill_id, reason=reason):
                return Outcome(change, *self._retire(skill_id, reason))
            case Approve(id=skill_id, reason=reason):
                return Outcome(change, *self._approve(skill_id, reason))
            case _:
                assert_never(change)

    def _add(self, draft: BankSkill) -> _Decided:
        if draft.status == SkillStatus.RETIRED:
            return Decision.REFUSED, "", "a skill is not added as a retired one"
        if twin := self.copy.twin(replace(draft, id="")):
            return self._merge(draft, *twin)
        wrong = self._fault(draft) or self._no_room(draft)
        if wrong:
            return Decision.REFUSED, "", wrong
        self._take_slot(draft.category)
        skill = self.copy.add(draft)
        return Decision.ADDED, skill.id, f"added to {_place(skill.category)} as {skill.id}"

    def _merge(self, draft: BankSkill, twin: BankSkill, how: str) -> _Decided:
        if twin.status == SkillStatus.RETIRED:
            return Decision.REFUSED, twin.id, f"it {how} {twin.id}, which was retired"
        self.copy.put(replace(twin, provenance=joined(twin.provenance, draft.provenance)))
        return (
            Decision.MERGED,
            twin.id,
            f"it {how} {twin.id}, so it gets no id of its own; its evidence joined {twin.id}",
        )

    def _refine(self, change: Refine) -> _Decided:
        old = self.copy.get(change.id)
        if old is None or old.status == SkillStatus.RETIRED:
            return Decision.REFUSED, change.id, self._missing(change.id)
        if change.id in self._refined:
            return Decision.REFUSED, old.id, f"{old.id} is refined in this update already"
        if change.counterfactual is not None and old.counterfactual is None:
            return Decision.REFUSED, old.id, f"{old.id} is no lesson, so it has no counterfactual"
        new = change.of(old)
        if new == old:
            return Decision.REFUSED, old.id, f"it says what {old.id} says already"
        if twin := self.copy.twin(new):
            other, how = twin
            return Decision.REFUSED, old.id, f"in the new words {old.id} {how} {other.id}"
        if wrong := self._fault(new):
            return Decision.REFUSED, old.id, wrong
        new = replace(
            new,
            version=self.copy.next_version(old),
            provenance=joined(old.provenance, change.provenance),
        )
        self._refined.add(old.id)
        self.copy.put(new)
        return Decision.REFINED, old.id, change.reason or f"{old.id} is at version {new.version}"

    def _retire(self, skill_id: str, reason: str) -> _Decided:
        old = self.copy.get(skill_id)
        if old is None or old.status == SkillStatus.RETIRED:
            return Decision.REFUSED, skill_id, self._missing(skill_id)
        self.copy.put(replace(old, status=SkillStatus.RETIRED))
        return Decision.RETIRED, skill_id, reason

    def _approve(self, skill_id: str, reason: str) -> _Decided:
        old = self.copy.get(skill_id)
        if old is None or old.status == SkillStatus.RETIRED:
            return Decision.REFUSED, skill_id, self._missing(skill_id)
        if old.status == SkillStatus.ACTIVE:
            return Decision.REFUSED, skill_id, f"{skill_id} is active already"
        new = replace(old, status=SkillStatus.ACTIVE)
        if wrong := self._fault(new) or self._full(new):
            return Decision.REFUSED, skill_id, wrong
        self.copy.put(new)
        return Decision.APPROVED, skill_id, reason

    def _missing(self, skill_id: str) -> str:
        if self.copy.get(skill_id) is not None:
            return f"{skill_id} is retired"
        return f"there is no skill {skill_id!r}. {did_you_mean(skill_id, self.copy.ids)}"

    def _fault(self, skill: BankSkill) -> str:
        """Return why lint blocks an active skill, or ""."""
        if skill.status != SkillStatus.ACTIVE:
            return ""
        return "; ".join(str(finding) for finding in lint(skill) if finding.blocks)

    def _no_room(self, draft: BankSkill) -> str:
        caps = self._caps
        if caps is None or not (wrong := self._no_slot(draft.category, caps)):
            return self._full(draft)
        if draft.category != self._weakest or self._extra >= caps.weakest_extra:
            return wrong
        return self._full(draft)

    def _no_slot(self, category: str, caps: GrowthCaps) -> str:
        if self._added[category] >= caps.per_category:
            return f"{_place(category)} has its {caps.per_category} additions of this update"
        if self._added.total() >= caps.per_checkpoint:
            return f"this update has its {caps.per_checkpoint} additions"
        return ""

    def _take_slot(self, category: str) -> None:
        """Count an addition: within its category's limit, else as an extra one of the weakest."""
        # Extra additions do not reduce the slots of other categories.
        if self._caps is not None and self._no_slot(category, self._caps):
            self._extra += 1
        else:
            self._added[category] += 1

    def _full(self, skill: BankSkill) -> str:
        if self._caps is None or skill.status != SkillStatus.ACTIVE:
            return ""
        if self.copy.active_in(skill.scope) < self._caps.max_active:
            return ""
        where = f"the scope {skill.scope!r}" if skill.scope else "the bank"
        return f"{where} has its {self._caps.max_active} active skills; retire one first"


def _place(category: str) -> str:
    return f"the category {category!r}" if category else "the skills of every category"
