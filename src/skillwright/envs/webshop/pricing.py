"""Prices and price limits, drawn by hash: the same in every process, in any order.

The original draws them from an unseeded generator, so that its goals differ between processes.
"""

import math
import re
from collections.abc import Sequence
from typing import Final

from skillwright.core.seeds import SEED_BITS, derive_seed
from skillwright.envs.webshop.product import UNKNOWN_PRICE

LIMITS: Final = tuple(10.0 * tens for tens in range(1, 100))
_NEXT_LIMITS: Final = 4
NO_LIMIT: Final = 1_000_000.0


def parse_pricing(text: object) -> tuple[float, ...]:
    """Read a price such as ``$9.99`` or ``$9.99$19.99``; what is none gives ``()``.

    Returns:
        No price, one, or the two ends of a range, in the order in which they are written.
    """
    if not isinstance(text, str):
        return ()
    numbers = [re.sub(r"[^\d.]", "", part) for part in text.split("$")[1:]]
    prices = [float(number) for number in numbers if re.fullmatch(r"\d+(\.\d*)?|\.\d+", number)]
    return tuple(filter(math.isfinite, prices))[:2]


def drawn_price(asin: str, prices: Sequence[float], seed: int) -> float:
    """Return what a product costs: one price as it is, a uniform draw from a range.

    Returns:
        Dollars, to the cent where they are drawn.
    """
    if len(prices) < 2:
        return prices[0] if prices else UNKNOWN_PRICE
    one, other = prices[0], prices[1]
    share = derive_seed("webshop-price", seed, asin) / float(2**SEED_BITS)
    return round(one + (other - one) * share, 2)


def price_limit(asin: str, price: float, seed: int) -> float:
    """Return the most that a goal's customer would pay.

    The larger of two different ones among the next four multiples of 10 dollars above ``price``
    and below 1,000; `NO_LIMIT` where there are fewer than two.
    """
    above = [limit for limit in LIMITS if limit > price][:_NEXT_LIMITS]
    if len(above) < 2:
        return NO_LIMIT
    # Of the pairs of n limits, k have limit k as the larger one.
    larger = [limit for index, limit in enumerate(above) for _ in range(index)]
    return larger[derive_seed("webshop-limit", seed, asin) % len(larger)]


def limit_text(limit: float) -> str:
    """Return what an instruction says about the price; nothing where there is no limit."""
    return "" if limit >= NO_LIMIT else f", and price lower than {limit:.2f} dollars"
