"""The commands that the worlds add to the program."""

from skillwright.entry_points import Command

DATA = Command(
    "skillwright.worlds.data:app",
    "Fetch official data, and see what is there.",
    "Data and environments",
)
