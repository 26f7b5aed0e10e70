"""Write the data set of a SkyRL evaluation on tau-bench: one row per task.

python examples/tau_bench/skyrl_rows.py --split test --out ~/data/tau_bench/test.parquet
"""

import argparse
from pathlib import Path

from skillwright.core import SkillwrightError
from skillwright.envs.tau_bench import refuse_unasked_store
from skillwright.integrations import expected_tokens, tau_bench_rows, write_rows


def main() -> None:
    """Write the rows; warn where conversations may not fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path, required=True, help="a .parquet or .jsonl file")
    parser.add_argument("--max-turns", type=int, default=30)
    parser.add_argument("--max-input-length", type=int, help="generator.max_input_length, tokens")
    parser.add_argument("--domain", default="retail", help="retail or airline")
    parser.add_argument("--data-dir", default="", help="the data, or built-in")
    asked = parser.parse_args()
    config = {"domain": asked.domain, "data_dir": asked.data_dir}
    try:
        refuse_unasked_store(config)
        rows = tau_bench_rows(asked.split, config, asked.max_turns)
        write_rows(rows, asked.out.expanduser())
        needed = expected_tokens(config, asked.max_turns)
    except SkillwrightError as error:
        parser.exit(2, f"error: {error}\n")
    print(f"{len(rows)} rows of the {asked.split} split in {asked.out}")
    print(f"a long conversation of {asked.max_turns} turns takes about {needed:,} tokens")
    if asked.max_input_length is not None and asked.max_input_length < needed:
        print(
            f"warning: max_input_length {asked.max_input_length:,} may cut it off; an episode that "
            "is cut off is paid nothing"
        )


if __name__ == "__main__":
    main()
