"""What this machine has: its memory in use, and the data of tau-bench."""

import gc
import os
from pathlib import Path


def resident_bytes() -> int:
    """Return the memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def tau_folder() -> Path:
    """Return ``$SKILLWRIGHT_TAU_DATA``, or tau_retail of ``$SKILLWRIGHT_REFERENCE_DATA``."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    reference = Path(os.environ.get("SKILLWRIGHT_REFERENCE_DATA", beside)) / "tau_retail"
    return Path(os.environ.get("SKILLWRIGHT_TAU_DATA", reference))
