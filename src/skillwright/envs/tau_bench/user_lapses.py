"""What simulated users do wrong in ways that can be seen in one reply. It is counted, not mended.

Both signs are rough: they say where to look, and change no score.
"""

import re
from typing import Final

_RECITED_WORDS: Final = 12
"""So many words in a row are no accident: people who paraphrase share fewer with a text."""

_WORD: Final = re.compile(r"[#\w]+")
_AGENT_TALK: Final = re.compile(
    r"how (?:can|may) i (?:help|assist) you"
    r"|(?:anything|something) else i can (?:help|assist|do)"
    r"|(?:help|assist) you with (?:that|your)"
    r"|i(?:'ve| have) (?:processed|cancelled|canceled|updated|modified) your"
    r"|your (?:order|return|refund|exchange) has been"
    r"|thank you for (?:contacting|calling|reaching out)"
    r"|<tool_call>|^\s*(?:agent|assistant)\s*:",
    re.I,
)


def swaps_roles(reply: str) -> bool:
    """Tell whether a user's reply sounds like the agent's."""
    return bool(_AGENT_TALK.search(reply))


def leaks(reply: str, instruction: str) -> bool:
    """Tell whether a user's reply recites its instruction, or speaks of having one."""
    if re.search(r"\b(?:my|the) instructions?\b|^\s*instruction\s*:", reply, re.I):
        return True
    told = _WORD.findall(instruction.lower())
    size = min(_RECITED_WORDS, len(told))
    said = _WORD.findall(reply.lower())
    if not size or len(said) < size:
        return False
    runs = {tuple(told[at : at + size]) for at in range(len(told) - size + 1)}
    return any(tuple(said[at : at + size]) in runs for at in range(len(said) - size + 1))
