"""SkillOpt's files for analysts: predictions/<id>/conversation.json, and names.json."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillwright.core import Trajectory
from skillwright.core.jsonio import dumps, text_digest, write_text

NAMES_FILE = "names.json"

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}(?<!\.)")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|names\.json", re.IGNORECASE)
_READABLE_CHARS = 60


def folder_name(episode_id: str) -> str:
    """Return the folder of an episode: its id, or an escaped name where that is no safe name.

    An escaped name starts with ``@``, which no safe id does, and ends with a digest of the id.
    """
    if _SAFE.fullmatch(episode_id) and not _RESERVED.fullmatch(episode_id):
        return episode_id
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", episode_id)[:_READABLE_CHARS]
    return f"@{readable}-{text_digest(episode_id)[:16]}"


def conversation(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return what happened, as the default reflect reads it: the opening, then one item a turn."""
    opening = {"role": "user", "content": trajectory.opening}
    steps = (
        {
            "step": turn.index,
            "action": turn.act.written,
            "env_feedback": turn.observation,
            "reasoning": "",
        }
        for turn in trajectory.turns
    )
    return [opening, *steps]


def write_predictions(folder: Path, trajectories: Mapping[str, Trajectory]) -> None:
    """Write the conversations of a rollout, by episode id."""
    for episode_id, trajectory in trajectories.items():
        write_json(folder / folder_name(episode_id) / "conversation.json", conversation(trajectory))
    names = {folder_name(episode_id): episode_id for episode_id in trajectories}
    escaped = {name: episode_id for name, episode_id in names.items() if name != episode_id}
    if escaped:
        write_json(folder / NAMES_FILE, escaped)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file whatever a model wrote: half a surrogate pair becomes its JSON escape."""
    write_text(path, dumps(value, indent=1).encode("utf-8", "backslashreplace").decode("utf-8"))
