import pytest

from skillwright.core import EpisodeResult, ModelRefused, PlainSkill, Task
from skillwright.core.seeds import evaluation_seed
from skillwright.evaluation import Draws, SkillDuel

DRAWS = Draws(seed=7)
TASKS = [Task(f"t{i}", env="toy") for i in range(3)]


class RecordingEngine:
    """Rewards the good skill, and notes which episodes were started, in order."""

    def __init__(self):
        self.started = []

    async def run(self, specs, skills):
        texts = [context.text for context in skills.contexts([spec.task for spec in specs])]
        self.started += zip(specs, texts, strict=True)
        return [
            EpisodeResult(spec, reward=float(text == "good"))
            for spec, text in zip(specs, texts, strict=True)
        ]

    def of(self, skill):
        return [(s.task.id, s.draw, s.seed, s.phase) for s, text in self.started if text == skill]


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
    assert engine.of("poor") == engine.of("good") == expected
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
    played = [(task_id, draw) for task_id, draw, _, _ in engine.of("poor")]
    assert played == [("t0", 5), ("t0", 6), ("t0", 7), ("t1", 5)]
    assert engine.of("poor")[0] == ("t0", 5, evaluation_seed(7, "t0", 5), "compare")
    assert both.task_ids == ("t0", "t1", "t2")


def test_a_draw_records_what_it_is_for():
    spec = Draws(seed=7, phase="compare", step=3).spec(TASKS[0], 4)
    assert (spec.draw, spec.phase, spec.step) == (4, "compare", 3)
    assert spec.seed == evaluation_seed(7, "t0", 4)


async def test_both_draws_of_a_pair_start_together_and_either_side_first():
    async def starts(seed):
        engine = RecordingEngine()
        tasks = [Task(f"t{i}", env="toy") for i in range(40)]
        await duel(engine, tasks, Draws(seed=seed)).draw([task.id for task in tasks], n=1)
        return [(spec.task.id, text) for spec, text in engine.started]

    started = await starts(7)
    pairs = list(zip(started[::2], started[1::2], strict=True))
    assert all(one[0] == other[0] and one[1] != other[1] for one, other in pairs)
    first = [one[1] for one, _ in pairs].count("good")
    assert 10 < first < 30  # by a coin toss for each pair
    assert await starts(7) == started
    assert await starts(8) != started


async def test_a_task_outside_the_duel_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="task 't9' is not part of this duel"):
        await duel(RecordingEngine()).draw(["t9"], n=1)


async def test_task_ids_must_be_unique():
    with pytest.raises(ValueError, match="'t0' is not"):
        duel(RecordingEngine(), tasks=[*TASKS, TASKS[0]])


async def test_what_stops_the_engine_arrives_as_itself():
    class RefusedEngine:
        async def run(self, specs, skills):
            raise ModelRefused("401: wrong key")

    with pytest.raises(ModelRefused, match="wrong key"):
        await duel(RefusedEngine()).draw(["t0"], n=1)
