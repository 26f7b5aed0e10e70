"""A run stops within what is in flight when its budget is spent, and resumes with a larger one."""

import asyncio
import re
from dataclasses import replace

import pytest
import typer

from doors import ALL_RULES, Coach, Walker, doors_config, llms, look, story, trained
from skillwright.cli.faults import exit_codes
from skillwright.config import load_config
from skillwright.config.run import BudgetSection
from skillwright.core import ConfigError, Usage
from skillwright.core.concurrency import together
from skillwright.jobs.run import (
    Budget,
    BudgetSpent,
    NullCallback,
    priced_models,
    refuse_unheld,
    refuse_unpriced,
)
from skillwright.jobs.run.money import _larger
from skillwright.jobs.text import (
    EvalPlan,
    open_run,
    preflight,
    run_evaluation,
    run_training,
    start_run,
)
from skillwright.models import EndpointFault

PRICE = 0.01
PLAN = [[ALL_RULES]]


class Paid(Walker):
    """A walker that takes its time, and a cent for every answer."""

    async def complete(self, messages, **about):
        await asyncio.sleep(0)
        answer = await super().complete(messages, **about)
        return replace(
            answer, usage=Usage(calls=1, input_tokens=9, output_tokens=1, cost_usd=PRICE)
        )


def spent(path):
    with look(path) as store:
        return store.usage_since()[0]


async def until_spent(tmp_path, budget, target=None, coach=None, **sections):
    """Train until the budget is spent; return the run's folder and what was said."""
    config = doors_config(tmp_path, budget=budget, **sections)
    made = llms(target or Paid(), coach or Coach(PLAN))
    with start_run(config, "") as run, pytest.raises(BudgetSpent) as caught:
        await run_training(run, NullCallback(), made)
    return run.folder.path, str(caught.value)


@pytest.mark.parametrize("concurrent", [1, 4, 64])
async def test_a_run_stops_within_what_was_in_flight_and_keeps_all_of_it(tmp_path, concurrent):
    target = Paid()
    rollout = {"max_concurrent": concurrent}
    path, said = await until_spent(tmp_path, {"usd": 0.2}, target, rollout=rollout)
    used = spent(path)
    assert used.cost_usd == pytest.approx(PRICE * len(target.calls))  # nothing paid for is lost
    most_turns = 2
    assert 0.2 <= used.cost_usd <= 0.2 + PRICE * most_turns * concurrent
    assert f"{used.cost_usd:.4g} USD" in said
    [larger] = re.findall(r"such as budget\.usd=([0-9.]+)$", said)
    assert float(larger) > used.cost_usd


@pytest.mark.parametrize("bound", [{"usd": 0.1}, {"usd": 0.3}, {"tokens": 450}])
async def test_with_a_larger_budget_it_goes_on_to_the_same_decisions(tmp_path, bound):
    ample = dict.fromkeys(bound, 1_000_000)
    whole, _ = await trained(doors_config(tmp_path / "whole", budget=ample), Paid(), Coach(PLAN))
    path, _ = await until_spent(tmp_path / "part", bound)
    paid = spent(path).cost_usd
    larger = [f"budget.{name}={much}" for name, much in ample.items()]
    again = Paid()
    with open_run(path, overrides=larger) as run:
        await run_training(run, NullCallback(), llms(again, Coach(PLAN)))
    assert story(path) == story(whole)
    # All of both sittings is counted, and nothing was paid for twice.
    assert spent(path).cost_usd == pytest.approx(paid + PRICE * len(again.calls))
    assert spent(path).cost_usd == pytest.approx(spent(whole).cost_usd)


async def test_the_budget_counts_over_all_sittings(tmp_path):
    path, _ = await until_spent(tmp_path, {"usd": 0.2})
    before, nobody = spent(path), Paid()
    with open_run(path) as run, pytest.raises(BudgetSpent):
        await run_training(run, NullCallback(), llms(nobody, Coach(PLAN)))
    assert not nobody.calls
    assert spent(path) == before


async def test_an_optimizers_calls_need_a_permit_too(tmp_path):
    class PaidCoach(Coach):
        async def complete(self, messages, **about):
            answer = await super().complete(messages, **about)
            return replace(answer, usage=Usage(calls=1, cost_usd=1.0))

    coach = PaidCoach([["a"], ["b"], ["c"]])
    path, _ = await until_spent(tmp_path, {"usd": 0.5}, Walker(), coach, train={"batch_size": 3})
    assert spent(path).cost_usd == len(coach.calls) == 1


async def test_an_evaluation_has_a_budget_as_well(tmp_path):
    bounds = {"budget": {"tokens": 50}, "rollout": {"max_concurrent": 2}}
    config, plan = doors_config(tmp_path, **bounds), EvalPlan("test", 4)
    with start_run(config, "", plan) as run, pytest.raises(BudgetSpent, match="of 50 tokens"):
        await run_evaluation(run, plan, NullCallback(), llms(Paid()))


