"""Standard output is ours: what the code of others prints goes to standard error.

An adapter or an environment that prints would else spoil ``--json``.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, TextIO

_OUTPUT, _ERRORS = 1, 2

_ours: list[TextIO] = []


class OwnOutput:
    """A stream that writes to standard output, whatever becomes of ``sys.stdout`` meanwhile."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_ours[0] if _ours else sys.stdout, name)


@contextmanager
def others_to_stderr() -> Iterator[None]:
    """Let what is printed meanwhile go to standard error, but for what `OwnOutput` writes."""
    if _ours:
        yield
        return
    _ours.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _ours.clear()


def keep_output_to_ourselves() -> None:
    """Let what children of this process print go to standard error too, from now on."""
    own = sys.stdout
    if not isinstance(own, io.TextIOWrapper) or own.fileno() != _OUTPUT:
        return
    own.flush()
    kept = os.fdopen(
        os.dup(_OUTPUT),
        "w",
        encoding=own.encoding,
        errors=own.errors,
        buffering=1 if own.line_buffering else -1,
    )
    os.dup2(_ERRORS, _OUTPUT)
    sys.stdout = kept
