"""What both kinds of environments of `verifiers` share: names, errors in words, quiet imports."""

import importlib
import importlib.util
import signal
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pydantic import ValidationError

from skillwright.core import ToolCall

PREFIX: Final = "verifiers"
_SHOWN_CHARS: Final = 300

Ask = Callable[[Any, Any], Awaitable[tuple[str, Sequence[ToolCall]] | None]]
"""Ask our agent: messages and tools in verifiers' format; ``None`` where its turns are used up."""


def said(error: BaseException) -> str:
    """Format an error on one line."""
    shown = str(error)
    if isinstance(error, ValidationError):  # its own text ends with a link, and repeats the value
        where = (".".join(map(str, one["loc"])) for one in error.errors())
        shown = "; ".join(
            f"{place}: {one['msg']}" for place, one in zip(where, error.errors(), strict=True)
        )
    text = " ".join(shown.split())[:_SHOWN_CHARS]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Undo side effects of loading: signal handlers, progress bars, warnings."""
    before = signal.signal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bars = importlib.import_module("datasets.utils.logging") if _has("datasets") else None
        shown = bars is not None and bars.is_progress_bar_enabled()
        if bars is not None:
            bars.disable_progress_bar()
        # Verifiers installs a handler for Ctrl-C, which runs need; in a thread that would raise.
        signal.signal = lambda *_: None
        try:
            yield
        finally:
            signal.signal = before
            if bars is not None and shown:
                bars.enable_progress_bar()


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