async def test_a_cost_that_nobody_knows_stops_a_budget_in_money(tmp_path):
    class Silent(Walker):
        async def complete(self, messages, **about):
            answer = await super().complete(messages, **about)
            return replace(answer, usage=Usage(calls=1, cost_usd=None))

    path, said = await until_spent(tmp_path, {"usd": 5.0}, Silent())
    assert "did not say what a call used" in said
    assert said.endswith("such as budget.usd=null budget.minutes=60")
    with open_run(path, overrides=["budget.usd=null", "budget.minutes=60"]) as again:
        assert (again.config.budget.usd, again.config.budget.minutes) == (None, 60)


async def test_without_a_budget_nobody_asks(tmp_path):
    await trained(doors_config(tmp_path), Paid(), Coach(PLAN))


async def test_the_bound_that_was_reached_is_named_with_a_whole_number(tmp_path):
    config = doors_config(tmp_path, budget={"usd": 99.0, "tokens": 500})
    with start_run(config, "") as run, pytest.raises(BudgetSpent) as caught:
        await run_training(run, NullCallback(), llms(Paid(), Coach(PLAN)))
    assert re.fullmatch(r"--set budget\.tokens=[0-9]+", caught.value.larger)
    with open_run(run.folder.path, overrides=caught.value.larger.split()[1:]) as again:
        assert again.config.budget.tokens > 500


def test_a_large_bound_is_written_without_an_exponent():
    assert _larger("tokens", 3_000_000, 3_000_007) == "--set budget.tokens=6000000"
    assert _larger("usd", 0.2, 0.45) == "--set budget.usd=0.8"


# --- permits ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        yield run.store


async def test_minutes_are_counted_and_whoever_has_a_permit_ends_in_peace(store):
    now, events = [0.0], []
    budget = Budget(BudgetSection(minutes=2), store, clock=lambda: now[0])
    first_may_end = asyncio.Event()

    async def first():
        async with budget.permit():
            await first_may_end.wait()
            async with budget.permit():  # part of the same work
                events.append("first ended")

    async def second():
        await asyncio.sleep(0)
        now[0] = 121.0
        first_may_end.set()
        try:
            async with budget.permit():
                events.append("second began")
        except BudgetSpent:
            events.append("second refused")
            raise

    with pytest.raises(BudgetSpent, match="of 2 minutes is spent"):
        await together([first(), second()])
    assert events == ["first ended", "second refused"]


async def test_a_budget_of_less_than_a_second_is_told_as_it_is(store):
    now = [0.0]
    budget = Budget(BudgetSection(minutes=0.0005), store, lambda: now[0])
    now[0] = 0.06
    with pytest.raises(BudgetSpent, match=r"of 0\.0005 minutes is spent: 0\.001 minutes"):
        async with budget.permit():
            pass


async def test_work_that_fails_gives_its_permit_back(store):
    budget = Budget(BudgetSection(minutes=1), store)
    with pytest.raises(KeyError):
        async with budget.permit():
            raise KeyError
    async with asyncio.timeout(1):
        spent_one = Budget(BudgetSection(minutes=1), store, clock=iter([0.0, 99.0, 99.0]).__next__)
        with pytest.raises(BudgetSpent):
            async with spent_one.permit():
                pass


# --- before it begins, and how it ends ----------------------------------------------------------


def endpoints(tmp_path, **target):
    priced = {"prices": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 2, "as_of": "today"}}
    remote = {"backend": "openai_chat", "base_url": "http://localhost:1/v1"}
    models = {
        "target": remote | {"model": "t"} | target,
        "optimizer": remote | {"model": "o"} | priced,
    }
    return doors_config(tmp_path, models=models, budget={"usd": 1})


async def test_money_that_could_not_be_counted_is_refused_before_anything_is_asked(tmp_path):
    config = endpoints(tmp_path)
    with pytest.raises(ConfigError, match=r"'t' \(models.target\).*models.target.prices"):
        await preflight(config)


EMBEDDER = "http://127.0.0.1:1/v1#letters"


async def test_an_embedder_whose_cost_nobody_knows_is_refused_where_a_bank_is_told(tmp_path):
    bound = {"bank": {"embedder": EMBEDDER}, "budget": {"usd": 1}}
    refuse_unpriced(doors_config(tmp_path, **bound))  # without a bank nothing is embedded
    config = doors_config(tmp_path, **bound, skill={"bank": "seed:alfworld"})
    unheld = (
        "budget.usd = 1 cannot be held: no prices are known for bank.embedder "
        f"'{EMBEDDER}'; bound budget.tokens instead"
    )
    with pytest.raises(ConfigError, match=re.escape(unheld)):
        await preflight(config)
    refuse_unpriced(config.model_copy(update={"budget": BudgetSection(tokens=1)}))


