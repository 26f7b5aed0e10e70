"""An installed package that declares entry points, written into a folder."""

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], modules: Mapping[str, str]
) -> Path:
    """Write the metadata and the modules of a package; put the folder on ``sys.path`` to use it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    lines = []
    for group, points in groups.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    return folder
