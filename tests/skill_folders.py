"""Twelve skill folders in the shapes that public ones have, and some that are refused.

made = write_folder(tmp_path / "skills", "scripts")    # a folder with a SKILL.md
head_of(made)                                          # its frontmatter, as bytes
"""

import re
from pathlib import Path

HEAD = "---\nname: {}\ndescription: Opens doors. Use it when a door is locked.\n---\n\n"
BODY = "# Doors\n\nKnock first. See [more](references/more.md).\n"
RULES = "".join(f"- Rule {at} of many, with `code` and ${{VALUE}}.\n" for at in range(1_000))

FOLDERS: dict[str, dict[str, str | bytes]] = {
    "plain": {"SKILL.md": HEAD.format("plain") + BODY, "references/more.md": "More.\n"},
    "long-references": {
        "SKILL.md": HEAD.format("long-references") + BODY + RULES,
        **{f"references/part-{at}.md": f"# Part {at}\n\n{RULES}" for at in range(78)},
    },
    "scripts": {
        "SKILL.md": "---\nname: scripts\ndescription: >-\n  Opens doors: all,\n  # not gates\n"
        "license: Apache-2.0\nallowed-tools: Bash(python:*) Read\n---\n\n" + BODY,
        "scripts/open.py": "#!/usr/bin/env python\nraise SystemExit(1)\n",
        "scripts/raw.sh": b"exit 1\r\n\xff\x00",
        "assets/logo.png": b"\x89PNG\r\n\x1a\n\x00",
    },
    "nested": {
        "SKILL.md": HEAD.format("nested") + BODY,
        "skills/inner/SKILL.md": HEAD.format("inner") + "Inner.\n",
        "a/b/c/d.txt": "deep",
        ".hidden/x": "x",
        "evals/evals.json": '{"evals": []}',
    },
    "扉": {
        "SKILL.md": "---\nname: 扉\ndescription: 扉を開ける。鍵のかかった扉に使う。\n---\n\n"
        "# 扉\n\nまず叩く。\n",
        "references/詳細.md": "詳細\n",
    },
    "tabs": {"SKILL.md": "---\nname: tabs\ndescription:\tOpens doors.\n---\n\n" + BODY},
    "anchors": {
        "SKILL.md": "---\nname: anchors\ndescription: &d Opens doors.\n"
        "metadata: {about: *d, n: 1}\n---\n" + BODY
    },
    "duplicates": {
        "SKILL.md": "---\nname: duplicates\nname: other\ndescription: Opens doors.\n"
        "x-own: [1]\n---\n" + BODY
    },
    "bom-and-crlf": {
        "SKILL.md": "\ufeff" + (HEAD.format("bom-and-crlf") + BODY).replace("\n", "\r\n"),
        "references/more.md": "More.\r\n",
    },
    "huge-frontmatter": {
        "SKILL.md": HEAD.format("huge-frontmatter").replace(
            "---\n\n", f"metadata:\n  about: {'word ' * 60_000}\n---\n\n"
        )
        + BODY
    },
    "another-name": {"SKILL.md": HEAD.format("some-other") + BODY.rstrip("\n")},
    "no-body": {"SKILL.md": HEAD.format("no-body").rstrip("\n")},
}


def write_folder(place: Path, name: str) -> Path:
    """Write one of the folders."""
    folder = place / name
    for path, content in FOLDERS[name].items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        (folder / path).write_bytes(data)
    return folder


def head_of(folder: Path) -> bytes:
    """Return the frontmatter of a SKILL.md with its lines of ``---``."""
    found = re.match(
        rb"(?:\xef\xbb\xbf)?---\r?\n.*?^---", (folder / "SKILL.md").read_bytes(), re.DOTALL | re.M
    )
    assert found is not None
    return found[0]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files, except the evidence of an export."""
    found = (path for path in folder.rglob("*") if path.is_file())
    kept = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    kept.pop("references/evidence.json", None)
    return kept
