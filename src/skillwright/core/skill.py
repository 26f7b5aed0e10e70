"""A skill document: its hash, and the protected regions that edits may not touch.

Source: SkillOpt (microsoft/SkillOpt): its documents, regions and hashes.
"""

import hashlib
import re
from typing import NamedTuple

SLOW_UPDATE_START = "<!-- SLOW_UPDATE_START -->"
SLOW_UPDATE_END = "<!-- SLOW_UPDATE_END -->"
APPENDIX_START = "<!-- APPENDIX_START -->"
APPENDIX_END = "<!-- APPENDIX_END -->"
APPENDIX_HEADING = "## Execution Notes Appendix"

_SLOW_MARKERS = re.compile(f"{re.escape(SLOW_UPDATE_START)}|{re.escape(SLOW_UPDATE_END)}")
_MARKERS = re.compile(
    f"{_SLOW_MARKERS.pattern}|{re.escape(APPENDIX_START)}|{re.escape(APPENDIX_END)}"
)
_FILE_MARKER = re.compile(r"^<!-- FILE: (\S+) -->\n?", re.MULTILINE)
_SLOW_REGION = re.compile(
    re.escape(SLOW_UPDATE_START) + r".*?" + re.escape(SLOW_UPDATE_END), re.DOTALL
)
_APPENDIX_REGION = re.compile(
    re.escape(APPENDIX_START) + r".*?" + re.escape(APPENDIX_END), re.DOTALL
)


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


def skill_hash(text: str) -> str:
    """Return the first 16 hexadecimal digits of the text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def protected_regions(text: str) -> list[Span]:
    """Find the regions that edits may not touch, markers included, in document order."""
    spans = [
        Span(*match.span())
        for pattern in (_SLOW_REGION, _APPENDIX_REGION, _FILE_MARKER)
        for match in pattern.finditer(text)
    ]
    return sorted(spans)


def with_line_feeds(text: str) -> str:
    r"""Return a text with ``\n`` as its only line break."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def file_marker(name: str) -> str:
    """Return the line above the text of another file of a skill's folder."""
    return f"<!-- FILE: {name} -->"


def split_files(text: str) -> tuple[str, dict[str, str]]:
    """Return a document's own text, and the texts of other files in it, by their names.

    Guidance and notes, which training puts at the end, belong to the document.
    """
    added = [region[0] for one in (_SLOW_REGION, _APPENDIX_REGION) for region in one.finditer(text)]
    own, *parts = _FILE_MARKER.split(body(text))
    own = "\n\n".join([own.rstrip(), *added]) if added else own
    return own, dict(zip(parts[::2], parts[1::2], strict=True))


def without_markers(text: str) -> str:
    """Strip a text and remove region markers from it, so that no edit can forge a region."""
    return _purged(text, _MARKERS).strip()


def body(text: str) -> str:
    """Return the document without its protected regions."""
    return _APPENDIX_REGION.sub("", _SLOW_REGION.sub("", text))


def slow_update_field(text: str) -> str:
    """Return the content of the first slow-update region, stripped, or ``""``."""
    found = _SLOW_REGION.search(text)
    return without_markers(found.group()) if found else ""


def replace_slow_update_field(text: str, content: str) -> str:
    """Remove every slow-update region and append one block with ``content`` at the end."""
    rest = _purged(_SLOW_REGION.sub("", text), _SLOW_MARKERS)
    rest = re.sub(r"\n{3,}", "\n\n", rest).rstrip()
    inner = without_markers(content)
    block = f"{SLOW_UPDATE_START}\n{inner}\n{SLOW_UPDATE_END}\n" if inner else _EMPTY_SLOW
    return f"{rest}\n\n{block}"


def inject_empty_slow_update(text: str) -> str:
    """Append an empty slow-update region, unless there is one."""
    return text if _SLOW_REGION.search(text) else f"{text.rstrip()}\n\n{_EMPTY_SLOW}"


def inject_empty_appendix(text: str) -> str:
    """Append an empty appendix region, unless there is one."""
    return text if _APPENDIX_REGION.search(text) else f"{text.rstrip()}\n\n{_EMPTY_APPENDIX}"


def _purged(text: str, markers: re.Pattern[str]) -> str:
    # Repeat, because removing a marker inside another one can leave a complete marker.
    while markers.search(text):
        text = markers.sub("", text)
    return text


_EMPTY_SLOW = f"{SLOW_UPDATE_START}\n{SLOW_UPDATE_END}\n"
_EMPTY_APPENDIX = f"{APPENDIX_START}\n{APPENDIX_HEADING}\n{APPENDIX_END}\n"
