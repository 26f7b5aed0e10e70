"""Which stored episodes may teach or rate a skill, and what became of those that had one."""

from collections.abc import Iterator

from skillwright.bank import BankStore, CountedEpisode
from skillwright.runs import EpisodeSummary, RunStore

MADE = "made"
STUDIED_SPLITS = frozenset({"train", "survey"})
"""Where tasks come from that may be studied: `Task.split`."""
_DECIDING_PHASES = frozenset({"gate", "release", "val", "test", "confirm", "baseline"})


def may_be_studied(episode: EpisodeSummary) -> bool:
    """Tell whether a stored episode is of a task that neither decides nor is reported.

    What a skill is worth decides what is injected first, so no skill and no rate may come from
    tasks that decide or are reported.
    """
    return episode.split in STUDIED_SPLITS and episode.phase not in _DECIDING_PHASES


def count_use(runs: RunStore, bank: BankStore, success_threshold: float) -> None:
    """Count the episodes of a run in the bank that their agents were told; each counts once."""
    bank.count(_counted(runs, success_threshold))


def _counted(runs: RunStore, threshold: float) -> Iterator[CountedEpisode]:
    made = runs.events(MADE)
    # Another run's equal episode is evidence of its own.
    run = f"{runs.folder.name}@{made[0].time}" if made else runs.folder.name
    for one in runs.episodes():
        if not one.skill_ids or not may_be_studied(one):
            continue
        score = one.reward if one.hard is None else one.hard
        if score is None:
            # Its retry has the same key, and must count as well.
            yield CountedEpisode(f"{run}:{one.key}:{one.id}", one.skill_ids, None)
        else:
            yield CountedEpisode(f"{run}:{one.key}", one.skill_ids, score >= threshold)
