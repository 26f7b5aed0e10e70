"""Our generated houses as a taskset of verifiers, with the Env that plays and scores them.

Where this file lies on Python's path, ``vf-eval verifiers_houses`` plays it; the setting
``split: eval`` has other houses. It needs ``pip install 'skillwright[verifiers]'``.
"""

from skillwright.plugins.verifiers import as_taskset
from skillwright.worlds.alfworld import generated_tasks

HousesTaskset, HousesEnv = as_taskset(
    "alfworld", generated_tasks("train", 12), eval_tasks=generated_tasks("test", 6)
)

__all__ = ["HousesEnv", "HousesTaskset"]
