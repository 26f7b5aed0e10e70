"""Prices of calls: those in the settings, or list prices out of a dated file.

A list price holds at the vendor's own address only; elsewhere the price is unknown, never 0.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import NonNegativeFloat, PositiveInt, field_validator

from skillwright.core.settings import Frozen

_DATED = re.compile(r"-(20\d{2}-\d{2}-\d{2}|20\d{6})$")


class TokenPrices(Frozen):
    """Prices of tokens, in US dollars per million."""

    input_usd_per_mtok: NonNegativeFloat
    """Input tokens."""
    output_usd_per_mtok: NonNegativeFloat
    """Output tokens, including reasoning."""
    cached_input_usd_per_mtok: NonNegativeFloat | None = None
    """Input tokens read from the endpoint's cache; unset, as other input."""
    cache_write_usd_per_mtok: NonNegativeFloat | None = None
    """Input tokens written to the cache; unset, as other input."""
    cache_write_1h_usd_per_mtok: NonNegativeFloat | None = None
    """Tokens cached for an hour (Anthropic); unset, as other writes."""


class LongPromptPrices(TokenPrices):
    """Prices of calls with long prompts."""

    over_tokens: PositiveInt
    """Prompt length, in tokens, above which these prices apply."""


class Prices(TokenPrices):
    """Prices in US dollars per million tokens."""

    long_prompts: LongPromptPrices | None = None
    """Prices of calls with long prompts; unset, the same."""
    as_of: str | None = None
    """Date of the prices, shown with costs."""

    @field_validator("as_of", mode="before")
    @classmethod
    def _date_as_text(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, date) else value  # as YAML reads 2026-11-01

    def of_prompt(self, tokens: int) -> TokenPrices:
        """Return the prices of a call, given its number of prompt tokens."""
        long = self.long_prompts
        return long if long is not None and tokens > long.over_tokens else self


@cache
def list_prices(model: str, base_url: str) -> Prices | None:
    """Find the list prices of a model at its vendor's own address, or ``None``."""
    vendor = _file()["hosts"].get(urlsplit(base_url).hostname)
    if vendor is None:
        return None
    rows = _rows()
    name = model.lower()
    return rows.get((vendor, name)) or rows.get((vendor, _DATED.sub("", name)))


@cache
def _file() -> Mapping[str, Any]:
    text = files("skillwright.models").joinpath("prices.yaml").read_text(encoding="utf-8")
    # Where PyYAML comes with its parser in C, that is ten times as fast.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content: Mapping[str, Any] = yaml.load(text, Loader=loader)
    return content


@cache
def _rows() -> Mapping[tuple[str, str], Prices]:
    return {(row["vendor"], row["model"]): _prices(row) for row in _file()["prices"]}


def _prices(row: Mapping[str, Any]) -> Prices:
    long = row.get("long_prompts")
    tier = long and LongPromptPrices(over_tokens=long["over_tokens"], **_tokens(long))
    return Prices(**_tokens(row), long_prompts=tier, as_of=f"{row['as_of']}, {row['source']}")


def _tokens(row: Mapping[str, Any]) -> dict[str, float | None]:
    return {
        "input_usd_per_mtok": row["input"],
        "output_usd_per_mtok": row["output"],
        "cached_input_usd_per_mtok": row.get("cached"),
        "cache_write_usd_per_mtok": row.get("write"),
        "cache_write_1h_usd_per_mtok": row.get("write_1h"),
    }
