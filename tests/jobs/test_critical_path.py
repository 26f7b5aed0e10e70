"""The chain of waits of a run, computed by hand from stores that were written by hand."""

import asyncio

import pytest

from doors import ALL_RULES, Coach, Walker, doors_config, look, trained
from skillwright.core import (
    Act,
    Completion,
    EpisodeResult,
    EpisodeSpec,
    Purpose,
    Task,
    Trajectory,
    Turn,
)
from skillwright.core.jsonio import digest
from skillwright.jobs.inspect import CriticalPath, Link, critical_path
from skillwright.runs import CallRecord, PatchRecord, RunStore
from somebodys import Documented, adapter_config


class Diary:
    """Writes a run's store as if time went by: every entry says when it ended and how long it took.

    Args:
        store: Made with ``clock`` as its clock.
        clock: A list whose last item is now.
    """

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock

    def event(self, at, kind, **payload):
        self.clock.append(at)
        self.store.append_event(kind, payload)

    def episode(self, began, wall_s, phase, step=None, task="t", turns=1, seed=0):
        self.clock.append(began + wall_s)
        acts = tuple(Turn(i, (), Act("x"), "", 0.0) for i in range(turns))
        self.store.record_episode(
            EpisodeResult(
                EpisodeSpec(Task(task, "doors"), seed, 0, phase, step),
                reward=1.0,
                trajectory=Trajectory("", acts),
                key=f"{phase}.{step}.{task}.{began}.{seed}",
                wall_s=wall_s,
            ),
            agent="a",
        )

    def call(self, wall_s, purpose, step, said, patch=None, level=0, inputs=(), edits=()):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": said}]
        self.store.record_call(
            CallRecord(said, purpose, "m", messages, Completion("{}"), step=step, wall_s=wall_s)
        )
        if patch:
            record = PatchRecord(
                step, patch, "", inputs, edits, level, prompt_digest=digest(messages)
            )
            self.store.record_patches([record])
        return messages


@pytest.fixture
def diary(tmp_path):
    clock = [1000.0]
    with RunStore.open(tmp_path / "run.sqlite", clock=lambda: clock[-1]) as store:
        yield Diary(store, clock)


def stages(path):
    return [(link.stage, round(link.seconds, 6), link.requests) for link in path.links]


def a_first_step(diary):
    diary.event(1000, "session")
    diary.episode(1000, 4, "gate", turns=2)  # the baseline, beside the step
    diary.episode(1000, 1, "train", 1, "t1", turns=3)
    diary.episode(1000, 2, "train", 1, "t2", turns=5)
    diary.call(0.5, Purpose.REFLECT, 1, "f0", "s1.f0", inputs=["t1"], edits=["f0.e1"])
    diary.call(3.0, Purpose.REFLECT, 1, "s0", "s1.s0", inputs=["t2"], edits=["s0.e1"])
    diary.call(0.2, Purpose.REFLECT, 1, "f1", "s1.f1", inputs=["t1"], edits=["f1.e1"])
    diary.call(
        1.0, Purpose.MERGE, 1, "m", "s1.f.m1.0", 1, inputs=["f0.e1", "f1.e1"], edits=["m.e1"]
    )
    diary.call(0.5, Purpose.MERGE, 1, "z", "s1.final", 2, inputs=["m.e1", "s0.e1"], edits=["z"])


def test_a_step_waits_for_its_slowest_rollout_analyst_and_merges(diary):
    a_first_step(diary)
    diary.call(0.25, Purpose.RANK, 1, "r", "s1.rank", inputs=["z"])
    diary.episode(1006, 1, "gate", 1, "v1", turns=1)
    diary.episode(1006, 2, "gate", 1, "v2", turns=4)
    diary.event(1008, "step", step=1)
    path = critical_path(diary.store, slots=64)
    assert stages(path) == [
        ("rollout", 2, 5),
        ("analyst", 3, 1),
        ("merge", 0.5, 1),
        ("ranking", 0.25, 1),
        ("gate", 2, 4),
    ]
    assert (path.seconds, path.requests, path.took_s) == (7.75, 12, 8.0)
    assert path.share == pytest.approx(7.75 / 8)
    assert path.line() == "critical path 7.75 s over 12 requests; the run took 8.00 s (97%)"


def test_a_first_step_that_is_quicker_than_the_baseline_waits_for_that(diary):
    diary.event(1000, "session")
    diary.episode(1000, 9, "gate", turns=2)
    diary.episode(1000, 1, "train", 1)
    diary.event(1009, "step", step=1)
    assert stages(critical_path(diary.store, 64)) == [("baseline", 9, 2)]


