"""A bank in the making: the skills of the last version, and what a change does to them."""

from bisect import insort
from collections import Counter, defaultdict
from dataclasses import replace

from skillwright.bank.bank import Bank, make_id, prefix_of
from skillwright.bank.near import IsNear, block_of
from skillwright.core import BankSkill, Provenance, SkillStatus

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
