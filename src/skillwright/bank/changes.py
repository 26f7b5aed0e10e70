"""How a bank becomes the next one: add, refine, retire and approve, within limits of growth.

Ids are given out once. What is a duplicate of a skill, or says nearly the same, is not added; its
evidence joins that skill's. What is over a limit is refused, with the reason.

Source: SkillRL (arXiv 2602.08234), requirements R12-R15. Its released code numbered additions by
another bank than the one that they went to, so that growth stopped at three.
"""

import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, assert_never

import numpy as np

from skillwright.bank.bank import Bank, make_id, prefix_of
from skillwright.bank.embedding.embedders import Embedder
from skillwright.bank.lint.lint import lint
from skillwright.core import BankSkill, Counterfactual, Provenance, SkillStatus, did_you_mean

# When two skills say the same in other words.


IsNear = Callable[[BankSkill, BankSkill], bool]
"""Tells whether two skills of the same kind, category and scope say the same."""

SIMILAR_TEXT = 0.85
SIMILAR_MEANING = 0.9

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")


class EncodesSkills(Protocol):
    """What is needed of an embedder here."""

    def encode_skills(self, texts: list[str]) -> Any:
        """Return unit rows, float32, shape ``[n, d]``."""
        ...


def only_equal(one: BankSkill, other: BankSkill) -> bool:
    """Call no two skills near; equal ones are found without a test."""
    return False


def near_in_text(one: BankSkill, other: BankSkill) -> bool:
    """Tell whether two skills have the same name and nearly the same text, and equal numbers."""
    if _normalized(one.name) != _normalized(other.name):
        return False
    first, second = _normalized(one.text), _normalized(other.text)
    if _NUMBER.findall(first) != _NUMBER.findall(second):
        return False
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # the cheapest first
    return all(ratio() >= SIMILAR_TEXT for ratio in bounds)


def block_of(is_near: IsNear, skill: BankSkill) -> str:
    """Return what near skills have in common, so that skills of other blocks are not compared."""
    if is_near is near_in_text:
        numbers = _NUMBER.findall(_normalized(skill.text))
        return " ".join([_normalized(skill.name), *numbers])
    return skill.id if is_near is only_equal else ""


def near_in_meaning(embedder: EncodesSkills, threshold: float = SIMILAR_MEANING) -> IsNear:
    """Return a test that also calls skills near whose embeddings have at least this cosine.

    Args:
        embedder: Encodes each text once, as long as the test is kept.
        threshold: A cosine; scales differ between embedders, so calibrate it.
    """
    vectors: dict[str, Any] = {}

    def vector(text: str) -> Any:
        if text not in vectors:
            vectors[text] = np.asarray(embedder.encode_skills([text]))[0]
        return vectors[text]

    def is_near(one: BankSkill, other: BankSkill) -> bool:
        if near_in_text(one, other):
            return True
        return bool(float(vector(one.text) @ vector(other.text)) >= threshold)

    return is_near


def nearness(embedder: Embedder) -> IsNear:
    """Return when two skills say the same: by meaning where a model can tell, else by text."""
    return near_in_text if embedder.identity.startswith("lexical") else near_in_meaning(embedder)


