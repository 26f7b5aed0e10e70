"""Ours as one of theirs: rows of a table, and a store whose tools are called natively."""

from skillwright.core import Task
from skillwright.plugins.verifiers import as_verifiers


def load_environment(env: str = "table", config: dict | None = None, rows: list | None = None):
    rows = rows or [{"row": {"prompt": f"{n} + {n}?", "answer": str(2 * n)}} for n in range(12)]
    tasks = [Task(f"t{n}", env, row) for n, row in enumerate(rows)]
    return as_verifiers(env, tasks, env_config=config)
