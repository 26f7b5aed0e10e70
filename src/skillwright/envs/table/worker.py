"""Runs scorers in a process of their own, which can be stopped, unlike a thread.

This file is the program of that process. It reads one request per line, and writes one answer per
line. Output of a scorer goes to standard error.
"""

import asyncio
import inspect
import json
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any


def main(entry_point: str) -> None:
    """Answer questions until the parent closes the pipe."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        score = _found(entry_point)
    except BaseException as error:  # noqa: BLE001 - whatever an import raises is what we report
        _write(answers, {"broken": describe(error)})
        return
    _write(answers, {"ready": True})
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = read_score(score(question))
        except BaseException as error:  # noqa: BLE001 - whatever a scorer raises is what we report
            answer = {"raised": describe(error)}
        _write(answers, answer)


def _found(entry_point: str) -> Callable[[Mapping[str, Any]], Any]:
    if not entry_point:
        return lambda asked: float(re.search(asked["pattern"], asked["reply"]) is not None)
    from skillwright.core.found_code import find_code

    function = find_code(entry_point, "the scorer")
    if not callable(function):
        raise TypeError(f"{entry_point} is a {type(function).__name__}, not a function")
    if inspect.iscoroutinefunction(function):
        return lambda asked: asyncio.run(function(asked["row"], asked["reply"]))
    return lambda asked: function(asked["row"], asked["reply"])


def read_score(value: Any) -> dict[str, Any]:
    """Read a scorer's result: a number from 0 to 1, maybe with feedback.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not from 0 to 1.
    """
    feedback = ""
    if isinstance(value, tuple) and len(value) == 2:
        value, feedback = value
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(
            f"it returned {value!r:.200}; return a number from 0 to 1, or (number, feedback)"
        )
    score = snapped(float(value))
    if not (math.isfinite(score) and 0 <= score <= 1):
        raise ValueError(f"it returned {score}; a score is a number from 0 to 1")
    return {"score": score, "feedback": str(feedback)}


def snapped(score: float) -> float:
    """Round a score within 1e-6 of 0 or 1, which sums of weights may miss."""
    nearest = 1.0 if score > 0.5 else 0.0
    return nearest if abs(score - nearest) <= 1e-6 else score


def describe(error: BaseException) -> str:
    """Describe an error, with the line of the scorer that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)})"  # noqa: PTH119 - a user's file
    inside = where if frames and frames[-1].filename != __file__ else ""
    return f"{type(error).__name__}: {error}{inside}"


def _write(answers: Any, answer: Mapping[str, Any]) -> None:
    try:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    except BrokenPipeError:
        os._exit(1)  # the parent is gone


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])
    main(sys.argv[1])
