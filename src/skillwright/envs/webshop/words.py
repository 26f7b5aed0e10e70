"""Lists of words, written as text with spaces between them."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(text.split())
