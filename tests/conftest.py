"""Fixtures every room's tests share."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

with suppress(ModuleNotFoundError):  # `make oracle` does without property tests
    from hypothesis import HealthCheck, settings

    # A law holds or not; how long a busy machine takes over an example says nothing about it.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")

ROOT = Path(__file__).resolve().parent.parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Under a shell's `make test &` no process that is started here would heed Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder with reference data, or a skip that says how to get it."""
    path = Path(os.environ.get("SKILLWRIGHT_REFERENCE_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set SKILLWRIGHT_REFERENCE_DATA to its folder")
    return path
