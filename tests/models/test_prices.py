"""Money: list prices with a date, tiers, and what a person says instead."""

from datetime import date
from itertools import pairwise

import pytest

from skillwright.core import Usage
from skillwright.models import ClaudeChatConfig, OpenAIChatConfig, Prices
from skillwright.models.http.wire import cost_usd
from skillwright.models.prices import LongPromptPrices, _file, list_prices


def test_a_model_at_its_vendors_address_has_a_list_price_with_its_age():
    prices = OpenAIChatConfig(model="gpt-6-luna").known_prices
    assert (prices.input_usd_per_mtok, prices.output_usd_per_mtok) == (0.10, 0.50)
    assert prices.as_of == "2026-09-28, cost tools that cite the vendor"


@pytest.mark.parametrize(
    "config",
    [
        OpenAIChatConfig(model="gpt-6-luna", base_url="http://localhost:8000/v1"),
        OpenAIChatConfig(model="gpt-6-luna", base_url="https://openrouter.ai/api/v1"),
        OpenAIChatConfig(model="gpt-99"),
    ],
)
def test_elsewhere_and_of_other_models_the_price_is_unknown(config):
    assert config.known_prices is None
    assert cost_usd(Usage(1, 100, 10), config.known_prices) is None


@pytest.mark.parametrize("name", ["claude-haiku-4-5-20251001", "Claude-Haiku-4-5"])
def test_a_snapshot_costs_what_its_model_costs(name):
    assert ClaudeChatConfig(model=name).known_prices == list_prices(
        "claude-haiku-4-5", "https://api.anthropic.com"
    )


def test_what_a_person_says_comes_before_the_list():
    mine = Prices(input_usd_per_mtok=7, output_usd_per_mtok=8)
    assert OpenAIChatConfig(model="gpt-6-luna", prices=mine).known_prices is mine


def test_a_long_prompt_costs_more_for_the_whole_call():
    prices = list_prices("claude-haiku-5-5", "https://api.anthropic.com")
    short = Usage(1, 100_000, 1_000_000)
    assert cost_usd(short, prices) == pytest.approx(0.01 + 0.50)
    assert cost_usd(Usage(1, 100_001, 1_000_000), prices) == pytest.approx(0.05 + 2.50, rel=1e-4)


def test_cached_and_written_prompt_tokens_have_prices_of_their_own():
    prices = list_prices("gpt-6.1-sol", "https://api.openai.com/v1")
    usage = Usage(1, 200_000, 0, cached_tokens=100_000, cache_write_tokens=50_000)
    assert cost_usd(usage, prices) == pytest.approx(0.05 * 2 + 0.1 * 0.10 + 0.05 * 2.5)


def test_a_tier_without_a_cached_price_charges_them_in_full():
    tier = LongPromptPrices(over_tokens=10, input_usd_per_mtok=4, output_usd_per_mtok=0)
    prices = Prices(input_usd_per_mtok=2, output_usd_per_mtok=0, long_prompts=tier)
    assert cost_usd(Usage(1, 20, 0, cached_tokens=20), prices) == pytest.approx(80e-6)


def test_every_row_is_whole_dated_and_sensible():
    rows, hosts = _file()["prices"], _file()["hosts"]
    assert len({(row["vendor"], row["model"]) for row in rows}) == len(rows)
    for row in rows:
        host = next(host for host, vendor in hosts.items() if vendor == row["vendor"])
        prices = list_prices(row["model"], f"https://{host}")
        assert prices.as_of
        tiers = [prices, *([prices.long_prompts] if prices.long_prompts else [])]
        for tier in tiers:
            assert 0 < (tier.cached_input_usd_per_mtok or 0.001) < tier.input_usd_per_mtok
            assert tier.input_usd_per_mtok < tier.output_usd_per_mtok
        assert all(a.input_usd_per_mtok < b.input_usd_per_mtok for a, b in pairwise(tiers))


@pytest.mark.parametrize("age", ["2026-11-01", date(2026, 11, 1)])
def test_the_age_of_a_price_may_be_a_date(age):
    prices = Prices(input_usd_per_mtok=1, output_usd_per_mtok=2, as_of=age)
    assert prices.as_of == "2026-11-01"
