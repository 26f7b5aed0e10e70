"""Banks to begin with, written for this project: what the environments' own rules imply.

The files in ``seeds/`` are of the interchange form, so they are also an example of it.
"""

from importlib import resources
from typing import Final

from skillwright.bank.bank import Bank
from skillwright.bank.formats.interchange import from_json
from skillwright.core import UsageError, did_you_mean

SEED_BANKS: Final = ("alfworld", "tau_bench", "webshop")
"""The environments that have a seed bank."""


def seed_bank(name: str) -> Bank:
    """Return the seed bank of an environment, at version 1.

    ALFWorld's has 55 items: 12 general skills, 32 for the six categories of tasks, 11 lessons.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in SEED_BANKS:
        raise UsageError(f"there is no seed bank {name!r}. {did_you_mean(name, SEED_BANKS)}")
    file = resources.files("skillwright.bank") / "seeds" / f"{name}.json"
    return from_json(file.read_text(encoding="utf-8"), f"the seed bank {name!r}")
