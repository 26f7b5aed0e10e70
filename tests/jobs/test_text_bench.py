"""The bench of our own environments: what it plans, plays, and keeps apart."""

import pytest

from doors import Notebook
from skillwright.core import DataError, EpisodeResult, RunError, StopReason, Task, Trajectory
from skillwright.datasets import Splits
from skillwright.datasets.split import tasks_digest
from skillwright.evaluation import Draws
from skillwright.jobs.run import Longitudinal, Sizes, StageStarted, StepRef, TextBench
from skillwright.textopt import PairPolicy


class Engine:
    """Gives every episode a reward of 1, and keeps what it was asked for."""

    def __init__(self):
        self.asked = []

    async def run(self, specs, skills):
        texts = [context.text for context in skills.contexts([spec.task for spec in specs])]
        self.asked += zip(texts, specs, strict=True)
        return [
            EpisodeResult(
                spec, reward=1.0, stop_reason=StopReason.DONE, trajectory=Trajectory("You wait.")
            )
            for spec in specs
        ]


def tasks(split, count):
    return [Task(f"{split}-{index}", env="doors") for index in range(count)]


def make_bench(train=5, val=4, kept=0, policy=PairPolicy.MIXED):
    judged = tasks("val", val)
    splits = Splits.of(
        tasks("train", train), judged[: val - kept], tasks("test", 3), judged[val - kept :]
    )
    return TextBench(Engine(), splits, 42, Longitudinal(2, policy, 1.0), Notebook(), "walker")


async def test_an_epoch_visits_every_task_once_and_its_seeds_are_the_documented_ones():
    batches = await make_bench().batches(epoch=2, count=3, size=2)
    assert [batch.seed for batch in batches] == [42 + 2000 + index + 1 for index in range(3)]
    assert [batch.batch_size for batch in batches] == [2, 2, 1]
    visited = [task.id for batch in batches for task in batch.payload]
    assert sorted(visited) == [f"train-{index}" for index in range(5)]
    assert await make_bench().batches(epoch=2, count=3, size=2) == batches
    assert await make_bench().batches(epoch=3, count=3, size=2) != batches


async def test_a_refilled_micro_batch_meets_its_tasks_with_other_luck():
    bench = make_bench()
    batches = await bench.batches(epoch=1, count=4, size=3)
    assert [batch.metadata["draws"] for batch in batches] == [
        [0, 0, 0], [0, 0], [1, 1, 1],
        [1 + (task in batches[2].payload) for task in batches[3].payload],
    ]  # fmt: skip
    for index, batch in enumerate(batches):
        practice = await bench.train_on(batch, "Be quick.", StepRef(1, 1), index)
        assert practice.seed == batch.seed
        assert [row.task_id for row in practice.transcripts.rows] == [t.id for t in batch.payload]
    specs = [spec for _, spec in bench.engine.asked]
    assert len({spec.seed for spec in specs}) == len(specs) == 11
    assert {(spec.phase, spec.step) for spec in specs} == {("train", 1)}


async def test_what_is_kept_to_confirm_is_played_by_nothing_else():
    bench = make_bench(kept=1)
    assert bench.sizes == Sizes(5, 3, 3)
    assert bench.facts["confirm"]["tasks"] == 1
    await bench.measure("a", "val", phase="gate")
    duel = bench.duel("a", "b", Draws(42))
    await duel.draw(duel.task_ids, 1)
    assert {spec.task.id for _, spec in bench.engine.asked} == {"val-0", "val-1", "val-2"}
    found = await bench.confirm({"initial": "a", "best": "b"})
    assert [result.task_id for results in found.values() for result in results] == ["val-3"] * 2
    with pytest.raises(RunError, match="opened already"):
        await bench.confirm({"initial": "a"})


def test_tasks_are_told_apart_by_what_they_are_and_not_by_where_they_lie():
    def told(**extras):
        named = [Task("a", env="doors", extras={"door": 1, "game_file": "/x", **extras})]
        return tasks_digest(named)

    assert told() == told(game_file="/moved")
    assert told() != told(door=2)
    with pytest.raises(
        DataError, match="task 'a' cannot be distinguished from others by its content"
    ):
        told(door=float("nan"))


async def test_the_seal_of_the_test_tasks_says_what_is_in_them_and_holds():
    bench = make_bench()
    known = bench.facts["test"]
    assert known == {"tasks": 3, "content": tasks_digest(tasks("test", 3))}
    await bench.open_test({"initial": "a"})  # the seal was whole
    assert bench.facts["test"] == known


async def test_without_kept_tasks_there_is_nothing_to_confirm_and_nothing_to_say_of_them():
    bench = make_bench()
    assert await bench.confirm({"initial": "a"}) == {}
    assert set(bench.facts) == {"train", "val", "test"}


async def test_the_test_split_is_opened_once_for_all_skills():
    bench = make_bench()
    found = await bench.open_test({"initial": "a", "best": "b"})
    assert {name: len(results) for name, results in found.items()} == {"initial": 3, "best": 3}
    with pytest.raises(RunError, match="opened already"):
        await bench.open_test({"initial": "a"})


async def test_an_evaluation_may_measure_the_test_split_draw_by_draw():
    bench = make_bench()
    for draw in range(2):
        await bench.measure("a", "test", draw, phase="test")
    seeds = [spec.seed for _, spec in bench.engine.asked]
    assert len(set(seeds)) == len(seeds) == 6


async def test_a_look_back_is_complete_and_says_how_much_it_plays():
    bench = make_bench(policy=PairPolicy.UNCHANGED)
    comparison = await bench.compare("a", "b", epoch=2)
    assert not comparison.todo
    assert len(comparison.pairs) == 2
    assert bench.callback.events == [StageStarted("epoch update", epoch=2, episodes=4)]
    assert {text for text, _ in bench.engine.asked} == {"a", "b"}
    vain = make_bench(policy=PairPolicy.CHANGED)
    assert not (await vain.compare("a", "a", epoch=2)).pairs
    assert not vain.engine.asked