@lru_cache(maxsize=65_536)
def _normalized(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


# A bank in the making: the skills of the last version, and what a change does to them.


Block = tuple[str, str, str, str]


class WorkingCopy:
    """What a bank becomes, change by change.

    Args:
        bank: What it is before.
        is_near: Whether two skills say the same in other words.
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
        """Return the skill of an id as it is now."""
        return self._skills.get(skill_id)

    @property
    def ids(self) -> list[str]:
        """All ids there are now."""
        return list(self._skills)

    def active_in(self, scope: str) -> int:
        """Count the active skills of a scope."""
        return self._active[scope]

    def next_version(self, skill: BankSkill) -> int:
        """Return the number of a skill's next version, which no other words ever had."""
        return max(skill.version, self._issued.get(skill.id, 0)) + 1

    def twin(self, skill: BankSkill) -> tuple[BankSkill, str] | None:
        """Find another skill that says the same, and say how: equal, or nearly.

        A retired skill is found only where the words are equal, so that a better wording of what
        was retired may come in.
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
        """Put a skill in under an id that nothing ever had."""
        prefix = prefix_of(draft.kind)
        self._issued[prefix] += 1
        skill = replace(draft, id=make_id(draft.kind, self._issued[prefix]), version=1)
        self._order[skill.id] = len(self._order)
        self.put(skill)
        return skill

    def put(self, skill: BankSkill) -> None:
        """Put a skill in, in the place of the one with its id."""
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
        # Known already; ten thousand digests take a tenth of a second.
        made.__dict__["content_digests"] = self._digests
        return made


def joined(known: Provenance, new: Provenance | None) -> Provenance:
    """Add evidence to what is known: episodes and turns, each once, in the order they came."""
    if new is None:
        return known
    return replace(
        known,
        episodes=tuple(dict.fromkeys((*known.episodes, *new.episodes))),
        turns=tuple(dict.fromkeys((*known.turns, *new.turns))),
    )


@dataclass(frozen=True, slots=True)
class Add:
    """Add a skill.

    Attributes:
        draft: The skill; its id and version are replaced, and its status is active or pending.
    """

    draft: BankSkill


@dataclass(frozen=True, slots=True)
class Refine:
    """Say a skill in better words: the same id, one version up.

    Attributes:
        id: Which.
        name: The new name; ``None`` keeps the old one, as below.
        principle: What to do.
        applicability: When to do it.
        counterfactual: What the failure was; lessons only.
        provenance: What the new words were learned from; it joins what is known already.
        reason: Why.
    """

    id: str
    name: str | None = None
    principle: str | None = None
    applicability: str | None = None
    counterfactual: Counterfactual | None = None
    provenance: Provenance | None = None
    reason: str = ""

    def of(self, old: BankSkill) -> BankSkill:
        """Return a skill in the new words; what is not said anew stays."""
        words = ("name", "principle", "applicability", "counterfactual")
        said = {key: getattr(self, key) for key in words}
        return replace(old, **{key: text for key, text in said.items() if text is not None})


@dataclass(frozen=True, slots=True)
class Retire:
    """Stop injecting a skill; it stays in the bank, and its id stays its own.

    Attributes:
        id: Which.
        reason: Why.
    """

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Approve:
    """Make a pending skill active, once it has passed lint and gate.

    Attributes:
        id: Which.
        reason: What it passed.
    """

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
    """What became of a change."""

    ADDED = "added"
    MERGED = "merged"
    """It says what another skill says; its evidence joined that skill's, and no id was given."""
    REFINED = "refined"
    RETIRED = "retired"
    APPROVED = "approved"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A change, and what became of it.

    Attributes:
        change: What was proposed.
        decision: What became of it.
        id: The skill that it made or touched, or that it says the same as; "" where there is none.
        reason: Why, in a sentence.
    """

    change: Change
    decision: Decision
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What became of every change, in the order in which they were proposed."""

    outcomes: tuple[Outcome, ...] = ()

    @property
    def added(self) -> tuple[str, ...]:
        """The ids that were given out."""
        return self._ids(Decision.ADDED)

    @property
    def merged(self) -> tuple[str, ...]:
        """The skills that were proposed again."""
        return self._ids(Decision.MERGED)

    @property
    def refined(self) -> tuple[str, ...]:
        """The skills that have new words."""
        return self._ids(Decision.REFINED)

    @property
    def retired(self) -> tuple[str, ...]:
        """The skills that are injected no more."""
        return self._ids(Decision.RETIRED)

    @property
    def approved(self) -> tuple[str, ...]:
        """The pending skills that became active."""
        return self._ids(Decision.APPROVED)

    @property
    def refused(self) -> tuple[Outcome, ...]:
        """What did not happen."""
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
    """Make the next version of a bank. Pure: the same arguments give the same bank.

    Retirements come first, because they make room, then refinements, approvals and additions,
    each kind in the order in which it was proposed. A skill that fails lint cannot become active.

    Args:
        bank: The bank as it is.
        changes: What is proposed.
        caps: How far it may grow; ``None`` sets no limit.
        weakest: The category with the lowest success, which may grow by `weakest_extra` more; ""
            stands for the general skills.
        is_near: Whether two skills of one kind, category and scope say the same.

    Returns:
        The next version, or ``bank`` itself where nothing changed, and what became of each change.
    """
    update = _Update(WorkingCopy(bank, is_near), caps, weakest)
    outcomes: dict[int, Outcome] = {}
    for kind in (Retire, Refine, Approve, Add):
        for position, change in enumerate(changes):
            if isinstance(change, kind):
                outcomes[position] = update.make(change)
    return update.copy.bank(), ChangeReport(tuple(outcomes[n] for n in range(len(changes))))


_Decided = tuple[Decision, str, str]
"""What became of a change, the skill, and why."""


class _Update:
    """One update of a bank, and how much of its limits is used up."""

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
        """Say why a skill may not become active; "" where it may, or is not going to."""
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
        # The extra slots of the weakest category take nothing from the others.
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
