"""``skillwright view`` and ``skillwright report``."""

import asyncio
import socket
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from skillwright.cli.errors import refusing
from skillwright.core import UsageError
from skillwright.dashboard import html_report, make_app, markdown_report, new_token
from skillwright.jobs import find_run
