"""All release tests of a bank share one error budget, which its log restores."""

import json

import pytest

from bank_doors import Timid, adding, bank_config, bank_file, cast, proposing, room_skill
from doors import write_tasks
from skillwright.bank import Add, Bank, BankStore, apply, save_bank
from skillwright.core import ConfigError
from skillwright.evaluation import ErrorBudget
from skillwright.jobs.bank import approve_by_gate, error_budget, evolve_bank, import_into
from skillwright.jobs.run import EpisodeFinished, NullCallback

EVOLVE = {"nth": 2, "trigger_accuracy": 1.0}
FIRST, SECOND, THIRD = 0.02187, 0.00722, 0.00377


class Stopped(Exception):
    """As if the process was killed."""


@pytest.fixture
def bank(tmp_path):
    return bank_file(tmp_path / "bank.sqlite", ["attic"])


def log_of(bank):
    with BankStore.open(bank, read_only=True) as store:
        return store.log()


def levels(bank):
    budget = ErrorBudget.after(0.05, (one.verdict for one in log_of(bank)))
    return list(budget.levels), list(budget.released)


async def approve(folder, bank, name, *, door=3, **evaluation):
    """Propose a skill of a room; with a wrong door it helps nobody."""
    source, _ = apply(Bank(), [Add(room_skill(name, door))])
    save_bank(source, folder / f"{name}.json")
    import_into(bank, str(folder / f"{name}.json"))
    config = bank_config(folder, evolve=EVOLVE, evaluation=evaluation)
    with BankStore.open(bank, read_only=True) as store:
        pending = [one.id for one in store.load().skills if one.name.endswith(name)]
    return await approve_by_gate(config, bank, pending, NullCallback(), cast(Timid()))


async def test_each_test_gets_the_level_that_earlier_ones_left_and_says_so(tmp_path, bank):
    found = [await approve(tmp_path, bank, name) for name in ("loft", "shed")]
    assert all(one.refused for one in found)
    given, released = levels(bank)
    assert given == pytest.approx([FIRST, SECOND], abs=1e-5)
    assert released == [False, False]
    assert "release test 2 of an error budget" in found[1].verdict.reason
    assert "0.021 is left of it (alpha 0.05)" in found[1].verdict.reason
    config = bank_config(tmp_path, evolve=EVOLVE)
    assert error_budget(config, log_of(bank)).level == pytest.approx(THIRD, abs=1e-5)


def with_small_rooms(folder):
    """Give a loft and a shed six train tasks and two val tasks each; their door is the third."""
    written = write_tasks(folder / "tasks")
    for split, count in (("train", 6), ("val", 2)):
        file = written / split / "items.json"
        items = json.loads(file.read_text(encoding="utf-8"))
        for at, item in enumerate(items[: 2 * count]):
            room = "loft" if at < count else "shed"
            item |= {"task_type": room, "room": room, "door": 3}
        file.write_text(json.dumps(items), encoding="utf-8")


async def test_several_rounds_that_are_tested_together_spend_once(tmp_path, bank):
    with_small_rooms(tmp_path)
    config = bank_config(tmp_path, evolve=EVOLVE)
    taught = proposing(adding(room_skill("loft", 3)), adding(room_skill("shed", 3)))
    report = await evolve_bank(config, bank, 2, NullCallback(), cast(Timid(), taught))
    assert [one.action for one in report.rounds] == ["accept", "accept"]
    assert "Not proven better: 4 of 24 tasks" in report.release.reason
    assert levels(bank) == ([pytest.approx(FIRST, abs=1e-5)], [False])
    assert error_budget(config, log_of(bank)).level == pytest.approx(SECOND, abs=1e-5)


async def test_a_bank_without_enough_left_is_refused_with_its_budget(tmp_path, bank):
    for name in ("loft", "shed", "barn"):
        await approve(tmp_path, bank, name)
    with pytest.raises(ConfigError, match=r"It would be release test 4 of an error budget"):
        await approve(tmp_path, bank, "silo", val_tasks=8)
    assert len(levels(bank)[0]) == 3


async def test_a_stopped_test_spends_nothing_and_gets_the_same_level_again(tmp_path, bank):
    class Stopping(NullCallback):
        def on_event(self, event):
            if isinstance(event, EpisodeFinished):
                raise Stopped

    source, _ = apply(Bank(), [Add(room_skill("loft", 3))])
    save_bank(source, tmp_path / "loft.json")
    import_into(bank, str(tmp_path / "loft.json"))
    config = bank_config(tmp_path, evolve=EVOLVE)
    with pytest.raises((Stopped, ExceptionGroup)):
        await approve_by_gate(config, bank, [], Stopping(), cast(Timid()))
    assert levels(bank) == ([], [])
    again = await approve_by_gate(config, bank, [], NullCallback(), cast(Timid()))
    assert again.verdict.alpha == pytest.approx(FIRST, abs=1e-5)
