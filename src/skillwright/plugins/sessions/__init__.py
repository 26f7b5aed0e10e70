"""Skills from the session logs of coding agents."""

from skillwright.entry_points import Command

COMMAND = Command(
    "skillwright.plugins.sessions.command:learn",
    "Learn skills from the session logs of coding agents; what is proven is staged for them.",
    "Skills",
    before="verify",
)
