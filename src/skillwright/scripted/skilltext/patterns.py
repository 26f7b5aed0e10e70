"""A small notation for concepts: patterns over lower-case text with contractions spelled out."""

import re
from functools import cache

_VOWELS = "aeiou"


@cache
def inflected(verb: str) -> str:
    """Return a pattern for a verb's regular forms (carry, carries, carried, carrying)."""
    forms = {verb, f"{verb}s", f"{verb}ed", f"{verb}ing"}
    if verb.endswith("e"):
        forms |= {f"{verb}d", f"{verb[:-1]}ing"}
    elif verb.endswith("y") and verb[-2] not in _VOWELS:
        forms |= {f"{verb[:-1]}ies", f"{verb[:-1]}ied"}
    elif verb[-1] not in "wxy" and verb[-2] in _VOWELS and verb[-1] not in _VOWELS:
        forms |= {f"{verb}{verb[-1]}ed", f"{verb}{verb[-1]}ing"}
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        forms.add(f"{verb}es")
    return f"(?:{'|'.join(sorted(forms, key=lambda form: (-len(form), form)))})"


def concept(phrases: str, **slots: str) -> re.Pattern[str]:
    """Compile phrases into one pattern that is bounded by word edges.

    They are separated by slashes or line ends. ``word~`` stands for a verb's regular forms, a
    capitalized slot for its text; everything else is a regular expression.
    """
    for name, text in slots.items():
        phrases = phrases.replace(name, f"(?:{text})")
    parts = [part.strip() for part in re.split(r"\s/\s|\n", phrases)]
    spelled = [re.sub(r"([a-z]+)~", lambda m: inflected(m[1]), part) for part in parts if part]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(spelled)})(?!\w)")


def union(*concepts: re.Pattern[str]) -> re.Pattern[str]:
    """Return the concept that any of several gives."""
    return re.compile("|".join(f"(?:{one.pattern})" for one in concepts))
