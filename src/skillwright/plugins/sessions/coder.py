"""The scripted coder and its teacher: requests to a coding agent, offline.

The coder answers with its usual commands, or those that its skill names instead. The teacher reads
the users' corrections in its trajectories.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from skillwright.core import Message
from skillwright.models.scripted.prompts import Assignment, episode_texts
from skillwright.models.scripted.teacher import (
    Randomness,
    ScriptedModel,
    ScriptedTeacher,
    Teaching,
    Written,
    first_of,
    skill_in,
    whole,
)

_RULE: Final = re.compile(r"Use ([\w./:+-]*\w), not ([\w./:+-]*\w)")
_SAID: Final = re.compile(
    r"(?i)\buse ([\w./:+-]*\w)(?:,? (?:and )?not|,? never| instead of| rather than) ([\w./:+-]*\w)"
)
_HABITS: Final = (
    (r"\b(?:commit|save my work)", "git commit"),
    (r"\b(?:format|tidy|style)", "black"),
    (r"\b(?:lint|warnings?)", "flake8"),
    (r"\b(?:install|dependenc\w*|package|librar\w*)", "npm add"),
    (r"\b(?:build|bundle|compile)", "npm run build"),
    (r"\b(?:tests?|check|suite|specs?)", "npm test"),
)


class ScriptedCoder(ScriptedModel):
    """Names the commands for a request, by its habits and the skill's rules."""

    identity = "scripted:coder"

    def reply(self, messages: Sequence[Message], seed: int) -> str:
        """Return the commands in ``<answer>`` tags."""
        asked = first_of(messages, "user").casefold()
        commands = [command for words, command in _HABITS if re.search(words, asked)]
        text = "\n".join(commands or ["ls"])
        for wanted, other in _RULE.findall(skill_in(messages)):
            text = re.sub(rf"(?i)(?<![\w-]){re.escape(other)}(?![\w-])", wanted, text)
        return f"<answer>{text}</answer>"


class CoderTeacher(ScriptedTeacher):
    """Writes skills from users' corrections."""

    identity = "scripted:coder_teacher"

    def successes(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Return ``None``: successes only confirm what the user asked for."""
        shown = episode_texts(asked.text, "success")
        return [_FALLBACK.principle(whole(shown))] if shown else None

    def failures(self, asked: Assignment) -> list[Written] | None:
        """Write a lesson for each correction."""
        shown = episode_texts(asked.text, "failure")
        if not shown:
            return None
        lessons = [one.lesson(whole(names)) for one, names in _corrections(shown)]
        return (lessons or [_FALLBACK.lesson(whole(shown))])[: asked.count]

    def general(self, asked: Assignment) -> list[Written] | None:
        """Write a principle for each correction."""
        failed = episode_texts(asked.text, "failure")
        shown = {**episode_texts(asked.text, "success"), **failed}
        if not shown:
            return None
        written = [one.principle(whole(names)) for one, names in _corrections(failed)]
        return (written or [_FALLBACK.principle(whole(shown))])[: asked.count]

    def place(self, asked: Assignment) -> list[Written] | None:
        """Return ``None``: the sessions are of one project."""
        return [] if asked.trajectories else None

    def evolve(self, asked: Assignment, rng: Randomness) -> list[Written] | None:
        """Return ``None``: only sessions have corrections."""
        return [] if asked.trajectories else None


def _corrections(shown: Mapping[str, str]) -> list[tuple[Teaching, list[str]]]:
    """Find the corrections, with the episodes that show them."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, text in shown.items():
        for wanted, other in _SAID.findall(text):
            found.setdefault((wanted, other), []).append(name)
    ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
    return [(_teaching(*pair), names) for pair, names in ordered]


def _teaching(wanted: str, other: str) -> Teaching:
    return Teaching(
        f"{wanted} {other}",
        "",
        f"Use {wanted}"[:60],
        (f"Use {wanted}, not {other}.",),
        f"when a request would take {other}",
        f"the agent took {other}, which this project does not use.",
        f"{other} is what most projects use.",
        f"take {wanted}.",
    )


_FALLBACK: Final = Teaching(
    "asked",
    "",
    "Do what was asked",
    ("Do what the request names, and check it before saying that it is done.",),
    "when a request names what is to be done",
    "saying that it is done without a check.",
    "It would work.",
    "run the check first.",
)