def test_a_merge_of_the_slower_tree_decides(diary):
    a_first_step(diary)
    diary.call(9.0, Purpose.MERGE, 1, "m2", "s1.f.m1.1", 1, inputs=["f1.e1"], edits=["n.e1"])
    diary.event(1020, "step", step=1)
    assert stages(critical_path(diary.store, 64)) == [
        ("rollout", 2, 5),
        ("analyst", 0.2, 1),
        ("merge", 9, 1),
    ]


def test_an_analyst_waits_for_its_own_micro_batch_only(diary):
    diary.event(1000, "session")
    diary.episode(1000, 1, "train", 1, "quick")
    diary.episode(1000, 5, "train", 1, "slow")
    diary.call(3.0, Purpose.REFLECT, 1, "a", "s1.b0.f0", inputs=["b0.quick"], edits=["a.e1"])
    diary.call(0.5, Purpose.REFLECT, 1, "b", "s1.b1.f0", inputs=["b1.slow"], edits=["b.e1"])
    diary.event(1006, "step", step=1)
    path = critical_path(diary.store, 64)
    assert stages(path) == [("rollout", 5, 1), ("analyst", 0.5, 1)]


def test_a_merge_waits_for_the_micro_batches_that_go_into_it(diary):
    diary.event(1000, "session")
    diary.episode(1000, 1, "train", 1, "quick")
    diary.episode(1000, 5, "train", 1, "slow")
    diary.call(3.0, Purpose.REFLECT, 1, "a", "s1.b0.f0", inputs=["b0.quick"], edits=["a.e1"])
    diary.call(0.5, Purpose.REFLECT, 1, "b", "s1.b1.f0", inputs=["b1.slow"], edits=["b.e1"])
    diary.call(1.0, Purpose.MERGE, 1, "m", "s1.f.m1.0", 1, inputs=["a.e1", "b.e1"])
    diary.event(1007, "step", step=1)
    assert stages(critical_path(diary.store, 64)) == [
        ("rollout", 5, 1),
        ("analyst", 0.5, 1),
        ("merge", 1, 1),
    ]


def test_a_lonely_analyst_of_several_micro_batches_waits_for_its_own(diary):
    diary.event(1000, "session")
    diary.episode(1000, 1, "train", 1, "quick")
    diary.episode(1000, 5, "train", 1, "slow")
    diary.call(3.0, Purpose.REFLECT, 1, "a", "s1.b0.f0", inputs=["b0.quick"])
    diary.event(1005, "step", step=1)
    assert stages(critical_path(diary.store, 64)) == [("rollout", 5, 1)]


def test_of_two_rollouts_of_a_task_the_quicker_one_is_taken(diary):
    diary.event(1000, "session")
    diary.episode(1000, 1, "train", 1, "same")
    diary.episode(1000, 2, "train", 1, "same", seed=1)
    for batch in (0, 1):
        inputs = [f"b{batch}.same#1"]  # the task's first attempt was no failure
        diary.call(3.0, Purpose.REFLECT, 1, f"{batch}", f"s1.b{batch}.f0", inputs=inputs)
    diary.event(1005, "step", step=1)
    assert stages(critical_path(diary.store, 64)) == [("rollout", 1, 1), ("analyst", 3, 1)]


def test_an_answer_that_was_asked_for_again_counts_with_its_question(diary):
    diary.event(1000, "session")
    diary.episode(1000, 1, "train", 1)
    asked = diary.call(1.0, Purpose.REFLECT, 1, "f0", "s1.f0")
    again = [*asked, {"role": "assistant", "content": "?"}, {"role": "user", "content": "JSON!"}]
    diary.store.record_call(
        CallRecord("k", Purpose.REFLECT, "m", again, Completion("{}"), step=1, wall_s=0.5)
    )
    diary.event(1003, "step", step=1)
    path = critical_path(diary.store, 64)
    assert stages(path) == [("rollout", 1, 1), ("analyst", 1.5, 2)]


