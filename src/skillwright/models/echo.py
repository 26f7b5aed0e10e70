"""Takes a key out of what an endpoint says: some repeat it, in any field of a reply or header."""

from urllib.parse import quote

from skillwright.core import ModelError

HIDDEN = "***"

_SHORTEST = 6  # a key of fewer characters is a word, such as "EMPTY", and no secret
_BEGINNING = 8  # characters of a longer key that give it away


def hide_key(fault: ModelError, key: str) -> None:
    """Take a key out of the message of a fault."""
    fault.args = (hidden(str(fault), key), *fault.args[1:])


def hidden(text: str, key: str) -> str:
    """Return a text without a key, also where a cut has left only the beginning of it."""
    if len(key) < _SHORTEST:
        return text
    for form in {key, quote(key, ""), key.replace("/", "\\/")}:
        text = _without(text, form)
    return text


def _without(text: str, key: str) -> str:
    least = min(_BEGINNING, len(key))
    start = text.find(key[:least])
    while start >= 0:
        end = start + least
        while end < len(text) and end - start < len(key) and text[end] == key[end - start]:
            end += 1
        text = text[:start] + HIDDEN + text[end:]
        start = text.find(key[:least], start + len(HIDDEN))
    return text
