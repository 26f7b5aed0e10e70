"""pass@1 and pass^k of tau-bench episodes that launch.py played; SkyRL reports the mean only.

python scores.py ~/exports/tau_bench/rollouts/eval.jsonl
"""

import argparse
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from skillwright.core import EpisodeResult, SkillwrightError
from skillwright.evaluation import pass_hat_k, pass_hat_k_interval
from skillwright.plugins.skyrl import read_rollouts
from skillwright.worlds.tau_bench import comparability, configured_store, is_free


def task_of(one: EpisodeResult) -> tuple[str, int]:
    """Return a task's split and number."""
    extras = one.spec.task.extras
    return str(extras.get("task_split", "test")), int(extras["task_index"])


def is_solved(one: EpisodeResult) -> bool:
    """Tell whether an episode solved its task."""
    return one.is_success(1.0 - 1e-6)


def main() -> None:
    """Print the rates, and what they are comparable with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("--domain", default="retail", help="retail or airline")
    parser.add_argument("--data-dir", default="", help="the data; else where it is found")
    asked = parser.parse_args()
    config = {"domain": asked.domain, "data_dir": asked.data_dir}
    attempts = defaultdict[tuple[str, int], list[EpisodeResult]](list)
    try:
        played = read_rollouts(asked.rollouts)
        for one in played:
            attempts[task_of(one)].append(one)
        store = configured_store(config)
        grader = comparability(config)
    except SkillwrightError as error:
        parser.exit(2, f"error: {error}\n")
    trials = {len(of) for of in attempts.values()}
    if len(trials) != 1:
        parser.exit(
            2, f"error: {asked.rollouts} holds {sorted(trials)} attempts per task, not one\n"
        )
    (n,) = trials
    # A task counts where none of its attempts was lost to a fault.
    whole = {task: of for task, of in attempts.items() if all(one.failure is None for one in of)}
    failures = sum(one.failure is not None for one in played)
    print(f"{len(attempts)} tasks x {n}; {failures} failures, {len(whole)} tasks without one")
    if not whole:
        parser.exit(1, "no task has a reward for each attempt, so there is no score\n")
    wins = {task: sum(map(is_solved, of)) for task, of in whole.items()}
    for k in range(1, n + 1):
        low, high = pass_hat_k_interval(list(wins.values()), n, k)
        rate = pass_hat_k(list(wins.values()), n, k)
        print(f"pass^{k}: {rate:.3f} (95% interval {low:.3f} to {high:.3f})")
    earned = [count for task, count in wins.items() if not is_free(store, *task)]
    if earned:
        print(f"pass^1 without the tasks that hanging up wins: {pass_hat_k(earned, n, 1):.3f}")
    for name in ("truncated", "parse_errors"):
        found = [one.metrics[name] for one in played if name in one.metrics]
        if found:
            print(f"{name.replace('_', ' ')}, mean over scored episodes: {fmean(found):g}")
    print(f"grader {grader['grader']}, data {grader['data']['checksum']}")


if __name__ == "__main__":
    main()
