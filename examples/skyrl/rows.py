"""Write SkyRL's data sets of a configuration: a row per task, with its skills in the prompt.

python rows.py alfworld.yaml --bank bank.sqlite --out ~/data/alfworld
python rows.py ../tau_bench/eval.yaml --splits test --out ~/data/tau_bench
"""

import argparse
from pathlib import Path

from skillwright.config import load_config
from skillwright.core import SkillwrightError
from skillwright.jobs.run.bank_source import bank_source, opened_embedder, read_injected_bank
from skillwright.jobs.run.tasks import find_tasks, refuse_unasked_data
from skillwright.plugins.skyrl import expected_tokens, task_rows, write_rows


def main() -> None:
    """Write a file per split; warn where conversations may not fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="env and bank are read")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--bank", default="", help="whose skills go into the prompts")
    parser.add_argument("--splits", nargs="+", default=["train", "val"])
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--max-input-length", type=int, help="generator.max_input_length, tokens")
    parser.add_argument("--jsonl", action="store_true", help="JSON lines instead of Parquet")
    asked = parser.parse_args()
    try:
        config = load_config(asked.config, asked.settings)
        refuse_unasked_data(config.env)
        splits = dict(zip(("train", "val", "test"), find_tasks(config.env), strict=True))
        suffix = "jsonl" if asked.jsonl else "parquet"
        with opened_embedder(config.bank.embedder) as embedder:
            bank = read_injected_bank(asked.bank, "--bank") if asked.bank else None
            skills = bank_source(bank, config.bank, embedder) if bank else None
            for name in asked.splits:
                rows = task_rows(splits.get(name, []), skills)
                if not rows:
                    parser.exit(2, f"error: {asked.config} has no {name} tasks\n")
                path = asked.out.expanduser() / f"{name}.{suffix}"
                write_rows(rows, path)
                with_skills = sum(row["prompt"][0]["role"] == "system" for row in rows)
                print(f"{len(rows)} rows of the {name} split, {with_skills} with skills, in {path}")
        if config.env.name == "tau_bench" and asked.max_input_length:
            turns = config.env.max_turns
            needed = expected_tokens(config.env.config, turns)
            print(f"a long conversation of {turns} turns takes about {needed:,} tokens")
            if asked.max_input_length < needed:
                print(f"warning: max_input_length {asked.max_input_length:,} may cut it off")
    except SkillwrightError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
