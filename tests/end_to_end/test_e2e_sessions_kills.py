"""An adoption and a rollback that are killed end as those that nobody disturbed.

`benchmarks/sessions_kill.py` kills them fifty times.
"""

import sys

import pytest

from dying import command
from session_adoption import Adoption
from session_canaries import everything_written, leaked, plant

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
]


def test_killed_adoptions_and_rollbacks_end_alike_and_leave_nothing_half(tmp_path):
    plant(tmp_path / "all")
    logs = tmp_path / "all" / "logs"
    whole = Adoption(tmp_path / "whole", logs, run=command)
    moments = whole.learn()
    wanted = whole.state()
    assert wanted["ledger"] == [(1, True)]
    assert leaked(everything_written(whole.root)) == []
    first_file = moments.index("file") + 1
    for at in (first_file - 3, first_file + moments.count("file") - 1):
        killed = Adoption(tmp_path / f"at-{at}", logs, run=command)
        killed.learn(at)
        assert killed.code == -9
        assert killed.folder() in (None, wanted["folder"])
        assert leaked(everything_written(killed.root)) == [], "nor in what a kill leaves behind"
        killed.learn()
        assert killed.state() == wanted
    back = Adoption(tmp_path / "back", logs, like=whole, run=command)
    back.take_back(12)
    assert back.code == -9
    assert back.folder() in (None, wanted["folder"])
    back.take_back()
    ended = back.state()
    assert (ended["active"], ended["ledger"], ended["folder"]) == ({}, [], None)
    assert ended["lying there"] is None
