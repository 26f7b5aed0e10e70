"""The action in an answer, for all who carry it out, learn from it or tell of it."""

import re
from typing import Final

# An inner tag closes itself: of "<action><action>look</action>" the action is "look".
ACTION_TAG: Final = re.compile(
    r"<action>((?:(?!</?action>).)*)</action>", re.DOTALL | re.IGNORECASE
)
"""A complete tag; its group is what stands in it."""


def tagged_action(answer: str) -> str | None:
    """Return what stands in the last complete ``<action>`` tag, or ``None`` without one."""
    found = ACTION_TAG.findall(answer)
    return found[-1].strip() if found else None


def action_in(answer: str) -> str:
    """Return what stands in the last complete ``<action>`` tag, or else all of it.

    Source: the reply protocol of SkillRL and of SkillOpt's ALFWorld (reasoning, then one tag).
    """
    tagged = tagged_action(answer)
    return answer.strip() if tagged is None else tagged
