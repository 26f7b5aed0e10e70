"""The job that both sides do; it needs the standard library only, so both can import it.

An item is a question of about 1.5 KB with the answer A or B. The endpoint answers by the item and
the number of edits in the skill, and about half of the answers are right: every step has failures
and successes for the analysts, and both sides take the same decisions.
"""

import hashlib
import json
import random
from pathlib import Path

COUNTS = {"train": 80, "val": 40, "test": 40}
EPOCHS = 2
BATCH = 40
WORKERS = 64
ANALYSTS = 16
HEDGE = 0.17
MINIBATCH = 8
BUDGET = 4
MIN_BUDGET = 2
SLOW_SAMPLES = 20
SEED = 42
INSTRUCTIONS = "Read the question and answer with the letter A or B, and nothing else."

_WORDS = [
    *("amber", "basin", "cedar", "delta", "ember", "fjord", "gravel", "harbour", "island"),
    *("juniper", "kernel", "lantern", "meadow", "nickel", "orchard", "pepper", "quarry"),
    *("river", "saddle", "timber", "umber", "valley", "willow", "yarrow", "zephyr"),
]


def prose(seed: str, words: int) -> str:
    """Write words that mean nothing, the same ones for the same seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def write_items(folder: Path) -> None:
    """Write the three splits as both sides read them."""
    for split, count in COUNTS.items():
        items = [
            {
                "id": f"{split}-{index:03d}",
                "name": f"{split}-{index:03d}",
                "question": prose(f"{split} {index}", 220),
                "answer": "AB"[index % 2],
                "task_type": "letters",
            }
            for index in range(count)
        ]
        (folder / split).mkdir(parents=True)
        (folder / split / "items.json").write_text(json.dumps(items), encoding="utf-8")


def question(identifier: str, text: str) -> str:
    """Put an item into words; the endpoint finds its id there."""
    return f"Item {identifier}. {text}"


def chance(*parts: str) -> int:
    """Return a number in [0, 2**32) that depends on the parts only."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:4], "big")
