"""What a budget knows of work that has not ended: while it continues, and after it was stopped."""

import asyncio
import logging
from dataclasses import replace

import pytest

from doors import (
    ALL_RULES,
    Coach,
    Notebook,
    Walker,
    doors_config,
    llms,
    look,
    trained,
    write_tasks,
)
from skillwright.config.run import BudgetSection
from skillwright.core import Completion, ConfigError, ModelRefused, Usage
from skillwright.core.concurrency import together
from skillwright.jobs.run import (
    MAX_UNMEASURED,
    Budget,
    BudgetSpent,
    NullCallback,
    RunStarted,
    budget_gaps,
    priced_models,
    refuse_unpriced,
    seconds_worked,
)
from skillwright.jobs.text import open_run, run_training, start_run
from skillwright.models import EndpointFault
from somebodys import Seeded, adapter_config

PRICE = 0.01
PLAN = [[ALL_RULES]]
LONG = {"env": {"max_turns": 30}, "rollout": {"max_concurrent": 64}}
COST = Usage(calls=1, input_tokens=9, output_tokens=1, cost_usd=PRICE)


class Lost(Walker):
    """Never finds the door, for a cent a turn."""

    def __init__(self, on_call=None):
        super().__init__(on_call)
        self.answered = 0

    async def complete(self, messages, **about):
        await super().complete(messages, **about)
        await asyncio.sleep(0)
        self.answered += 1
        return Completion("99", usage=COST)


def spent(path):
    with look(path) as store:
        return store.usage_since()[0]


async def stopped(run, target, error):
    with pytest.raises(error):
        await run_training(run, NullCallback(), llms(target, Coach(PLAN)))


async def test_long_episodes_in_flight_do_not_overrun_the_budget(tmp_path):
    write_tasks(tmp_path / "tasks", 60, 120, 60)
    target = Lost()
    with start_run(doors_config(tmp_path, budget={"usd": 1.0}, **LONG), "") as run:
        await stopped(run, target, BudgetSpent)
        path = run.folder.path
    episode = 30 * PRICE
    assert 1.0 <= PRICE * target.answered <= 1.0 + MAX_UNMEASURED * episode
    assert spent(path).cost_usd == pytest.approx(PRICE * target.answered)


class Interrupted(Lost):
    """Somebody stops the run at a certain answer."""

    task: asyncio.Task

    def __init__(self, at, stop):
        super().__init__(lambda number: stop(self) if number == at else None)


def cancel(target):
    target.task.cancel()


def refuse(target):
    del target
    raise ModelRefused("the key was taken back")


@pytest.mark.parametrize(
    ("stop", "error"), [(cancel, asyncio.CancelledError), (refuse, ModelRefused)]
)
async def test_what_unfinished_episodes_used_is_counted(tmp_path, stop, error):
    with start_run(doors_config(tmp_path, **LONG), "") as run:
        target = Interrupted(200, stop)
        target.task = asyncio.ensure_future(stopped(run, target, error))
        await target.task
        path = run.folder.path
    used = spent(path)
    assert target.answered > 100
    # All but what was being asked at that moment: nobody knows what becomes of that.
    assert target.answered - 64 <= used.calls <= target.answered
    with look(path) as store:
        assert store.counts()["episodes"] == 0


async def test_interruptions_do_not_get_around_a_budget(tmp_path):
    write_tasks(tmp_path / "tasks", 60, 120, 60)
    config = doors_config(tmp_path, budget={"usd": 2.0}, **LONG)
    with start_run(config, "") as run:
        path = run.folder.path
    paid = 0
    for _ in range(20):
        with open_run(path) as run:
            target = Interrupted(60, cancel)
            target.task = asyncio.ensure_future(
                stopped(run, target, (asyncio.CancelledError, BudgetSpent))
            )
            await target.task
            paid += target.answered
    assert PRICE * paid < 2.0 + MAX_UNMEASURED * 30 * PRICE + 20 * MAX_UNMEASURED * PRICE


async def test_minutes_of_a_session_that_finished_nothing_are_counted(tmp_path):
    now = [4e9]  # long after the run was made
    with start_run(doors_config(tmp_path), "") as run:
        run.store._clock = lambda: now[0]

        def stop(target):
            now[0] += 90.0
            cancel(target)

        target = Interrupted(3, stop)
        target.task = asyncio.ensure_future(stopped(run, target, asyncio.CancelledError))
        await target.task
        assert seconds_worked(run.store) == pytest.approx(90.0)
        with pytest.raises(BudgetSpent, match=r"1\.5 minutes"):
            async with Budget(BudgetSection(minutes=1), run.store).permit():
                pass


# --- permits ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        yield run.store


