"""Draws what a run's internalized skills came to on its sealed test, and prints the numbers.

python docs/coevolve_figure.py runs/coevolve
"""

import sys
from pathlib import Path

from rl_study_figures import Point, bars  # beside this file

from skillwright.config import load_rl_config
from skillwright.core import RunError
from skillwright.evaluation import wilson_interval
from skillwright.jobs.weights.state import TEST_EPISODES, RlKind, restore
from skillwright.runs import RunStore

FIGURE = Path(__file__).with_name("figures") / "coevolve.svg"
GROUPS = ("tasks that get the skills", "other tasks")


def points(run: Path) -> dict[str, list[Point]]:
    """Return success with the skills, and without them before and after, by group of tasks.

    Raises:
        RunError: The run has internalized nothing, or has not tested it.
    """
    with RunStore.open(run / "run.sqlite", read_only=True) as store:
        state = restore(load_rl_config(run / "config.yaml"), store)
        tested = store.events(RlKind.TEST)
        made = state.internalized
        if made is None or not tested:
            raise RunError(f"run {str(run)!r} has not tested skills that were internalized")
        keys = tested[-1].payload[TEST_EPISODES]
        played = {one.key: one for one in store.episodes(phase="test")}
    whole = [played[key] for key in keys["final" if made.base else "cold_start"]]
    about = {one.task_id for one in whole if set(one.skill_ids) & set(made.skills)}
    shown: dict[str, list[Point]] = {name: [] for name in GROUPS}
    for name in (None, "before_internalization", "internalized"):
        episodes = whole if name is None else [played[key] for key in keys[name]]
        for group, is_about in zip(GROUPS, (True, False), strict=True):
            solved = [
                one.reward == 1
                for one in episodes
                if one.reward is not None and (one.task_id in about) == is_about
            ]
            share = sum(solved) / len(solved)
            low, high = wilson_interval(sum(solved), len(solved))
            shown[group].append(Point(0, share, (low, high)))
            sys.stdout.write(
                f"{name or 'with'}, {group}: {share:.1%} ({low:.1%} to {high:.1%}), {len(solved)}\n"
            )
    return shown


if __name__ == "__main__":
    bars(
        FIGURE,
        "test tasks solved",
        points(Path(sys.argv[1])),
        ("with", "without, before", "without, after"),
    )
