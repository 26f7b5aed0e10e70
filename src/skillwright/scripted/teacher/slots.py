"""How many skills an update may still add."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from skillwright.scripted.teacher.prompt import Assignment


class Slots:
    """The additions of one update."""

    def __init__(self, asked: Assignment) -> None:
        self._limits = asked.limits
        self._weakest = asked.weakest
        self._added: Counter[str] = Counter()
        self._extra = 0

    def within(self, changes: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Leave out the additions for which there is no room."""
        for change in changes:
            if change["op"] != "add" or self._take(change.get("category", "")):
                yield change

    def _take(self, category: str) -> bool:
        limits = self._limits
        full = self._added[category] >= limits.per_category
        if not full and self._added.total() < limits.total:
            self._added[category] += 1
            return True
        if category == self._weakest and self._extra < limits.extra:
            self._extra += 1
            return True
        return False
