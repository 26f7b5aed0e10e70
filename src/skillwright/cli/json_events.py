"""Write the events of a job as lines of the structured log."""

import re
from typing import Any

from skillwright.cli.json_log import write_line
from skillwright.core.jsonio import encode
from skillwright.jobs.run import EpisodeFinished

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class JsonLog:
    """Writes every event of a job as a line."""

    def on_event(self, event: Any) -> None:
        """Write an event under its snake-case name, such as ``step_decided``."""
        facts = _episode(event) if isinstance(event, EpisodeFinished) else encode(event)
        write_line(event_name(type(event)), facts)

    def close(self) -> None:
        """Do nothing."""


def event_name(kind: type) -> str:
    """Return the name of an event in a line."""
    return _CAPITAL.sub("_", kind.__name__).lower()


def _episode(event: EpisodeFinished) -> dict[str, Any]:
    """Return an episode without its transcript."""
    one = event.result
    return {
        "task_id": one.task_id,
        "task_type": one.task_type,
        "phase": one.spec.phase,
        "step": one.spec.step,
        "draw": one.spec.draw,
        "reward": one.reward,
        "failure": encode(one.failure),
        "stop_reason": one.stop_reason.value,
        "turns": len(one.trajectory.turns),
        "attempts": one.attempts,
        "usage": encode(one.trajectory.usage),
        "wall_s": one.wall_s,
        "key": one.key,
        "reused": event.reused,
    }
