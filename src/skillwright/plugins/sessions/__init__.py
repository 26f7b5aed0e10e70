"""Session logs of coding agents as evidence: what was asked, how it went, and what users said.

Read are the logs that Claude Code, Codex and OpenCode keep. What tools, files and models said is
used to recognize quotations and exit codes, and is never kept.
"""

from skillwright.plugins.sessions.cleaning import Cleaned, Untrusted, clean, command_head
from skillwright.plugins.sessions.logs import (
    Event,
    Found,
    Interrupted,
    LeftOut,
    Ran,
    Said,
    Session,
    default_folders,
    read_sessions,
)
from skillwright.plugins.sessions.requests import (
    Attempt,
    Check,
    Outcome,
    Request,
    requests_of,
)

__all__ = [
    "Attempt",
    "Check",
    "Cleaned",
    "Event",
    "Found",
    "Interrupted",
    "LeftOut",
    "Outcome",
    "Ran",
    "Request",
    "Said",
    "Session",
    "Untrusted",
    "clean",
    "command_head",
    "default_folders",
    "read_sessions",
    "requests_of",
]
