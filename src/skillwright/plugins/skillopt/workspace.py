"""`prepare_workspace`: the folder in which a command-line agent finds a task and a skill.

Source: SkillOpt (microsoft/SkillOpt).
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from skillwright.core import DataError
from skillwright.models.skill_md import CLIENT_FOLDERS, SKILL_NAME, write_file

# Folders of benchmarks that contain answers.
_NEVER_LINKED = frozenset({"officeqa_split", "sealqa_split"})


class Prepared(NamedTuple):
    """Paths of the skill and the task."""

    skill_path: Path
    task_path: Path


def prepare_workspace(  # noqa: PLR0913  documented signature
    work_dir: Path | str,
    skill_md: str,
    task_text: str,
    task_filename: str = "task.md",
    images: Iterable[Path | str] = (),
    extra_files: Mapping[str, str] | None = None,
    copy_files: Mapping[str, Path | str] | None = None,
    link_dirs: Mapping[str, Path | str] | None = None,
) -> Prepared:
    """Empty a folder, and write the task, the skill and further files into it.

    Args:
        work_dir: The folder; its content is removed.
        skill_md: The SKILL.md, as from `render_skill_md`; none is written if blank.
        task_text: The task.
        task_filename: The name of the task's file.
        images: Files that are copied to ``attachments/NN_name`` and listed in
            ``ATTACHMENTS.md``.
        extra_files: Path inside the folder -> text.
        copy_files: Path inside the folder -> file to copy.
        link_dirs: Path inside the folder -> folder to link.

    Raises:
        DataError: A path leads out of the folder, a file is missing, or the folder must not be
            emptied.
    """
    folder = _emptied(Path(work_dir))
    skill_path = folder / CLIENT_FOLDERS[0] / SKILL_NAME / "SKILL.md"
    if skill_md.strip():
        for client in CLIENT_FOLDERS:
            write_file(folder / client / SKILL_NAME / "SKILL.md", skill_md)
    task_path = _inside(folder, task_filename)
    write_file(task_path, task_text)
    for name, text in (extra_files or {}).items():
        write_file(_inside(folder, name), text)
    for name, source in (copy_files or {}).items():
        _copy(Path(source), _inside(folder, name))
    for name, source in (link_dirs or {}).items():
        _link(Path(source), _inside(folder, name))
    _attach(folder, [Path(image) for image in images])
    return Prepared(skill_path, task_path)


def _emptied(folder: Path) -> Path:
    real = folder.resolve()
    if real == Path.home() or Path.cwd().is_relative_to(real):
        raise DataError(f"{str(real)!r} would be emptied; choose a folder of its own for the work")
    if real.is_dir():
        shutil.rmtree(real)
    real.mkdir(parents=True)
    return real


def _inside(folder: Path, name: str) -> Path:
    place = (folder / name).resolve()
    if place == folder or not place.is_relative_to(folder):
        raise DataError(f"file {name!r} lies outside of the work folder; give a path inside it")
    return place


def _copy(source: Path, place: Path) -> None:
    if not source.is_file():
        raise DataError(f"there is no file {str(source)!r} to copy into the work folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


def _link(source: Path, place: Path) -> None:
    if _NEVER_LINKED & set(source.resolve().parts):
        raise DataError(f"{str(source)!r} holds the answers of its benchmark and is never shown")
    if not source.is_dir():
        raise DataError(f"there is no folder {str(source)!r} to link into the work folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(source.resolve(), target_is_directory=True)


def _attach(folder: Path, images: list[Path]) -> None:
    if not images:
        return
    names = [f"attachments/{number:02d}_{path.name}" for number, path in enumerate(images, 1)]
    for path, name in zip(images, names, strict=True):
        _copy(path, folder / name)
    write_file(folder / "ATTACHMENTS.md", "".join(f"- {name}\n" for name in names))