@pytest.mark.parametrize("free", ["lexical", "all-MiniLM-L6-v2", ""])
def test_what_embeds_on_this_machine_is_free(free):
    refuse_unheld(BudgetSection(usd=1), [], free)


def test_an_endpoint_with_a_listed_price_may_embed():
    refuse_unheld(BudgetSection(usd=1), [], "https://api.openai.com/v1#gpt-6-luna")


def test_each_mind_says_its_price_and_how_old_that_is(tmp_path):
    lines = [llm.line() for llm in priced_models(endpoints(tmp_path))]
    assert lines == [
        "target t: prices unknown; set models.target.prices",
        "optimizer o: 1 in, 2 out, USD per million (today)",
    ]
    assert [llm.line() for llm in priced_models(doors_config(tmp_path))] == [
        "target household: free",
        "optimizer analyst: free",
    ]


def test_a_listed_model_needs_no_prices(tmp_path):
    vendor = {"base_url": "https://api.openai.com/v1", "model": "gpt-6-luna"}
    refuse_unpriced(endpoints(tmp_path, **vendor))


async def test_nothing_else_of_a_run_can_change(tmp_path):
    path, _ = await until_spent(tmp_path, {"usd": 0.2})
    with pytest.raises(ConfigError, match=r"'train.epochs=9' cannot change"):
        open_run(path, overrides=["budget.usd=9", "train.epochs=9"])
    assert load_config(path / "config.yaml").budget.usd == 0.2


def test_the_command_line_says_so_and_ends_with_a_code_of_its_own(capsys):
    stop = BudgetSpent("The budget of 1 USD is spent.")
    stop.larger = "--set budget.usd=2.0"
    with pytest.raises(typer.Exit) as ended, exit_codes("skillwright resume X"):
        raise stop
    assert ended.value.exit_code == 3
    said = capsys.readouterr().err
    assert "The budget of 1 USD is spent." in said
    assert "error" not in said
    assert "continue with:  skillwright resume X --set budget.usd=2.0\n" in said


def test_prices_by_name_hold_where_a_model_has_none_of_its_own(tmp_path):
    table = {name: {"input_usd_per_mtok": 3, "output_usd_per_mtok": 4} for name in ("t", "o", "x")}
    given = endpoints(tmp_path).models.model_dump(exclude={"prices"})
    models = doors_config(tmp_path, models=given | {"prices": table}).models
    assert models.target.prices.input_usd_per_mtok == 3
    assert models.optimizer.prices.input_usd_per_mtok == 1


async def test_the_ledger_keeps_seconds_hits_and_what_went_into_the_cache(tmp_path):
    used = Usage(1, 100, 10, 40, 2, 0.5, 30, 5, 7, seconds=1.5)

    class Counted(Coach):
        async def complete(self, messages, **about):
            return replace(await super().complete(messages, **about), usage=used)

    coach = Counted([])
    path, _ = await trained(doors_config(tmp_path), Walker(), coach)
    with look(path) as store:
        reflected = store.usage_by_purpose()["reflect"]
    count = reflected.calls
    assert count == len(coach.calls) > 0
    assert (reflected.cache_write_tokens, reflected.reasoning_tokens) == (30 * count, 5 * count)
    assert (reflected.cache_hits, reflected.seconds) == (7 * count, 1.5 * count)


def test_a_program_that_tells_its_cost_needs_no_prices(tmp_path):
    models = endpoints(tmp_path).models.model_dump(exclude={"prices"})
    program = {"backend": "claude_code_exec", "model": "claude-opus-5-5"}
    config = doors_config(tmp_path, models=models | {"target": program}, budget={"usd": 1})
    refuse_unpriced(config)
    assert "as the program itself estimates it" in priced_models(config)[0].line()
    gateway = program | {"base_url": "http://localhost:4000"}
    other = doors_config(tmp_path, models=models | {"target": gateway}, budget={"usd": 1})
    with pytest.raises(ConfigError, match="no prices are known"):
        refuse_unpriced(other)


async def test_attempts_that_came_to_nothing_are_paid_for_all_the_same(tmp_path):
    class Shaky(Paid):
        """Breaks down at every fifth question, in the middle of an episode or at its start."""

        answered = 0

        async def complete(self, messages, **about):
            answer = await super().complete(messages, **about)
            if len(self.calls) % 5 == 0:
                raise EndpointFault("reset")
            self.answered += 1
            return answer

    target = Shaky()
    path, _ = await trained(doors_config(tmp_path), target, Coach(PLAN))
    with look(path) as store:
        used = store.usage_by_purpose()["rollout"]
    assert used.calls == target.answered
    assert used.cost_usd == pytest.approx(PRICE * target.answered)
    assert used.failed_calls == len(target.calls) - target.answered > 10
