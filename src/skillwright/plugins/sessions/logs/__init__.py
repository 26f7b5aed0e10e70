"""Requests, outcomes and corrections from the logs of Claude Code, Codex and OpenCode.

Texts of tools, files and models serve to recognize quotations and exit codes, and are never kept.
"""

from skillwright.plugins.sessions.logs.cleaning import Cleaned, Untrusted, clean, command_head
from skillwright.plugins.sessions.logs.reading import (
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
from skillwright.plugins.sessions.logs.requests import Attempt, Check, Outcome, Request, requests_of

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
