"""Makes the fake command lines of this folder runnable."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def install(name: str, folder: Path, **environ: str) -> Path:
    """Write an executable ``name`` into a folder that runs our fake of it; return its path.

    Its ``FAKE_...`` variables are written into it, as a program's environment is an allow-list.
    """
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    told = f"import os; os.environ.update({environ!r})"
    # -S -E: a fake starts in a third of the time without site-packages.
    program.write_text(
        f"#!{Path(sys.executable).resolve()} -SE\n{told}\n{source}", encoding="utf-8"
    )
    program.chmod(0o755)
    return program
