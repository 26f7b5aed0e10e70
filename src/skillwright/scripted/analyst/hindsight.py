"""What an optimiser writes at an epoch's end, from the same tasks under two skills."""

from collections.abc import Sequence
from typing import Final

from skillwright.core.jsonio import digest
from skillwright.core.seeds import derive_seed
from skillwright.scripted.analyst.diagnosis import Diagnosis, diagnose
from skillwright.scripted.analyst.episode import read_episodes
from skillwright.scripted.analyst.lessons import LESSONS
from skillwright.scripted.analyst.prompt import Reply, Retrospect, read_retrospect
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.skilltext import BAD_RULES, Conduct, read_conduct

_MOST_LESSONS: Final = 3
_FAILING: Final = ("regressed", "persistent_fail")


def slow_update(user: str, seed: int) -> Reply:
    """Answer a slow-update prompt: teach what failing games lack, and keep earlier guidance."""
    told = read_retrospect(user)
    conduct = read_conduct(told.skill)
    lacking = [one for one in _mistakes(told) if _is_lacking(one, conduct)][:_MOST_LESSONS]
    luck = Luck(derive_seed("slow update", seed, digest([told.skill, told.previous])))
    lessons = [f"- {luck.pick(f'word {one.rule}', LESSONS[one.rule].wordings)}" for one in lacking]
    named = "; ".join(LESSONS[one.rule].failure for one in lacking)
    return {
        "reasoning": f"What fails still: {named or 'nothing that a rule would change'}.",
        "slow_update_content": "\n".join([*told.earlier.split("\n"), *lessons]).strip(),
    }


def remember(user: str) -> Reply:
    """Answer a meta-skill prompt: name the mistakes that persist, and what was learned."""
    told = read_retrospect(user)
    before, now = read_conduct(told.previous), read_conduct(told.skill)
    learned = [r for r in LESSONS if r not in BAD_RULES and now.follows(r) > before.follows(r)]
    notes = [
        *(f"- This still happens: {LESSONS[one.rule].failure}." for one in _mistakes(told)),
        *(f"- The last epoch taught against this: {LESSONS[rule].failure}." for rule in learned),
    ]
    return {
        "reasoning": f"{len(told.trajectories)} games were played under both skills.",
        "meta_skill_content": "\n".join(notes),
    }


def _mistakes(told: Retrospect) -> Sequence[Diagnosis]:
    """Find what went wrong under the current skill, regressions first."""
    found: dict[str, Diagnosis] = {}
    for category in _FAILING:
        shown = [one for one in told.trajectories if one.outcome == category]
        for one in diagnose(read_episodes(shown)):
            found.setdefault(one.rule, one)
    return list(found.values())


def _is_lacking(one: Diagnosis, conduct: Conduct) -> bool:
    return conduct.follows(one.rule) == (one.rule in BAD_RULES)
