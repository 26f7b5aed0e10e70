"""Values of a skill's sections, as measured by `skill ablate`; the file is untrusted."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skillwright.core import DataError, RunError
from skillwright.core.jsonio import JsonRecord, read_text
from skillwright.runs.folder import ABLATION_NAME

_MOST_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class SectionValue(JsonRecord):
    """The value of a section.

    Attributes:
        first_line: First line in the skill, from 1.
        last_line: Last line, inclusive.
        value: Mean reward with the section minus without it; ``None`` without scores.
        interval: Bounds, simultaneous over all sections, or ``None``.
        lost: Pairs without a score because of a fault.
    """

    title: str
    first_line: int
    last_line: int
    value: float | None
    interval: tuple[float, float] | None
    pairs: int
    lost: int
    proposal: Literal["keep", "delete", "undecided"]


@dataclass(frozen=True, slots=True)
class Ablation(JsonRecord):
    """The measured values of a skill's sections.

    Attributes:
        skill_version: Hash of the skill's text.
    """

    skill: str
    skill_version: str
    split: str
    sections: tuple[SectionValue, ...]

    def at(self, line: int) -> SectionValue | None:
        """Return the innermost section of a line, or ``None``."""
        inside = [one for one in self.sections if one.first_line <= line <= one.last_line]
        return min(inside, key=lambda one: one.last_line - one.first_line, default=None)


def read_ablation(folder: Path) -> Ablation | None:
    """Read a run's ablation, or return ``None``.

    Raises:
        RunError: The file is malformed.
    """
    path = folder / ABLATION_NAME
    if not path.is_file():
        return None
    try:
        return _checked(Ablation.from_dict(json.loads(_short_text(path))))
    except (DataError, ValueError, RecursionError) as error:
        raise RunError(
            f"{ABLATION_NAME} is damaged ({error}); measure again with "
            f"`skillwright skill ablate {folder}`"
        ) from error


def _short_text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        raise DataError(f"it has more than {_MOST_BYTES:,} bytes")
    return read_text(path, "ablation")


def _checked(found: Ablation) -> Ablation:
    for one in found.sections:
        numbers = (one.value or 0.0, *(one.interval or ()))
        if not 1 <= one.first_line <= one.last_line or not all(map(math.isfinite, numbers)):
            raise DataError(f"section {one.title[:80]!r} has no lines or no finite value")
    return found