async def test_few_begin_before_the_first_has_shown_its_cost_and_then_as_many_as_fit(store):
    budget = Budget(BudgetSection(usd=2.5), store)
    begun, ends = [], [asyncio.Event() for _ in range(100)]

    async def work(number):
        async with budget.permit():
            begun.append(number)
            budget.note(Usage(calls=1, cost_usd=0.25))
            await ends[number].wait()
            store.record_usage({"rollout": Usage(calls=1, cost_usd=0.25)})

    async def watch():
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(begun) == MAX_UNMEASURED
        ends[0].set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(begun) == 10  # one ended, and nine of its like are in flight
        for end in ends:
            end.set()

    with pytest.raises(BudgetSpent, match=r"of 2\.5 USD is spent: 2\.5 USD"):
        await together([*map(work, range(100)), watch()])
    assert len(begun) == 10


async def test_kinds_of_work_are_not_compared(store):
    budget = Budget(BudgetSection(usd=1.0), store)
    async with budget.permit("call"):
        budget.note(Usage(calls=1, cost_usd=0.9))
    begun = []

    async def work():
        async with budget.permit():
            begun.append(1)
            await asyncio.sleep(0)
            assert len(begun) == MAX_UNMEASURED

    async with asyncio.timeout(1):
        await together(work() for _ in range(MAX_UNMEASURED))


# --- costs that nobody says ---------------------------------------------------------------------


async def test_one_reply_without_a_cost_counts_as_the_dearest_known(tmp_path, caplog):
    class Forgetful(Lost):
        async def complete(self, messages, **about):
            answer = await super().complete(messages, **about)
            silent = Usage(calls=1, cost_usd=None)
            return replace(answer, usage=silent) if self.answered == 70 else answer

    target = Forgetful()
    config = doors_config(tmp_path, budget={"usd": 2.0}, **LONG)
    with caplog.at_level(logging.WARNING), start_run(config, "") as run:
        await stopped(run, target, BudgetSpent)
    assert 2.0 <= PRICE * target.answered <= 2.0 + MAX_UNMEASURED * 30 * PRICE
    [said] = [r.getMessage() for r in caplog.records if "did not say" in r.getMessage()]
    assert "0.01 USD" in said


def test_unknown_costs_are_added_up_apart(store):
    store.record_usage({"rollout": Usage(calls=4, input_tokens=5, cost_usd=1.0)})
    store.record_usage({"rollout": Usage(calls=3, cost_usd=None), "merge": Usage(failed_calls=2)})
    first = store.bill()
    assert (first.known_usd, first.unknown_calls, first.dearest_usd) == (1.0, 3, 0.25)
    assert (first.tokens, first.usd) == (5, 1.75)
    store.record_usage({"merge": Usage(calls=1, output_tokens=2, cost_usd=2.0)})
    both = first + store.bill(first.latest)
    assert both == store.bill()
    assert (both.tokens, both.usd) == (7, 9.0)


def test_without_any_known_cost_the_sum_is_unknown(store):
    store.record_usage({"rollout": Usage(calls=3, cost_usd=None)})
    assert store.bill().usd is None


# --- what a budget cannot bound -----------------------------------------------------------------


def codex(tmp_path, **settings):
    priced = {"prices": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}}
    models = {
        "target": {"backend": "codex_exec", "model": "gpt-6.1-sol", **settings},
        "optimizer": {"backend": "openai_chat", "model": "o", "base_url": "http://a/v1"} | priced,
    }
    return doors_config(tmp_path, models=models, budget={"usd": 1})


def test_a_login_has_no_price_before_a_run_as_in_it(tmp_path, monkeypatch):
    for name in ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"no prices are known for .gpt-6\.1-sol"):
        refuse_unpriced(codex(tmp_path))
    own = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2}
    refuse_unpriced(codex(tmp_path, prices=own))
    monkeypatch.setenv("CODEX_API_KEY", "k")
    assert priced_models(codex(tmp_path))[0].is_priced == (
        codex(tmp_path).models.target.known_prices is not None
    )


async def test_what_an_adapter_spends_is_said_to_be_unbounded(tmp_path):
    callback = Notebook()
    config = adapter_config(tmp_path, Seeded, budget={"usd": 1})
    await trained(config, Walker(), Coach(PLAN), callback=callback)
    (said,) = budget_gaps(config)
    assert said.startswith("budget.usd bounds the optimizer only")
    assert said in callback.of(RunStarted)[0].facts
    assert budget_gaps(adapter_config(tmp_path, Seeded, budget={"minutes": 1})) == ()
    assert budget_gaps(doors_config(tmp_path, budget={"usd": 1})) == ()


async def test_what_failed_attempts_were_charged_for_is_in_the_ledger(tmp_path):
    charged = Usage(input_tokens=5, cost_usd=0.5)

    def fail(number):
        if number % 7 == 0:
            error = EndpointFault("no choice in it")
            error.usage = charged
            raise error

    target, coach = Walker(fail), Coach(PLAN, lambda number: fail(7) if number == 1 else None)
    path, _ = await trained(doors_config(tmp_path), target, coach)
    with look(path) as store:
        used = store.usage_by_purpose()
    assert used["rollout"].cost_usd == 0.5 * (len(target.calls) // 7) > 0
    assert (used["reflect"].cost_usd, used["reflect"].failed_calls) == (0.5, 1)
