"""Which test tickets of a finished run were solved, and which of them are alike."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from desks.data import read_splits
from rows_study.one_run import digits
from skillwright.core import SkillwrightError
from skillwright.jobs.inspect import export_run


def outcomes(run: Path, data: Path, artifacts: Iterable[str]) -> dict[str, Any]:
    """Read the test of a run, ticket by ticket.

    Args:
        run: The run's folder.
        data: Where its tickets are.
        artifacts: What was tested.

    Returns:
        ``solved``: artifact -> a digit per ticket, 1 if solved. ``clusters``: ``shop``, ``first``
        and ``second`` -> a number per ticket; tickets with equal numbers share their shop, or their
        first or second clause.

    Raises:
        SkillwrightError: A ticket of the test has no score.
    """
    test = read_splits(data)["test"]
    scored: dict[str, dict[str, bool]] = defaultdict(dict)
    with TemporaryDirectory() as folder:
        file = Path(folder, "episodes.jsonl")
        export_run(str(run), file)
        for line in file.read_text(encoding="utf-8").split("\n")[:-1]:
            one = json.loads(line)
            for artifact in one["tested"]:
                scored[artifact][one["task_id"]] = one["solved"]
    solved = {}
    for artifact in artifacts:
        found = [scored[artifact].get(item["id"]) for item in test]
        if None in found:
            lacking = test[found.index(None)]["id"]
            raise SkillwrightError(f"ticket {lacking} of {run} has no score under {artifact!r}")
        solved[artifact] = digits(found)
    clauses = [item["cluster"].split(", ") for item in test]
    clusters = {
        "shop": numbered([item["shop"] for item in test]),
        "first": numbered([first for first, _ in clauses]),
        "second": numbered([second for _, second in clauses]),
    }
    return {"solved": solved, "clusters": clusters}


def numbered(names: Sequence[str]) -> list[int]:
    """Return a number per name, equal for equal names, from 0 in the order of appearance."""
    known: dict[str, int] = {}
    return [known.setdefault(name, len(known)) for name in names]
