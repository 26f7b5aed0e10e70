"""A wall clock that is set while a run works moves neither its records, deadlines nor budgets."""

import time
from itertools import count

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, look, trained
from skillwright.bank import BankStore
from skillwright.core.clock import steady_time
from skillwright.jobs.run import SESSION, SESSION_ENDED, seconds_worked
from skillwright.runs import RunStore

YEAR_S = 365 * 86_400.0


@pytest.mark.parametrize("jump_s", [YEAR_S, -YEAR_S, 3600.0, -0.5])
def test_a_clock_that_is_set_changes_no_time_of_a_record(tmp_path, monkeypatch, jump_s):
    real = time.time
    with RunStore.open(tmp_path / "run.sqlite") as store:
        store.append_event("before", {})
        monkeypatch.setattr(time, "time", lambda: real() + jump_s)
        store.append_event("after", {})
        before, after = store.events()
    assert 0 <= after.time - before.time < 60
    assert abs(steady_time() - real()) < 60
    with BankStore.open(tmp_path / "bank.sqlite") as bank:
        bank.commit((), reason="nothing")
        assert abs(bank.log()[-1].time - real()) < 60


@pytest.mark.parametrize(
    ("sessions", "worked_s"),
    [
        ([(0, 10, True), (20, 35, True)], 25),
        ([(100, 110, True), (20, 35, True)], 25),  # set back between sessions
        ([(100, 110, False), (20, 35, True)], 25),  # and the first one was killed
        ([(0, 10, False), (YEAR_S, YEAR_S + 15, False)], 25),
        ([(50, 60, False), (50, 65, False)], 25),
        ([(100, 90, True), (20, 35, True)], 15),  # no session lasts less than nothing
    ],
)
def test_sessions_are_counted_in_the_order_of_their_events(tmp_path, sessions, worked_s):
    now = [0.0]
    with RunStore.open(tmp_path / "run.sqlite", clock=lambda: now[0]) as store:
        for began, ended, says_so in sessions:
            now[0] = began
            store.append_event(SESSION, {})
            now[0] = ended
            store.append_event(SESSION_ENDED if says_so else "step", {})
        assert seconds_worked(store) == worked_s


async def test_a_run_through_jumps_decides_as_one_without(tmp_path, monkeypatch):
    plain, jumping = tmp_path / "plain", tmp_path / "jumping"
    settings = {"budget": {"minutes": 30}}
    first, _ = await trained(doors_config(plain, **settings), Walker(), Coach([ALL_RULES]))
    real, jumps = time.time, count()
    monkeypatch.setattr(time, "time", lambda: real() + (-1) ** next(jumps) * next(jumps) * 3600.0)
    second, _ = await trained(doors_config(jumping, **settings), Walker(), Coach([ALL_RULES]))
    assert decisions(second) == decisions(first)


def decisions(path):
    with look(path) as store:
        played = sorted((one.key, one.reward) for one in store.episodes())
        return (
            played,
            store.verdicts(),
            (path / "best_skill.md").read_text(),
        )
