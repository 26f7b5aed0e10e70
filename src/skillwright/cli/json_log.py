"""Structured logs: with ``SKILLWRIGHT_LOG=json`` standard error is one JSON object a line.

There is one object per event of a job, which replaces the panel and the plain lines, and one per
message and warning. The variable is no setting of a run, because it changes no result.
"""

import json
import logging
import math
import os
import sys
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from skillwright.core.secrets import Redactor, environment_secrets

VARIABLE: Final = "SKILLWRIGHT_LOG"


def wants_json_log() -> bool:
    """Tell whether standard error is to be JSON lines."""
    return os.environ.get(VARIABLE, "") == "json"


def why_no_log() -> str:
    """Return an error message for an invalid value, or ""."""
    said = os.environ.get(VARIABLE, "")
    return "" if said in ("", "json") else f"{VARIABLE} is {said!r}; set it to json, or unset it"


class JsonFormatter(logging.Formatter):
    """Formats warnings as lines of the log."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, traceback included."""
        return _line("warning", {"text": super().format(record)})


def write_line(event: str, facts: dict[str, Any]) -> None:
    """Write a line to standard error, at once."""
    sys.stderr.write(_line(event, facts) + "\n")
    sys.stderr.flush()


def _line(event: str, facts: dict[str, Any]) -> str:
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    # ASCII only, so that it holds no terminal control sequences.
    known = _redactor().facts(_finite(facts))
    return json.dumps({"time": time, "event": event, **known})


@cache
def _redactor() -> Redactor:
    return Redactor(environment_secrets())


def _finite(value: Any) -> Any:
    """Return a JSON value with NaN and infinities as null."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list():
            return [_finite(item) for item in value]
        case _:
            return value
