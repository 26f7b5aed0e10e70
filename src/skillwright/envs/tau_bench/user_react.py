"""A customer that thinks before each message: the strategy ``react``."""

import re
from typing import ClassVar, Final

from skillwright.envs.tau_bench.user_model import ModelUser
from skillwright.envs.tau_bench.users import STOP

_LABEL: Final = re.compile(r"^[ \t*#]*(thought|user response)[ \t*]*:[ \t*]*", re.I | re.M)


class ReactUser(ModelUser):
    """A customer that a model plays, which writes a thought and then a message.

    Only the message is said; the thought stays in the model's own memory of the conversation. As
    in tau-bench, a marker anywhere, in the thought too, is the whole message.
    """

    thinks_aloud: ClassVar[bool] = True

    def _said(self, written: str) -> str:
        thought, said = split_thought(written)
        if thought:
            self.backstage["thought"] = thought
        return STOP if STOP in written else said


def split_thought(written: str) -> tuple[str, str]:
    """Separate a thought from what is said.

    Where a label comes again, the first of it that is not blank counts, since what follows plays
    the turns to come. Without any label all of it is said.

    Returns:
        The thought and the message; a message is blank where there is only a thought, which is
        never said.
    """
    labels = list(_LABEL.finditer(written))
    if not labels:
        return "", written.strip()
    ends = [label.start() for label in labels[1:]] + [len(written)]
    found = {"thought": "", "user response": ""}
    for label, end in zip(labels, ends, strict=True):
        name = label.group(1).lower()
        found[name] = found[name] or written[label.end() : end].strip()
    return found["thought"], found["user response"]
