"""A conversation as the one text that a command-line agent reads from stdin."""

import re
from collections.abc import Sequence

from skillwright.core import Message

REMINDER = "Your last answer was empty. Answer with the assistant's next message, as text."

_TASK = (
    'You take part in the conversation below. Messages with role "system" are your instructions. '
    'Write the next message with role "assistant". It is handed on verbatim: answer with that '
    "message alone, in the form that the instructions ask for."
)
# Closing tags inside a message would end it early.
_CLOSING = re.compile(r"</(?=message>)")
# Claude Code takes the word, or what is quoted behind it, for a file and reads it into the prompt,
# whatever tools are allowed: seen with 2.1.329 for @/etc/passwd and @"a b.txt" on stdin.
_MENTION = re.compile(r"(?<!\w)@(?=\S)")


def render_prompt(messages: Sequence[Message], *notes: str) -> str:
    """Write a conversation down, with what is to be done with it before it, and notes after it.

    It never begins with a slash, which clients take for a command of their own.
    """
    told = map(_tagged, messages)
    return "\n\n".join((_TASK, *told, *(note for note in notes if note))) + "\n"


def _tagged(message: Message) -> str:
    said = _CLOSING.sub("<\\/", message["content"])
    return f'<message role="{message["role"]}">\n{said}\n</message>'


def without_mentions(prompt: str) -> str:
    """Set ``@name`` at the start of a word apart as ``@ name``, so that no client reads a file."""
    return _MENTION.sub("@ ", prompt)


def tell_mount(skill_name: str) -> str:
    """Say where the skill, which the instructions hold already, is mounted."""
    return (
        f"The instructions' skill is also installed as the skill {skill_name!r} "
        f"(.agents/skills/{skill_name}/SKILL.md)."
    )
