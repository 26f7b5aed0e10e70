"""SmolLM2-135M learns to use skills: tickets that are routed by a sheet which differs per shop.

    python benchmarks/lm_study.py --seeds 0 1 2 --jobs 2

A condition and a seed are a run of their own in a folder below `--root`, with a result in one JSON
file beside it. Stop it whenever you like: the same command resumes. The model is weak, and follows
hardly any instruction before it is trained: what is shown is that weights learn to use skills. The
last line is one JSON object; `--short` is one seed with small numbers, and holds only that all is
there.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from desks.conditions import CONDITIONS
from desks.forms import FORMS
from desks.one_run import play
from desks.summary import summary
from desks.text_half import train_sheet
from skillwright.core import SkillwrightError

TEXT = "text"
"""Text training with the weights of SFT as the agent; it comes last."""


SHORT_SEED = 1000
"""The short form has shops of its own: it is not to open the test tickets of the study."""


def main() -> int:
    """Run what is missing, and print the summary."""
    arguments = _arguments()
    laid_over: dict = {}
    for one in arguments.overrides:
        place, _, value = one.partition("=")
        section, _, key = place.partition(".")
        laid_over.setdefault(section, {})[key] = yaml.safe_load(value)
    one_seed = partial(
        play_seed,
        conditions=arguments.conditions,
        root=arguments.root,
        short=arguments.short,
        laid_over=laid_over,
    )
    results, faults = [], []
    pool = ProcessPoolExecutor(
        arguments.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with pool:
        begun = {pool.submit(one_seed, seed): seed for seed in arguments.seeds}
        for done in as_completed(begun):
            try:
                results += done.result()
            except SkillwrightError as fault:
                faults.append(begun[done])
                print(f"seed {begun[done]}: {fault}", file=sys.stderr, flush=True)
    runs = [one for one in results if "condition" in one]
    texts = [one for one in results if "released" in one]
    print(json.dumps({**summary(runs, texts), "ok": not faults}))
    return 1 if faults else 0


def play_seed(seed: int, conditions: Sequence[str], **settings: Any) -> list[dict[str, Any]]:
    """Play conditions with one seed, in the order in which they begin with each other's weights."""
    done = [play(name, seed, **settings) for name in CONDITIONS if name in conditions]
    if TEXT in conditions:
        root, short = settings["root"], settings["short"]
        done += [train_sheet(seed, root, form=form, short=short) for form in FORMS]
    return done


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", help="which; 0 to 4")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--conditions", nargs="+", choices=[*CONDITIONS, TEXT], help="which; all")
    parser.add_argument("--root", type=Path, help="where runs and results are kept")
    parser.add_argument("--short", action="store_true", help="one seed with small numbers")
    parser.add_argument("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    short = arguments.short
    arguments.seeds = (
        arguments.seeds
        if arguments.seeds is not None
        else ([SHORT_SEED] if short else [0, 1, 2, 3, 4])
    )
    every = [name for name, one in CONDITIONS.items() if not (short and one.is_extra)]
    arguments.conditions = arguments.conditions or [*every, TEXT]
    arguments.root = arguments.root or Path("runs", "lm_study_short" if short else "lm_study")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
