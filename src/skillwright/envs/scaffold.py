"""Writes the project of a new benchmark, which is checked and trains offline as it is written."""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from skillwright.core import DataError
from skillwright.core.jsonio import dumps, write_text

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_FILES: Final = {
    "README.md.in": "README.md",
    "env.py.in": "env.py",
    "train.yaml.in": "train.yaml",
    "models.py.in": "models.py",
    "test.py.in": "test_{name}.py",
}
_SHELVES: Final = {"glass": "top", "books": "middle", "tools": "bottom", "plants": "window"}
_WEIGHTS: Final = range(1, 25)


def write_project(name: str, parent: Path) -> list[Path]:
    """Write a project into a new folder.

    Returns:
        The files.
    """
    _check_name(name)
    folder = parent / name
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise DataError(
            f"{str(folder)!r} is there already; choose another name, or move it away first"
        )
    facts = {"name": name, "class_name": class_name(name), "title": name.replace("_", " ")}
    template = files("skillwright.envs") / "template"
    texts = {
        target.format(name=name): Template(
            (template / source).read_text(encoding="utf-8")
        ).substitute(facts)
        for source, target in _FILES.items()
    }
    texts["tasks.jsonl"] = "".join(f"{dumps(task)}\n" for task in _tasks())
    for file, text in texts.items():
        write_text(folder / file, text)
    return [folder / file for file in texts]


def class_name(name: str) -> str:
    """Return the class of a project: ``my_bench`` has ``MyBench``."""
    return "".join(part.capitalize() for part in name.split("_"))


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) and not keyword.iskeyword(name):
        return
    better = re.sub(r"\W+|_+", "_", name.lower(), flags=re.ASCII).strip("_")
    if not _NAME.fullmatch(better) or keyword.iskeyword(better):
        better = f"bench_{better}".rstrip("_")
    raise DataError(
        f"{name!r} cannot name a Python module; use small letters, digits and '_', begin with a "
        f"letter, such as {better!r}"
    )


def _tasks() -> list[dict[str, object]]:
    return [
        {
            "id": f"{parcel}-{weight:02}",
            "task_type": parcel,
            "parcel": parcel,
            "weight_kg": weight,
            "shelf": shelf,
        }
        for weight in _WEIGHTS
        for parcel, shelf in _SHELVES.items()
    ]