def test_a_look_back_waits_for_both_skills_and_the_slower_of_its_writers(diary):
    diary.event(1000, "session")
    diary.event(1001, "step", step=1)
    diary.episode(1001, 2, "slow_update", turns=2)
    diary.episode(1001, 3, "slow_update", turns=1, seed=1)
    diary.episode(1004, 1, "slow_update", turns=7, seed=2)  # a top-up, after both
    diary.call(2.0, Purpose.SLOW_UPDATE, 1, "su")
    diary.call(0.5, Purpose.META_SKILL, 1, "ms")
    diary.episode(1007, 1, "gate", 1)
    diary.event(1008, "epoch", epoch=2)
    diary.episode(1008, 4, "test", turns=3)
    diary.episode(1008, 5, "confirm", turns=2)
    diary.event(1013, "finished")
    path = critical_path(diary.store, 64)
    assert stages(path) == [
        ("epoch update", 3, 1),
        ("epoch update", 1, 7),
        ("slow update", 2, 1),
        ("gate", 1, 1),
        ("test", 5, 2),
    ]
    assert path.by_stage()[0] == Link("epoch update", 4.0, 8)
    assert path.took_s == 13.0


def test_looks_of_a_gate_are_waits_one_after_another_and_a_pause_is_none(diary):
    diary.event(1000, "session")
    diary.episode(1000, 2, "gate", 1, "v1")
    diary.episode(1001, 2, "gate", 1, "v2")
    diary.episode(1003, 1, "gate", 1, "v3")  # a second look
    diary.event(1500, "session")  # killed, and continued with
    diary.episode(1500, 1.5, "gate", 1, "v4")
    diary.event(1502, "step", step=1)
    path = critical_path(diary.store, 64)
    assert stages(path) == [("gate", 2, 1), ("gate", 1.5, 1)]
    assert path.took_s == 4.0 + 2.0


@pytest.mark.parametrize("last", [[], ["session_ended"]], ids=["killed", "ended"])
def test_what_is_written_down_after_a_session_is_no_work(diary, last):
    diary.event(1000, "session")
    diary.event(1002, "step", step=1)
    for kind in last:
        diary.event(1002, kind)
    before = critical_path(diary.store, 1).took_s
    diary.event(5000, "regraded")
    assert critical_path(diary.store, 1).took_s == before == 2.0


def test_a_session_that_ended_takes_no_time_afterwards(diary):
    diary.event(1000, "session")
    diary.event(1002, "session_ended")
    diary.event(5000, "somebody looked")
    assert critical_path(diary.store, 1).took_s == 2.0


def test_a_wait_for_a_free_slot_is_no_link_of_the_chain(diary):
    diary.event(1000, "session")
    for number in range(6):
        diary.episode(1000 + number // 2, 1, "gate", 1, f"v{number}")
    diary.event(1003, "step", step=1)
    assert stages(critical_path(diary.store, slots=2)) == [("gate", 1, 1)]
    assert stages(critical_path(diary.store, slots=3)) == [("gate", 1, 1)] * 3


def test_few_slots_bound_a_run_too(diary):
    diary.event(1000, "session")
    for number in range(10):
        diary.episode(1000 + number, 1, "train", 1, f"t{number}")
    diary.event(1010, "step", step=1)
    path = critical_path(diary.store, slots=2)
    assert (path.seconds, path.busy_s, path.bound_s) == (1.0, 10.0, 5.0)
    assert "2 slots need 5.00 s; the run took 10.0 s (50%)" in path.line()


def test_a_run_that_did_nothing_has_no_line(diary):
    path = critical_path(diary.store, 1)
    assert (path.links, path.share, path.line()) == ((), None, "")
    assert CriticalPath((), 0.0, 0.0, 1).to_dict()["share"] is None


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_real_run_is_never_faster_than_its_path(tmp_path, accumulation):
    train = {"epochs": 2, "batch_size": 6 // accumulation, "accumulation": accumulation}
    config = doors_config(tmp_path, train=train)
    path, _ = asyncio.run(trained(config, Walker(), Coach([[ALL_RULES], ["Be quick."]])))
    with look(path) as store:
        found = critical_path(store, config.rollout.max_concurrent)
        assert len(store.events("session")) == 1
    assert found.seconds > 0
    assert found.share is not None
    assert found.share <= 1
    named = [link.stage for link in found.by_stage()]
    assert {"rollout", "analyst", "gate", "epoch update", "test"} <= set(named)
    assert found.requests >= len(named)


def test_the_rows_of_an_adapters_batch_have_its_time_in_common(tmp_path):
    config = adapter_config(tmp_path, Documented, rollout={"max_concurrent": 1})
    path, _ = asyncio.run(trained(config, Walker(), Coach([[ALL_RULES]])))
    with look(path) as store:
        found = critical_path(store, config.rollout.max_concurrent)
    assert found.slots is None
    assert found.bound_s == found.seconds
    assert found.busy_s <= found.took_s
    assert found.seconds <= found.took_s
