"""The books of the studies: which commit measured a result, and which opening of its test it is.

Each folder of results has `openings.jsonl`, a line per opening of a test by a measurement. A line
stays when the result is measured again, so a page can say how often a test was opened. Where only
some of its tasks were played, the line says so in ``part``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillwright.core import ConfigError

LEDGER = "openings.jsonl"
MARKS = "abcdefghijklmnopqrstuvwxyz"

Result = Mapping[str, Any]


def openings(folder: Path) -> list[dict[str, str]]:
    """Return the openings of a folder's results, the first one first."""
    path = folder / LEDGER
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def note_opening(folder: Path, name: str, made_by: Result) -> int:
    """Write down that a result's test was opened, and return which opening it is, from 1."""
    line = json.dumps({"result": name, "commit": commit_of({"made_by": made_by})}) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LEDGER).open("a", encoding="utf-8") as file:  # runs may write at the same time
        file.write(line)
    return sum(one["result"] == name for one in openings(folder))


def commit_of(result: Result) -> str:
    """Return the commit that a result was measured with, with ``+`` if its files were changed."""
    git = result["made_by"].get("git") or {}
    return f"{str(git.get('commit', 'unknown'))[:8]}{'+' if git.get('is_changed') else ''}"


def marks(results: Iterable[Result]) -> dict[str, str]:
    """Return a mark for each commit, in the order of the results; none if there is only one."""
    commits = list(dict.fromkeys(map(commit_of, results)))
    return {} if len(commits) == 1 else dict(zip(commits, MARKS, strict=False))


def marked(rows: Sequence[Result], marks_of: Mapping[str, str]) -> str:
    """Return the marks of the commits that measured a row, such as `` [a, b]``, or "".

    Raises:
        ConfigError: Commits are mixed in one table, and one of them has no mark.
    """
    commits = list(dict.fromkeys(map(commit_of, rows)))
    if not marks_of:
        if len(commits) > 1:
            raise ConfigError(f"results of the commits {', '.join(commits)} are mixed unmarked")
        return ""
    if lacking := [one for one in commits if one not in marks_of]:
        raise ConfigError(f"results of commit {lacking[0]} have no mark in a table of several")
    return f" [{', '.join(marks_of[one] for one in commits)}]"


def provenance_lines(named: Mapping[str, Result], folder: Path) -> list[str]:
    """Return a page's section about its results: commit, configuration, seed, opening of the test.

    Args:
        named: Name -> result.
        folder: Of the results and their openings.

    Raises:
        ConfigError: A result's test has no opening on record.
    """
    known, of = openings(folder), marks(named.values())
    counts = {name: sum(one["result"] == name for one in known) for name in named}
    if lacking := [name for name, count in counts.items() if not count]:
        raise ConfigError(
            f"{folder / LEDGER} has no opening of the test of {lacking[0]}: add a line with the "
            "result and the commit that opened it"
        )
    again = [
        f"{name} {count} times{_in_part(known, name)}"
        for name, count in counts.items()
        if count > 1
    ]
    lines = ["\n## Provenance\n"]
    if again:
        rest = "; the others once" if len(again) < len(counts) else ""
        lines.append(f"Tests opened more than once: {', '.join(again)}{rest}.\n")
    else:
        lines.append("The test of each result was opened once.\n")
    lines += ["| results | seeds | commit | configuration | test opened |", "|---|---|---|---|---|"]
    lines += _grouped(named, counts, of)
    return lines


def _in_part(known: Sequence[Mapping[str, str]], name: str) -> str:
    parts = [one["part"] for one in known if one["result"] == name and "part" in one]
    return f" (in part: {'; '.join(parts)})" if parts else ""


def _grouped(
    named: Mapping[str, Result], counts: Mapping[str, int], of: Mapping[str, str]
) -> list[str]:
    """Return a row per kind of result and commit, since a row per result would fill a screen."""
    rows: dict[tuple[str, str, int], list[Result]] = {}
    for name, one in named.items():
        key = (name.rpartition("-s")[0], commit_of(one), counts[name])
        rows.setdefault(key, []).append(one)
    lines = []
    for (kind, commit, count), some in rows.items():
        seeds = ", ".join(str(one["seed"]) for one in some)
        digests = ", ".join(
            dict.fromkeys(str(one.get("settings") or "not kept")[:8] for one in some)
        )
        mark = f" [{of[commit]}]" if of else ""
        times = "once" if count == 1 else f"{count} times"
        lines.append(f"| {kind} | {seeds} | {commit}{mark} | {digests} | {times} |")
    return lines
