"""The run that began last, so that nobody has to type its name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillwright.core import RunError
from skillwright.runs import RunFolder, RunStore, list_runs

LATEST: Final = "latest"
"""Names the run that began last, wherever a run is named and none is called so."""


def latest_run(root: Path) -> Path:
    """Return the folder of the run below a folder that began last; a study's runs count too."""
    runs = sorted(_runs(root), key=_began)
    if not runs:
        raise RunError(
            f"there is no run in {str(root)!r}, so {LATEST!r} names none. Name the folder that "
            "holds your runs with --root, or make a run with:  skillwright demo"
        )
    return runs[-1].path


def has_runs(root: Path) -> bool:
    """Tell whether there is any run below a folder."""
    return next(_runs(root), None) is not None


def _runs(root: Path) -> Iterator[RunFolder]:
    yield from list_runs(root)
    if not root.is_dir():
        return
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        yield from list_runs(folder)


def _began(run: RunFolder) -> tuple[float, str]:
    """Return when a run began, and its name, for runs of the same moment."""
    try:
        with RunStore.open(run.store_path, read_only=True) as store:
            began = store.first_event_time()
    except RunError:  # it cannot be read; whoever asks for the latest must hear of that
        began = None
    if began is None:
        began = (run.path / "config.yaml").stat().st_mtime
    return began, str(run.path)
