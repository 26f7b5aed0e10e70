"""Skills from the session logs of coding agents."""

from skillwright.entry_points import Command

COMMAND = Command(
    "skillwright.plugins.sessions.command:learn",
    "Learn skills from session logs of coding agents, and stage the proven ones.",
    "Skills",
    before="verify",
)
