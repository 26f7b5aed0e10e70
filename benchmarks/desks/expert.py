"""The expert of the demonstrations: reads the sheet that the policy is given, word by word.

It knows every wording of tickets and every name of a topic, and nothing of any shop: without a
sheet it answers with the first desk.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from desks.env import DESKS
from desks.grammar import SPLITS, grammar_wordings
from desks.shops import TOPICS, Topic
from skillwright.core import Message
from skillwright.rollout.prompt import SKILL_HEADING

_DESK = re.compile("|".join(DESKS))


def route(messages: Sequence[Message]) -> str:
    """Return the desk that the sheet names for the last ticket."""
    _, _, sheet = messages[0]["content"].partition(SKILL_HEADING)
    topic = _topic_of(messages[-1]["content"])
    for line in re.split(r"(?<=\.) |\n", sheet):
        desk = _DESK.search(line)
        if topic is not None and desk is not None and _is_about(line, topic):
            return desk[0]
    return DESKS[0]


def _is_about(line: str, topic: Topic) -> bool:
    told = line.casefold()
    return any(name in told for name in topic.names) or any(
        f'"{one}"' in told for one in topic.words
    )


def _topic_of(text: str) -> Topic | None:
    for name, topic in TOPICS.items():
        if any(text.endswith(f" about {one}.") for one in (*topic.names, *topic.words)):
            return topic
        if any(pattern.search(text) for pattern in _patterns(name)):
            return topic
    return None


@lru_cache(maxsize=len(TOPICS))
def _patterns(name: str) -> list[re.Pattern[str]]:
    every = [one for split in SPLITS for one in grammar_wordings(split)[name]]
    return [re.compile(re.escape(one).replace(r"\{\}", "[a-z]+") + "$") for one in every]
