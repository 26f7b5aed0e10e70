"""What a scoring policy looks at, taken out of the conversation of a text game."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from skillwright.core import ContractError, TurnContext
from skillwright.core.action import action_in

_LISTING: Final = re.compile(r"\n\n[^\n]*commands: [^\n]*$")
_TAKEN: Final = re.compile(r"take (.+) from .+")
_LAID_DOWN: Final = re.compile(r"(?:move|put) (.+?) (?:to|in/on|in|on) .+")
_WENT: Final = re.compile(r"go to (.+)")
_LATEST: Final = 2


@dataclass(frozen=True, slots=True)
class Reading:
    """A turn, as segments of text.

    Attributes:
        task: What is to be done: the last paragraph of the opening.
        skill: What the agent is told about its job.
        scene: The rest of the opening.
        held: What is in the agent's hands, or "nothing".
        here: Where it is, and what it saw last.
        visited: Where it has been, each place once.
        latest: Its last commands.
        commands: What it can do now.
    """

    task: str
    skill: str
    scene: str
    held: str
    here: str
    visited: str
    latest: str
    commands: tuple[str, ...]


def read_turn(context: TurnContext) -> Reading:
    """Read a turn.

    Only the texts of the conversation and the list of commands are looked at. What is held and
    where the agent is follows from the commands that it gave.

    Raises:
        ContractError: The environment does not list its commands.
    """
    commands = context.metadata.get("admissible_commands")
    if not commands:
        raise ContractError(
            "a scoring policy chooses from a list, and this environment's metadata has no "
            "'admissible_commands'; use a policy that writes text"
        )
    opening, latest_seen = "", ""
    given = []
    for message in context.messages:
        if message["role"] == "assistant":
            given.append(message["content"])
        elif message["role"] == "user":
            opening = opening or message["content"]
            latest_seen = message["content"]
    return _read(context.skill, opening, latest_seen, tuple(given), tuple(commands))


def _read(
    skill: str, opening: str, latest_seen: str, answers: tuple[str, ...], commands: tuple[str, ...]
) -> Reading:
    scene, task = _split(opening)
    given = [action_in(answer) for answer in answers]
    held, place = "nothing", ""
    visited: dict[str, None] = {}
    for command in given:
        if found := _WENT.fullmatch(command):
            place = found[1]
            visited[place] = None
        elif found := _TAKEN.fullmatch(command):
            held = found[1]
        elif _LAID_DOWN.fullmatch(command):
            held = "nothing"
    seen = _without_listing(latest_seen) if given else ""
    return Reading(
        task=task,
        skill=skill,
        scene=scene,
        held=held,
        here=f"{place}. {seen}",
        visited=". ".join(visited),
        latest=". ".join(given[-_LATEST:]),
        commands=commands,
    )


@lru_cache(maxsize=4096)
def _split(opening: str) -> tuple[str, str]:
    scene, _, task = _without_listing(opening).rpartition("\n\n")
    return scene, task


@lru_cache(maxsize=16384)
def _without_listing(content: str) -> str:
    return _LISTING.sub("", content)
