"""Our generated houses as an environment of verifiers, with tasks and score.

Where this file lies on Python's path, ``vf-eval verifiers_houses`` plays it. It needs
``pip install 'skillwright[verifiers]'``.
"""

from typing import Any

from skillwright.plugins.verifiers import as_verifiers
from skillwright.worlds.alfworld import generated_tasks


def load_environment(train: int = 40, test: int = 20, seed: int = 0) -> Any:
    """Return houses to train on, and others to evaluate on.

    Args:
        train: How many to train on.
        test: How many to evaluate on.
        seed: Another one gives other houses.
    """
    evaluated = generated_tasks("test", test, seed=seed)
    return as_verifiers(
        "alfworld", generated_tasks("train", train, seed=seed), eval_tasks=evaluated
    )
