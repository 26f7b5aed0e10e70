import asyncio

import pytest

from skillwright.core import EpisodeResult, ModelRefused, PlainSkill, Task
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import Draws, SkillDuel

DRAWS = Draws(seed=7)
TASKS = [Task(f"t{i}", env="toy") for i in range(3)]


class RecordingEngine:
    """Rewards the good skill, and notes what it was asked to play."""

    def __init__(self):
        self.calls = []

    async def run(self, specs, skills):
        self.calls.append(([(s.task.id, s.draw, s.seed, s.phase) for s in specs], skills.text))
        return [EpisodeResult(spec, reward=float(skills.text == "good")) for spec in specs]


def duel(engine, tasks=TASKS, draws=DRAWS):
    return SkillDuel(engine, tasks, PlainSkill("poor"), PlainSkill("good"), draws)


async def test_both_sides_of_a_pair_meet_the_same_task_draw_and_seed():
    engine = RecordingEngine()
    pairs = await duel(engine).draw(["t2", "t0"], n=2)
    expected = [
        (task_id, draw, evaluation_seed(7, task_id, draw), "gate")
        for task_id in ("t2", "t0")
        for draw in (0, 1)
    ]
    assert engine.calls == [(expected, "poor"), (expected, "good")]
    assert [(pair.task_id, pair.gain) for pair in pairs] == [
        ("t2", 1.0),
        ("t2", 1.0),
        ("t0", 1.0),
        ("t0", 1.0),
    ]
    assert all(pair.incumbent.spec == pair.candidate.spec for pair in pairs)


async def test_drawing_a_task_again_gives_fresh_draws():
    engine = RecordingEngine()
    both = duel(engine, draws=Draws(seed=7, first=5, phase="compare", step=3))
    await both.draw(["t0"], n=2)
    await both.draw(["t0", "t1"], n=1)
    played = [[(task_id, draw) for task_id, draw, _, _ in specs] for specs, _ in engine.calls]
    assert played[::2] == [[("t0", 5), ("t0", 6)], [("t0", 7), ("t1", 5)]]
    assert engine.calls[0][0][0] == ("t0", 5, evaluation_seed(7, "t0", 5), "compare")
    assert both.task_ids == ("t0", "t1", "t2")


def test_a_draw_records_what_it_is_for():
    spec = Draws(seed=7, phase="compare", step=3).spec(TASKS[0], 4)
    assert (spec.draw, spec.phase, spec.step) == (4, "compare", 3)
    assert spec.seed == evaluation_seed(7, "t0", 4)


async def test_both_sides_are_drawn_at_once():
    meeting = asyncio.Barrier(2)

    class WaitingEngine(RecordingEngine):
        async def run(self, specs, skills):
            await meeting.wait()
            return await super().run(specs, skills)

    async with asyncio.timeout(5):
        assert len(await duel(WaitingEngine()).draw(["t0"], n=1)) == 1


async def test_a_task_outside_the_duel_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="task 't9' is not part of this duel"):
        await duel(RecordingEngine()).draw(["t9"], n=1)


async def test_task_ids_must_be_unique():
    with pytest.raises(ValueError, match="'t0' is not"):
        duel(RecordingEngine(), tasks=[*TASKS, TASKS[0]])


async def test_what_stops_the_engine_arrives_as_itself_and_cancels_the_other_side():
    cancelled = asyncio.Event()

    class RefusedEngine(RecordingEngine):
        async def run(self, specs, skills):
            if skills.text == "good":
                raise ModelRefused("401: wrong key")
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    with pytest.raises(ModelRefused, match="wrong key"):
        await duel(RefusedEngine()).draw(["t0"], n=1)
    assert cancelled.is_set()
