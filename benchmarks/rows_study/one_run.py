"""Exports one data set, trains on it by the product's commands, and compares with programs."""

import csv
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measuring.books import note_opening
from rows_study.baselines import BASELINES
from rows_study.sets import RealSet, Row
from skillwright.core import SkillwrightError
from skillwright.core.jsonio import digest, write_text
from study.one_run import made_by

COMMAND = (sys.executable, "-m", "skillwright")
SIDES = {"initial": "empty skill", "best": "released skill"}
SHORT_SEED = 1000
OPTIONS_PROMPT = "{{ text }}\nAnswer with one of: {{ options }}\n"


def export(
    real: RealSet, folder: Path, seed: int, *, short: bool, most: Mapping[str, int] | None = None
) -> list[Row]:
    """Write the rows as CSV, and return them; ``options`` only where rows have any.

    Args:
        real: The data set.
        folder: Made here.
        seed: Of the draw.
        short: Few rows.
        most: Rows of each split, at most.
    """
    # The short form has a draw of its own: tests are not to open the test rows of the study.
    rows = real.splits(seed + SHORT_SEED, real.short) if short else real.splits(seed, real.sizes)
    if most is not None:
        rows = [row for row in rows if int(row["id"].rpartition("-")[2]) < most[row["split"]]]
    names = [name for name in rows[0] if name != "options" or any(row[name] for row in rows)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{real.name}.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.DictWriter(file, names, extrasaction="ignore")
        lines.writeheader()
        lines.writerows(rows)
    return rows


def play(real: RealSet, seed: int, root: Path, results: Path, *, short: bool) -> dict[str, Any]:
    """Return the result of a data set and a seed; what is finished is not run again.

    Args:
        real: The data set.
        seed: Of the rows and of the run.
        root: Folder of rows and runs.
        results: Folder of results and openings.
        short: Few rows, for tests.

    Raises:
        DataError: The package is missing, or its rows are not those that were measured.
        SkillwrightError: A command failed; call again to resume.
    """
    name = f"{real.name}-s{seed}"
    path = results / f"{name}.json"
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return known
    folder = root / name
    rows = export(real, folder, seed, short=short)
    own = [f"run.seed={seed}", *(["train.epochs=1"] if short else [])]
    if any(row["options"] for row in rows):  # each row has its own, which `init` cannot know
        own.append(f"env.config.prompt={json.dumps(OPTIONS_PROMPT)}")
    _train(real.name, folder, own)
    test = [row for row in rows if row["split"] == "test"]
    solved = outcomes(folder, real.name, rows) | _baselines(rows, test)
    shown = json.loads(run_command(folder, "runs", "show", real.name, "--json"))
    results.mkdir(parents=True, exist_ok=True)
    result = {
        "set": real.name,
        "seed": seed,
        "package": f"{real.package}=={real.version}",
        "rows": digest(rows),
        "splits": {
            split: sum(row["split"] == split for row in rows) for split in ("train", "val", "test")
        },
        "settings": digest([(folder / f"{real.name}.yaml").read_text(encoding="utf-8"), own]),
        "opening": note_opening(results, name, made_by()),
        "labels": [row["label"] for row in test],
        "solved": solved,
        "released": (folder / "runs" / real.name / "best_skill.md").read_text(encoding="utf-8"),
        "rollouts": shown.get("episodes"),
        "made_by": made_by(),
    }
    write_text(path, json.dumps(result, indent=1))
    return result


def _train(name: str, folder: Path, own: Sequence[str]) -> None:
    """Write the configuration and train, or resume what was stopped."""
    if (folder / "runs" / name).exists():
        run_command(folder, "resume", name)
        return
    file = f"{name}.yaml"
    columns = "text,options" if any("options" in one for one in own) else "text"
    given = ("--answer", "label", "--columns", columns, "--task-type", "label", "--to", file)
    if not (folder / file).exists():
        run_command(folder, "init", f"{name}.csv", *given, "--yes", "--offline")
    run_command(folder, "train", file, *[word for one in own for word in ("--set", one)])


def run_command(folder: Path, *words: str) -> str:
    """Run a command of the product in a folder, and return what it printed.

    Raises:
        SkillwrightError: It failed.
    """
    done = subprocess.run(
        (*COMMAND, *words), cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-600:]
        raise SkillwrightError(
            f"`skillwright {' '.join(words)}` ended with {done.returncode}: {said}"
        )
    return done.stdout


def outcomes(folder: Path, run: str, rows: Sequence[Row]) -> dict[str, str]:
    """Return which test rows were solved with which skill, a digit per row.

    Raises:
        SkillwrightError: An episode of the test has no score, or is about another row.
    """
    run_command(folder, "runs", "export", run, "--out", "episodes.jsonl")
    test = {row["id"]: row["label"] for row in rows if row["split"] == "test"}
    solved: dict[str, dict[str, bool]] = defaultdict(dict)
    with (folder / "episodes.jsonl").open(encoding="utf-8") as file:
        for line in file:
            one = json.loads(line)
            if one["phase"] != "test":
                continue
            if one["solved"] is None or test.get(one["task_id"]) != one["task_type"]:
                raise SkillwrightError(f"episode {one['episode']} of run {run} has no score")
            for side in one["tested"]:
                solved[side][one["task_id"]] = one["solved"]
    return {says: digits(map(solved[side].get, test)) for side, says in SIDES.items()}


def _baselines(rows: Sequence[Row], test: Sequence[Row]) -> Mapping[str, str]:
    """Return the same of programs that learn from the train and val rows."""
    known = [row for row in rows if row["split"] != "test"]
    has_options = any(row["options"] for row in rows)
    found = {}
    for name, program in BASELINES.items():
        if has_options or program.__name__ != "overlap":
            answers = program(known, test)
            found[name] = digits(a == row["label"] for a, row in zip(answers, test, strict=True))
    return found


def play_each(plays: Mapping[str, Callable[[], Mapping[str, Any]]]) -> int:
    """Run what is missing, print the success rates as one JSON object, and return the exit code.

    Args:
        plays: By name of a result, what returns it.
    """
    faults, rates = [], {}
    for name, play_one in plays.items():
        try:
            one = play_one()
        except SkillwrightError as fault:
            faults.append(name)
            print(f"{name}: {fault}", file=sys.stderr, flush=True)
            continue
        rates[name] = {
            who: round(solved.count("1") / len(solved), 4) for who, solved in one["solved"].items()
        }
    print(json.dumps({"rates": rates, "ok": not faults}))
    return 1 if faults else 0


def digits(solved: Any) -> str:
    """Write outcomes as digits, 1 for a solved row."""
    return "".join("1" if one else "0" for one in solved)
