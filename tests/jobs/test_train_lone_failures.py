"""Episodes that always fail, a few per cent of them: they are left out, and no run ends."""

import asyncio

import pytest

from doors import (
    ALL_RULES,
    Coach,
    Veteran,
    Walker,
    doors_config,
    look,
    resumed,
    trained,
    write_tasks,
)
from samples import heavy
from skillwright.core import ModelTimeout, RequestRefused
from skillwright.jobs.run import EpisodeFinished, StageStarted

SKILL = "# Skill\n"
REFUSED, LATE = RequestRefused("a content filter"), ModelTimeout("no answer in 60 s")


class Unlucky(Walker):
    """Never gets an answer where a seed divides, which is in one episode of so many."""

    def __init__(self, one_in, fault):
        super().__init__()
        self._one_in = one_in
        self._fault = fault

    async def complete(self, messages, **asked):
        await asyncio.sleep(0)
        if asked["sampling"].seed % self._one_in == 0:
            raise self._fault
        return await super().complete(messages, **asked)


def config(folder, val=24, test=12, **sections):
    write_tasks(folder / "tasks", 12, val, test)
    rollout = {"max_concurrent": 8, "retries": 0}
    return doors_config(folder, rollout=rollout, **sections)


@pytest.mark.parametrize("fault", [REFUSED, *heavy(LATE)], ids=["refused", "late"])
async def test_the_same_few_tasks_may_fail_in_every_duel(tmp_path, fault):
    """The incumbent's rewards are stored, so that of its episodes only the failures are played."""
    strict = {"gate": {"kind": "strict", "fresh_draws": False}}
    built = config(tmp_path, val=400, train={"epochs": 2, "batch_size": 6}, evaluation=strict)
    plan = [["Be quick."], ["Be slow."], ["Be kind."], ["Be calm."]]
    _, report = await trained(built, Unlucky(24, fault), Coach(plan), skill=SKILL)
    verdicts = [step.verdict for step in report.state.steps]
    assert len(verdicts) == 4
    assert [verdict.lost for verdict in verdicts] == [25] * 4


@pytest.mark.parametrize("fault", [LATE, *heavy(REFUSED)], ids=["late", "refused"])
async def test_a_test_that_was_interrupted_goes_on_although_only_failures_are_left(tmp_path, fault):
    built = config(tmp_path, test=400, train={"epochs": 1, "batch_size": 12})

    class Interrupt:
        """Cancels a run when all of its test but a handful is stored."""

        def __init__(self):
            self.run = None
            self._left = None

        def on_event(self, event):
            if isinstance(event, StageStarted) and event.stage == "test":
                self._left = event.episodes - 8
            if self._left is not None and isinstance(event, EpisodeFinished):
                self._left -= 1
                if self._left == 0:
                    self.run.cancel()

    def llms():
        return Unlucky(30, fault), Coach([[ALL_RULES]])

    interrupt = Interrupt()
    interrupt.run = asyncio.create_task(trained(built, *llms(), skill=SKILL, callback=interrupt))
    with pytest.raises(asyncio.CancelledError):
        await interrupt.run
    report = await resumed(tmp_path / "runs" / "doors", *llms())
    assert {name: table.overall.failures for name, table in report.test.tables.items()} == {
        "initial": 34,
        "empty": 34,
        "best": 18,
        "final": 18,
    }


class Filtered(Walker):
    """Is refused wherever the skill says a certain word."""

    async def complete(self, messages, **asked):
        if "forbidden" in messages[0]["content"]:
            raise REFUSED
        return await super().complete(messages, **asked)


@pytest.mark.parametrize("kind", ["paired", "strict", "open"])
async def test_a_candidate_whose_text_is_refused_is_undecided(tmp_path, kind):
    built = config(tmp_path, val=60, evaluation={"gate": {"kind": kind}, "alpha": 0.4})
    path, report = await trained(
        built, Filtered(), Coach([["The forbidden word."], [ALL_RULES]]), skill=SKILL
    )
    first = report.state.steps[0]
    (verdict,) = first.verdicts
    assert (verdict.decision.value, verdict.lost) == ("undecided", verdict.rollouts // 2)
    assert report.best_skill == (SKILL if kind == "open" else f"{SKILL}\n{ALL_RULES}\n")
    with look(path) as store:
        assert store.events("finished")


async def test_a_forced_text_that_is_refused_leaves_the_best_skill_alone(tmp_path):
    built = config(
        tmp_path,
        val=60,
        train={"epochs": 3, "batch_size": 6},
        optimizer={"gate_slow_update": False, "slow_update_samples": 6},
        evaluation={"gate": {"kind": "strict"}},
    )
    llm = Veteran([[ALL_RULES]], "The forbidden word.")
    _, report = await trained(built, Filtered(), llm, skill=SKILL)
    assert "forbidden" in report.final_skill
    assert report.best_skill == f"{SKILL}\n{ALL_RULES}\n"
    assert report.state.final.decision.value == "undecided"
    assert report.test.tables["final"].overall.success_rate is None
