"""What an embedder of an endpoint takes is in the run's ledger, and counts for its budget."""

import pytest

from bank.test_embed import Server
from rl_world import Notebook, ObedientMaker, lanes_config, llms, recipe, resumed
from skillwright.core import Purpose, Usage
from skillwright.jobs.run import BudgetSpent
from skillwright.jobs.weights import open_rl, run_rl, start_rl
from skillwright.jobs.weights.wiring import rl_parts
from skillwright.runs import RunStore

TOKENS = 7  # what the server says of every request


@pytest.fixture
def server():
    with Server() as running:
        yield running


def asking(folder, server, **sections):
    """A recipe whose skills are found by an endpoint's vectors."""
    bank = {"embedder": f"{server.base_url}#letters"}
    return lanes_config(folder, bank=bank, grpo={"iterations": 3}, **sections)


def embedded(path):
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        return store.usage_by_purpose().get(Purpose.EMBED.value, Usage())


async def test_what_embedding_consumed_is_in_the_ledger(tmp_path, server):
    config = asking(tmp_path, server)
    path, _ = await recipe(config, maker=ObedientMaker(config))
    used = embedded(path)
    assert used.calls == len(server.bodies) > 3
    assert used.input_tokens == TOKENS * len(server.bodies)


async def test_what_embedding_consumed_counts_for_the_budget_over_all_resumes(tmp_path, server):
    bound = 3 * TOKENS
    config = asking(tmp_path, server, budget={"tokens": bound})
    with pytest.raises(BudgetSpent, match="tokens is spent"):
        await recipe(config, maker=ObedientMaker(config))
    path = tmp_path / "runs" / "lanes"
    asked = len(server.bodies)
    assert bound <= embedded(path).input_tokens == TOKENS * asked
    with pytest.raises(BudgetSpent):  # before anything is asked again
        await resumed(path, maker=ObedientMaker(config))
    with open_rl(path, overrides=["budget.tokens=100000"]) as run:
        report = await run_rl(run, Notebook(), llms(), ObedientMaker(config))
    assert report.state.finished
    assert embedded(path).input_tokens == TOKENS * len(server.bodies)


async def test_a_run_that_ends_before_the_next_permit_has_written_it_down(tmp_path, server):
    config = asking(tmp_path, server)
    with start_rl(config) as run:
        async with rl_parts(run.config, run.store, Notebook(), llms()) as parts:
            parts.injector.embedder.encode_queries(["abc"])
        assert embedded(run.folder.path).input_tokens == TOKENS
