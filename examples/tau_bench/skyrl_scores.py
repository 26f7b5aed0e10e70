"""pass@1 and pass^k of what a SkyRL evaluation dumped; SkyRL itself reports the mean only.

python examples/tau_bench/skyrl_scores.py ~/exports/tau_bench/dumped_evals/eval_only
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillwright.core import SkillwrightError
from skillwright.envs.tau_bench import comparability, configured_store, is_free
from skillwright.evaluation import pass_hat_k, pass_hat_k_interval

AGGREGATED = "aggregated_results.jsonl"


def episodes(folder: Path) -> Iterator[tuple[tuple[str, int], bool]]:
    """Read the task and the success of every dumped episode of tau-bench."""
    for path in sorted(folder.glob("*.jsonl")):
        if path.name == AGGREGATED:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["env_class"] == "tau_bench":
                extras = row["env_extras"]
                yield (extras["task_split"], int(extras["task_index"])), is_solved(row["score"])


def is_solved(score: Any) -> bool:
    """Tell whether an episode solved its task: its score is a number, or one per token."""
    reward = sum(score) if isinstance(score, list) else float(score)
    return abs(reward - 1.0) <= 1e-6


def main() -> None:
    """Print the rates, and what they are comparable with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--domain", default="retail", help="retail or airline")
    parser.add_argument("--data-dir", default="", help="the data; else where it is found")
    asked = parser.parse_args()
    attempts = defaultdict[tuple[str, int], list[bool]](list)
    for task, success in episodes(asked.folder):
        attempts[task].append(success)
    trials = {len(outcomes) for outcomes in attempts.values()}
    if len(trials) != 1:
        parser.exit(2, f"error: {asked.folder} holds {sorted(trials)} attempts per task, not one\n")
    (n,) = trials
    config = {"domain": asked.domain, "data_dir": asked.data_dir}
    try:
        store = configured_store(config)
        paid = {task: sum(outcomes) for task, outcomes in attempts.items()}
        earned = [wins for task, wins in paid.items() if not is_free(store, *task)]
        grader = comparability(config)
    except SkillwrightError as error:
        parser.exit(2, f"error: {error}\n")
    wins = list(paid.values())
    print(f"{len(wins)} tasks x {n}")
    for k in range(1, n + 1):
        low, high = pass_hat_k_interval(wins, n, k)
        rate = pass_hat_k(wins, n, k)
        print(f"pass^{k}: {rate:.3f} (95% interval {low:.3f} to {high:.3f})")
    if earned:
        print(f"pass^1 without the tasks that hanging up wins: {pass_hat_k(earned, n, 1):.3f}")
    for line in _averages(asked.folder / AGGREGATED):
        print(line)
    print(f"grader {grader['grader']}, data {grader['data']['checksum']}")


def _averages(path: Path) -> Iterator[str]:
    """Repeat what SkyRL averaged over the episodes and its dump does not tell by episode."""
    averages = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, value in sorted(averages.items()):
        if name.rpartition("/")[2] in ("user_sim_error", "truncated", "parse_errors"):
            print_name = name.rpartition("/")[2].replace("_", " ")
            yield f"{print_name}, mean over all episodes: {value}"


if __name__ == "__main__":
    main()
