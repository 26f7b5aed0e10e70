"""A table of customers' messages with a scripted clerk, a skill that helps, and a harm."""

from pathlib import Path

import yaml

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ROWS = EXAMPLES / "table_data" / "messages.csv"
GOOD = (EXAMPLES / "ci" / "queue.md").read_text()
HARM = (EXAMPLES / "ci" / "queue_harmed.md").read_text()


def write_table(folder: Path) -> Path:
    """Write ``table.yaml``, ``good.md`` and ``harm.md``, and return the first."""
    queues = "billing, cancellation, delivery, login, repair"
    settings = {
        "env": {
            "name": "table",
            "config": {
                "prompt": "{{ message }}\nAnswer with one of: " + queues,
                "answer": "queue",
                "scorer": "exact",
                "task_type": "queue",
            },
            "data": {"path": str(ROWS), "ratio": "1:1:1"},
        },
        "models": {
            "target": {"backend": "scripted", "model": "clerk", "noise": 0.05},
            "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
        },
        "rollout": {"max_concurrent": 64},
    }
    path = folder / "table.yaml"
    path.write_text(yaml.safe_dump(settings))
    (folder / "good.md").write_text(GOOD)
    (folder / "harm.md").write_text(HARM)
    return path
