"""Marks and notes of people on episodes, in a file of the run's folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from skillwright.core import RunError
from skillwright.core.jsonio import JsonRecord, decode, encode, write_text

NOTES_NAME: Final = "notes.json"
LONGEST_NOTE: Final = 10_000
"""Maximum characters of a note."""
_writing = Lock()


@dataclass(frozen=True, slots=True)
class Note(JsonRecord):
    """What a person noted on an episode."""

    is_marked: bool = False
    text: str = ""


def read_notes(folder: Path) -> dict[int, Note]:
    """Return the notes of a run by episode number.

    Raises:
        RunError: Their file is damaged.
    """
    path = folder / NOTES_NAME
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {int(number): decode(Note, note) for number, note in found.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunError(
            f"{str(path)!r} cannot be read: {error}. Mend it, or move it away"
        ) from error


def write_note(folder: Path, episode: int, note: Note) -> Mapping[int, Note]:
    """Keep a note on an episode, in place of its earlier one; an empty note is removed.

    Raises:
        RunError: The note is too long, or the file is damaged or cannot be written.
    """
    if len(note.text) > LONGEST_NOTE:
        raise RunError(
            f"a note has at most {LONGEST_NOTE:,} characters, and this {len(note.text):,}"
        )
    with _writing:
        notes = {**read_notes(folder), episode: note}
        kept = {number: one for number, one in sorted(notes.items()) if one != Note()}
        try:
            text = json.dumps({str(number): encode(one) for number, one in kept.items()}, indent=1)
            write_text(folder / NOTES_NAME, text + "\n")
        except OSError as error:
            raise RunError(f"the note cannot be written ({error.strerror})") from error
    return kept
