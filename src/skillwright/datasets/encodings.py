"""Detect the kind of a data file and the encoding of its text.

Messages propose encodings with a sample of the decoded text, so that a person can choose.
"""

import codecs
import json
import re
import unicodedata
from pathlib import Path
from typing import Final

import charset_normalizer

from skillwright.core import DataError

MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_KINDS: Final = (
    (b"PAR1", "a Parquet file", "rename it so that it ends in .parquet"),
    (b"PK\x03\x04", "a ZIP archive or an Excel workbook", "unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", "save the sheet as CSV UTF-8"),
    (b"\x1f\x8b", "compressed by gzip", "unpack it: gunzip"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it: unzstd"),
    (b"BZh", "compressed by bzip2", "unpack it: bunzip2"),
    (b"ARROW1", "an Arrow file", "save it as Parquet"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"%PDF-", "a PDF document", "save its table as CSV"),
    (
        b"version https://git-lfs",
        "a pointer of Git LFS, not the file itself",
        "fetch it: git lfs pull",
    ),
    (b"<!doctype html", "a web page", "download the file itself, not its page"),
    (b"<html", "a web page", "download the file itself, not its page"),
)
_LOOKED_AT: Final = 1 << 16
_IN_USE: Final = (
    *("utf_16_le", "utf_16_be", "utf_32_le", "utf_32_be", "gb18030", "big5", "big5hkscs"),
    *("shift_jis", "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949", "koi8_r", "koi8_u", "cp866"),
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "iso8859_9", "cp874", "mac_roman", "cp437", "cp850"),
)
_SCRIPTS: Final = (  # for a few words, scripts are more reliable than language statistics
    *(("cp1252", "LATIN"), ("cp874", "THAI"), ("cp1251", "CYRILLIC"), ("cp1253", "GREEK")),
    *(("cp1255", "HEBREW"), ("cp1256", "ARABIC"), ("euc_kr", "HANGUL"), ("gb18030", "CJK")),
    *(("big5", "CJK"), ("euc_jp", "CJK")),
)
_DOUBLE: Final = ("gb18030", "big5", "big5hkscs", "euc_jp", "euc_kr", "cp949")
_OLD: Final = ("mac_roman", "cp437", "cp850", "cp866")
_MIXED: Final = re.compile(r"[A-Za-z]([^\x00-\x7f])|([^\x00-\x7f])(?=[A-Za-z])")
_TOUCHES_LATIN: Final = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH")
_MOST_FOUND: Final = 3
_MOST_SHOWN: Final = 7
_SAMPLE_CHARS: Final = 40
_SAMPLE_BYTES: Final = 4096


def refuse_other_kind(path: Path) -> None:
    """Refuse a file whose content is of another kind than its suffix.

    Raises:
        DataError: It is another kind; the message says which, and what to do.
    """
    with path.open("rb") as file:
        first = file.read(_LOOKED_AT)
    if path.suffix.lower() == ".parquet":
        if first and b"\x00" not in first and not first.startswith((b"PAR1", b"PK\x03\x04")):
            raise DataError(
                f"{str(path)!r} cannot be read as Parquet: it is text. Rename it so that it ends "
                "in .csv or .jsonl, whichever it is"
            )
        return
    head = first[:64].lstrip()
    for mark, kind, move in _KINDS:
        if (head.lower() if mark.startswith(b"<") else head).startswith(mark):
            raise DataError(f"{str(path)!r} is {kind}; {move}")
    form = _json_form(first)
    is_cells = path.suffix.lower() in (".csv", ".tsv")
    if form and (is_cells or form != path.suffix.lower().replace("ndjson", "jsonl")):
        name = "JSON Lines" if form == ".jsonl" else "JSON"
        raise DataError(f"{str(path)!r} holds {name}; rename it so that it ends in {form}")


def encoding_of(path: Path, named: str | None) -> str:
    """Return the encoding of a text file: the named one, that of its byte order mark, or UTF-8.

    Raises:
        DataError: There is no encoding of this name, it would garble the file, or a file without
            a byte order mark is not UTF-8 in its first bytes.
    """
    with path.open("rb") as file:
        first = file.read(_LOOKED_AT)
    marked = next((name for mark, name in MARKS if first.startswith(mark)), None)
    if named is not None:
        return _checked(path, named, first, marked)
    zeros = first.count(b"\x00")
    if marked is None and 0 < zeros < len(first) // 50 and not re.search(rb"\n\x00|\x00\n", first):
        line = first[: first.index(b"\x00")].count(b"\n") + 1
        raise DataError(f"{str(path)!r}, line {line}, holds a zero byte; correct it")
    if marked is None and (zeros or b"\x1b$" in first):
        raise DataError(f"{str(path)!r} is not UTF-8. {_advice(first)}")
    return marked or "utf-8"


def not_decodable(path: Path, encoding: str, error: UnicodeError) -> DataError:
    """Return the error of a file not in an encoding; it shows the line in likely encodings."""
    line, before, sample = _around_the_fault(path, encoding)
    said = f"{str(path)!r}, from line {line} on, is not {encoding.upper()}"
    if isinstance(error, UnicodeDecodeError):
        said += f" (byte 0x{error.object[error.start]:02x})"
    if encoding.startswith("utf-8") and not before.isascii():
        shown = sample.decode("utf-8", "replace")
        return DataError(
            f"{said}, although the text before it is: the file is damaged there, or holds a part "
            f"in another encoding. Correct {_short(shown)!r}"
        )
    return DataError(f"{said}. {_advice(sample)}")


