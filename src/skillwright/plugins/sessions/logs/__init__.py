"""Requests, outcomes and corrections from the logs of Claude Code, Codex and OpenCode.

Texts of tools, files and models serve to recognize quotations and exit codes, and are never kept.
"""

from skillwright.plugins.sessions.logs.cleaning import Untrusted as Untrusted
from skillwright.plugins.sessions.logs.cleaning import clean as clean
from skillwright.plugins.sessions.logs.cleaning import command_head as command_head
from skillwright.plugins.sessions.logs.reading import Found as Found
from skillwright.plugins.sessions.logs.reading import Ran as Ran
from skillwright.plugins.sessions.logs.reading import Said as Said
from skillwright.plugins.sessions.logs.reading import default_folders as default_folders
from skillwright.plugins.sessions.logs.reading import read_sessions as read_sessions
from skillwright.plugins.sessions.logs.requests import Outcome as Outcome
from skillwright.plugins.sessions.logs.requests import Request as Request
from skillwright.plugins.sessions.logs.requests import requests_of as requests_of
