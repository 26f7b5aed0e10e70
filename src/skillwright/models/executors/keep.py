"""Where the output of a program's runs is kept, so that a failed one can be looked at."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from skillwright.models.executors.config import ExecConfig


@dataclass(frozen=True, slots=True)
class Keeper:
    """Gives each run a folder for what it prints, and clears away what need not stay."""

    config: ExecConfig
    label: str

    def place(self) -> Path | None:
        """Make a folder for one run; return the beginning of its files' names, or ``None``."""
        if self.config.keep_output is None:
            return None
        root = Path(self.config.keep_output)
        root.mkdir(parents=True, exist_ok=True)
        return Path(mkdtemp(prefix=f"{self.label}-", dir=root)) / self.label

    def settle(self, place: Path | None, *, failed: bool) -> None:
        """Decide what stays, once a run is over: all, or the latest that failed."""
        most = self.config.keep_failures
        if place is None or most is None:
            return
        if not failed:
            shutil.rmtree(place.parent, ignore_errors=True)
            return
        kept = [path for path in place.parent.parent.glob(f"{self.label}-*") if path.is_dir()]
        for folder in sorted(kept, key=_age)[:-most]:
            # One that is being written now is among the latest, unless very many run at once.
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another run cleared it away meanwhile
        return 0.0
