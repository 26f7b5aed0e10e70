"""A life of a run: it begins or resumes, and kills itself with SIGKILL at a chosen event.

python tests/rl_killed.py TASKS ROOT MOMENT        # a moment of 0 lets it live
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import torch

from rl_world import Notebook, Tutor, lanes_config, recipe, resumed

LATER = (("cellar", "hall"), ("attic",))


class Suicide(Notebook):
    """Ends the process at an event, without a word."""

    def __init__(self, moment: int) -> None:
        super().__init__()
        self._moment = moment

    def on_event(self, event):
        super().on_event(event)
        if len(self.events) == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)


def config_of(tasks: Path, root: Path):
    """Return the configuration of a run whose tasks and folder lie apart."""
    base = lanes_config(tasks, grpo={"iterations": 5, "checkpoint_every": 3, "harder": True})
    return base.model_copy(update={"run": base.run.model_copy(update={"root": str(root)})})


def main() -> None:
    """Live."""
    tasks, root, moment = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    callback, tutor = Suicide(moment), Tutor(later=LATER)
    if (root / "lanes" / "run.sqlite").exists():
        asyncio.run(resumed(root / "lanes", callback, tutor=tutor))
    else:
        asyncio.run(recipe(config_of(tasks, root), callback, tutor=tutor))


if __name__ == "__main__":
    main()
