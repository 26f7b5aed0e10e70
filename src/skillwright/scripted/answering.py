"""What a scripted mind says, as a completion."""

from collections.abc import Sequence
from typing import Final

from skillwright.core import Completion, Message, Usage

_CHARS_PER_TOKEN: Final = 4


def answered(text: str, messages: Sequence[Message], identity: str) -> Completion:
    """Return an answer, with the tokens that a language model would have taken, about.

    Args:
        text: What is said.
        messages: What was asked.
        identity: Who says it.
    """
    read = sum(len(message["content"]) for message in messages)
    usage = Usage(
        calls=1,
        input_tokens=read // _CHARS_PER_TOKEN,
        output_tokens=len(text) // _CHARS_PER_TOKEN,
    )
    return Completion(text, model=identity, usage=usage)
