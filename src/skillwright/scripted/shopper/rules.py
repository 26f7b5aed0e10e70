"""What a skill can teach the scripted shopper."""

from enum import StrEnum
from typing import Final


class ShopRule(StrEnum):
    """Something that a skill may tell the shopper."""

    KEY_WORDS = "key_words"
    """Search in a few key words instead of the customer's whole sentence."""
    PRICE = "price"
    """Pass over what costs more than the limit."""
    OPTIONS = "options"
    """Choose every option that the instruction names before the purchase."""
    FEATURES = "features"
    """Look up on a product's inner pages what its title does not tell."""
    GO_ON = "go_on"
    """Go back and try another hit, or the next page, where something is missing."""
    NEW_WORDS = "new_words"
    """Search anew with other words where nothing fits."""
    BUY_IN_TIME = "buy_in_time"
    """Buy the best that was found before the turns run out."""
    BUY_AT_ONCE = "buy_at_once"
    """Harmful: buy the first hit without a look."""
    CHEAPEST = "cheapest"
    """Harmful: take the cheapest hit."""
    READ_ALL = "read_all"
    """Harmful: open every inner page of every product."""


BAD_RULES: Final = frozenset({ShopRule.BUY_AT_ONCE, ShopRule.CHEAPEST, ShopRule.READ_ALL})
GOOD_RULES: Final = frozenset(ShopRule) - BAD_RULES
