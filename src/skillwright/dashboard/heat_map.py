"""The heat map of a run: the results of each task under each version of the skill."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillwright.dashboard.reading import RunReader
from skillwright.jobs.inspect import is_flipped


@dataclass(frozen=True, slots=True)
class Cell:
    """Results of a task under a version of the skill."""

    scored: int
    solved: int
    failed: int
    episode: int

    @property
    def share(self) -> float | None:
        """Share of scored attempts that were solved; ``None`` without a score."""
        return self.solved / self.scored if self.scored else None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Tasks by versions.

    Attributes:
        versions: Keys of versions: the document's in order, then others as they were first played.
        tasks: (task id, task type), by type and id.
        cells: By (task id, version).
    """

    versions: tuple[str, ...]
    tasks: tuple[tuple[str, str], ...]
    cells: Mapping[tuple[str, str], Cell]

    def flips(self, a: str, b: str) -> list[tuple[str, str, Cell, Cell]]:
        """List (task, type, cell of A, cell of B) of tasks that exactly one version solved."""
        found = []
        for task, task_type in self.tasks:
            first, second = self.cells.get((task, a)), self.cells.get((task, b))
            if first is None or second is None or first.share is None or second.share is None:
                continue
            if is_flipped(first.share, second.share):
                found.append((task, task_type, first, second))
        return sorted(found, key=lambda one: (one[2].share or 0) - (one[3].share or 0))


def heat_map(reader: RunReader, phases: Sequence[str]) -> HeatMap:
    """Return the results of each task under each version, in some phases."""
    marks = ",".join("?" * len(phases))
    rows = reader.database.rows(
        f"""SELECT task_id, max(task_type) AS task_type, {reader.versions.column} AS version,
                sum(reward IS NOT NULL) AS scored,
                coalesce(sum(coalesce(hard, reward) >= ?), 0) AS solved,
                sum(reward IS NULL) AS failed, max(id) AS latest, min(id) AS first
            FROM episodes e WHERE phase IN ({marks})
            GROUP BY task_id, version""",
        (reader.threshold, *phases),
    )
    first: dict[str, int] = {}
    tasks: dict[str, str] = {}
    cells = {}
    for row in rows:
        version, task = row["version"], row["task_id"]
        first[version] = min(row["first"], first.get(version, row["first"]))
        tasks[task] = row["task_type"]
        cells[task, version] = Cell(row["scored"], row["solved"], row["failed"], row["latest"])
    ordered = sorted(tasks.items(), key=lambda one: (one[1], one[0]))
    versions = sorted(first, key=lambda one: (reader.versions.place(one), first[one]))
    return HeatMap(tuple(versions), tuple(ordered), cells)
