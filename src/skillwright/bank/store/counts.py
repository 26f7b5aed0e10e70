"""Statistics of skills: counted as episodes end, and frozen into each version."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skillwright.bank.bank import SkillStats
from skillwright.bank.store.file import BankFile

_STATS_AS_OF = """
    SELECT skills.id, stats.retrieved, stats.episodes, stats.wins, max(stats.version)
    FROM stats JOIN skills ON skills.number = stats.skill
    WHERE stats.version <= ? GROUP BY stats.skill ORDER BY stats.skill
"""
_ADD = """
    INSERT INTO counts SELECT number, ?, ?, ? FROM skills WHERE id = ?
    ON CONFLICT (skill) DO UPDATE SET retrieved = retrieved + excluded.retrieved,
        episodes = episodes + excluded.episodes, wins = wins + excluded.wins
"""
_FREEZE = """
    INSERT INTO stats SELECT counts.skill, ?, counts.retrieved, counts.episodes, counts.wins
    FROM counts LEFT JOIN (
        SELECT skill, retrieved, episodes, wins, max(version) FROM stats GROUP BY skill
    ) AS last ON last.skill = counts.skill
    WHERE last.skill IS NULL OR (counts.retrieved, counts.episodes, counts.wins)
        <> (last.retrieved, last.episodes, last.wins)
"""


@dataclass(frozen=True, slots=True)
class CountedEpisode:
    """An episode whose agent was told skills.

    Attributes:
        key: Names it; an episode is counted once. "" is counted every time.
        skill_ids: What its agent was told.
        won: Whether it was won; ``None`` where a fault ended it, which says nothing of the skills.
    """

    key: str
    skill_ids: tuple[str, ...]
    won: bool | None


class CountTable:
    """The tables ``counts``, ``counted`` and ``stats`` of a bank's file."""

    def __init__(self, file: BankFile) -> None:
        self._file = file

    def add(self, episodes: Iterable[CountedEpisode]) -> None:
        """Count episodes that were not counted yet; ids that the bank never had are passed over."""
        for episode in episodes:
            if episode.key and not self._file.rows(
                "INSERT OR IGNORE INTO counted VALUES (?) RETURNING episode", (episode.key,)
            ):
                continue
            scored = int(episode.won is not None)
            self._file.write_many(
                _ADD,
                [
                    (1, scored, int(bool(episode.won)), skill_id)
                    for skill_id in dict.fromkeys(episode.skill_ids)
                ],
            )

    def begin(self, stats: Mapping[str, SkillStats]) -> None:
        """Take over the statistics of a bank that comes into an empty store."""
        self._file.write_many(
            _ADD, [(one.retrieved, one.episodes, one.wins, key) for key, one in stats.items()]
        )

    def freeze(self, version: int) -> None:
        """Make the totals of now those of a version."""
        self._file.rows(_FREEZE, (version,))

    def as_of(self, version: int) -> dict[str, SkillStats]:
        """Return the totals of a version, by id."""
        rows = self._file.rows(_STATS_AS_OF, (version,))
        return {row[0]: SkillStats(row[1], row[2], row[3]) for row in rows}

    def totals(self) -> dict[str, SkillStats]:
        """Return the totals of now, by id."""
        rows = self._file.rows(
            "SELECT id, retrieved, episodes, wins FROM counts JOIN skills ON number = skill"
            " ORDER BY number"
        )
        return {row[0]: SkillStats(row[1], row[2], row[3]) for row in rows}
