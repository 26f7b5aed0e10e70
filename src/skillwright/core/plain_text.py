"""Text that a terminal shows and does not obey.

An escape sequence that somebody wrote would move the cursor or hide a line; a bidirectional
override shows a text in another order.
"""

import re

# C0 but the tab and the line feed, DEL, C1, and what sets the direction of writing.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def without_controls(text: str) -> str:
    """Return a text without control characters; tabs and line feeds stay."""
    return _CONTROLS.sub("", text)


def escaped_controls(text: str) -> str:
    r"""Return a text whose control characters are written as ``\u001b`` is, for JSON and YAML."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