def _checked(path: Path, named: str, first: bytes, marked: str | None) -> str:
    try:
        found = codecs.lookup(named)
        "".encode(named)
    except (LookupError, UnicodeError):
        raise DataError(
            f"there is no encoding {named!r}; use utf-8, utf-16, gb18030, shift_jis or cp1252"
        ) from None
    if marked and not found.name.startswith("utf"):
        raise DataError(
            f"{str(path)!r} begins with the mark of {marked.upper()}, and encoding {named} would "
            "garble it; take env.data.encoding (or --encoding) out"
        )
    is_wide = found.name.startswith(("utf-16", "utf-32"))
    if (
        marked
        or found.name.startswith("utf-8")
        or (b"\x00" in first if is_wide else first.isascii())
    ):
        return marked or named
    try:
        # The sample may end inside a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(first)
    except UnicodeError:
        return named
    wrong = first.decode(named, "replace")
    at = next((at for at, one in enumerate(text) if not one.isascii()), 0)
    raise DataError(
        f"{str(path)!r} is UTF-8: encoding {named} would make {_short(wrong[at:] or wrong)!r} of "
        f"{_short(text[at:])!r}. Take env.data.encoding (or --encoding) out"
    )


def _around_the_fault(path: Path, encoding: str) -> tuple[int, bytes, bytes]:
    """Return the line number of the first fault, the bytes shortly before it, and its line."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, before = 1, b""
    with path.open("rb") as file:
        while chunk := file.read(_LOOKED_AT):
            try:
                decoder.decode(chunk)
            except UnicodeError as error:
                # The fault may begin in the previous chunk.
                at = max(getattr(error, "start", 0) - (len(decoder.getstate()[0])), 0)
                start = chunk.rfind(b"\n", 0, at) + 1
                line += chunk.count(b"\n", 0, at)
                sample = chunk[start : start + _SAMPLE_BYTES]
                # Without the start of a letter at the end.
                return line, before + chunk[:at], sample[: sample.rfind(b"\n") + 1] or sample
            line += chunk.count(b"\n")
            before = chunk
    return line, b"", before[-_SAMPLE_BYTES:]


def _advice(sample: bytes) -> str:
    """List the likely encodings of a sample, with the text that each gives."""
    matches = charset_normalizer.from_bytes(sample, cp_isolation=list(_IN_USE))
    found = [match.encoding for match in matches][:_MOST_FOUND]
    found += [name for name, script in _SCRIPTS if _is_all(sample, name, script)]
    likely: dict[str, str] = {}  # encoding by decoded text
    for name in sorted(found, key=lambda one: _doubt(sample, one)):
        text = sample.decode(name, "ignore")
        shown = _foreign_part(text)
        is_new = shown not in likely or name == "cp1252"  # the most common of equal ones
        if shown and is_new and "\x00" not in shown and _is_unmixed(text):
            likely[shown] = re.sub(r"^utf_(\d+)_(..)$", r"utf-\1-\2", name)
    if not likely:
        return "Its encoding is not known; save the file as UTF-8"
    said = "; ".join(
        f"in {name} it reads {text!r}" for text, name in list(likely.items())[:_MOST_SHOWN]
    )
    first = next(iter(likely.values()))
    return (
        f"Which of these reads right? {said}. Name that encoding (env.data.encoding: {first}, or "
        f"`init --encoding {first}`), or save the file as UTF-8"
    )


def _doubt(sample: bytes, encoding: str) -> int:
    """Rank an encoding by how bytes beyond ASCII follow each other: 0 is the likeliest.

    East Asian letters are pairs of such bytes; those of Western Europe mostly stand alone.
    """
    if encoding in _OLD:
        return 2
    runs = [len(run) for run in re.findall(rb"[\x80-\xff]+", sample)]
    in_pairs = bool(runs) and not any(length % 2 for length in runs)
    alone = sum(length == 1 for length in runs) > len(runs) / 2
    is_double = encoding in _DOUBLE
    return int((in_pairs and not is_double) or (alone and is_double))


def _is_all(sample: bytes, encoding: str, script: str) -> bool:
    """Tell whether nearly all non-ASCII letters, once decoded, belong to one script."""
    try:
        letters = [one for one in sample.decode(encoding) if not (one.isascii() or one.isspace())]
    except UnicodeError:
        return False
    own = sum(unicodedata.name(one, "").startswith(script) for one in letters)
    return own > 0.95 * len(letters)


def _is_unmixed(text: str) -> bool:
    """Tell whether no word mixes ASCII letters with a script that never mixes with them."""
    touching = {one for pair in _MIXED.findall(text) for one in pair if one}
    letters = (one for one in touching if unicodedata.category(one)[0] in "LM")
    return all(unicodedata.name(one, "").startswith(_TOUCHES_LATIN) for one in letters)


def _foreign_part(text: str) -> str:
    """Return a part of a text with non-ASCII letters."""
    plain = " ".join(text.removeprefix("\ufeff").split())
    at = next((at for at, one in enumerate(plain) if not one.isascii()), None)
    return _short(plain) if at is None else _short(plain[max(at - 8, 0) :])


def _short(text: str) -> str:
    return " ".join(text[:_SAMPLE_CHARS].split())


def _json_form(first: bytes) -> str:
    """Return ``.json`` or ``.jsonl`` if the first bytes certainly are one of them, else ""."""
    text = first.decode("utf-8-sig", "ignore").lstrip()
    line, _, rest = text.partition("\n")
    if text[:1] == "[" and text[1:].lstrip()[:1] in ("{", "["):
        return ".json"
    if text[:1] != "{":
        return ""
    try:
        is_object = isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return ".json" if line.strip() == "{" else ""
    return ".jsonl" if is_object and rest.lstrip()[:1] == "{" else ""
