"""A bank against the bank that it wants to replace: the same agent, tasks and luck."""

from collections.abc import Callable

from skillwright.bank.bank import Bank
from skillwright.core import SkillSource
from skillwright.datasets import ValTasks
from skillwright.evaluation import Draws, SkillDuel
from skillwright.rollout import Engine

MakeSource = Callable[[Bank], SkillSource]
"""Makes a bank tell tasks their skills; for both sides alike."""


def candidate_sources(
    bank: Bank, changed: Bank, make_source: MakeSource
) -> tuple[SkillSource, SkillSource]:
    """Return what agents are told by the bank that stands, and by the one that wants its place."""
    return make_source(bank), make_source(changed)


def bank_duel(
    engine: Engine,
    val: ValTasks,
    sources: tuple[SkillSource, SkillSource],
    draws: Draws,
) -> SkillDuel:
    """Pair both sides by task for a gate.

    Only tasks that decide may be drawn. A task that is told the same by both sides is played once.

    Args:
        engine: Plays the episodes.
        val: The tasks that decide.
        sources: The incumbent and the candidate.
        draws: Where the count of draws begins.
    """
    incumbent, candidate = sources
    return SkillDuel(engine, val.tasks, incumbent, candidate, draws)
