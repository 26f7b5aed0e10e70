"""Fixtures every room's tests share."""

import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

with suppress(ModuleNotFoundError):  # `make oracle` does without property tests
    from hypothesis import HealthCheck, settings

    # A property holds or not; the time that an example takes on a busy machine is no evidence.
    no_clock = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", no_clock, max_examples=25)
    settings.register_profile("thorough", no_clock, max_examples=150)
    settings.load_profile("quick")

ROOT = Path(__file__).resolve().parent.parent

# One thread per process: the workers of pytest-xdist already use every core.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# The tests start hundreds of processes; without bytecode each compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Under a shell's `make test &` no process that is started here would heed Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Take the collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder with reference data, or a skip that says how to get it."""
    path = Path(os.environ.get("SKILLWRIGHT_REFERENCE_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set SKILLWRIGHT_REFERENCE_DATA to its folder")
    return path


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    """A clock for retries."""
    return Clock()
