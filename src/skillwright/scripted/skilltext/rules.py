"""The rules of conduct that a household skill can give."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Rule(StrEnum):
    """Something that a skill may tell the agent to do, or not to do."""

    SEARCH_ONCE = "search_once"
    """Search the places systematically, each once."""
    OPEN_CLOSED = "open_closed"
    """Open closed receptacles to look inside."""
    TAKE_ON_SIGHT = "take_on_sight"
    """Take the wanted object when it is seen."""
    CLEAN_FIRST = "clean_first"
    """Clean the object at a sink basin before placing it, where the task wants it clean."""
    HEAT_FIRST = "heat_first"
    """Heat the object in the microwave before placing it, where the task wants it hot."""
    COOL_FIRST = "cool_first"
    """Cool the object in the fridge before placing it, where the task wants it cool."""
    USE_LAMP = "use_lamp"
    """Carry the object to the lamp and switch it on, where the task is to look at it there."""
    FETCH_SECOND = "fetch_second"
    """Bring one object, then the second, to the same receptacle, where the task wants two."""
    OPEN_TO_PLACE = "open_to_place"
    """Open the destination if it is closed, before placing."""
    LIKELY_FIRST = "likely_first"
    """Look first where such an object is usually kept."""
    CHECK_INVENTORY = "check_inventory"
    """Harmful: check the inventory after every move."""
    EXAMINE_ALL = "examine_all"
    """Harmful: examine every receptacle and object before going on."""
    LOOK_AROUND = "look_around"
    """Harmful: look around after every move."""
    RETURN_TO_START = "return_to_start"
    """Harmful: go back to where the search began, again and again."""
    FEW_PLACES = "few_places"
    """Harmful: search the first few places only."""


GOOD_RULES: Final = (
    Rule.SEARCH_ONCE,
    Rule.OPEN_CLOSED,
    Rule.TAKE_ON_SIGHT,
    Rule.CLEAN_FIRST,
    Rule.HEAT_FIRST,
    Rule.COOL_FIRST,
    Rule.USE_LAMP,
    Rule.FETCH_SECOND,
    Rule.OPEN_TO_PLACE,
    Rule.LIKELY_FIRST,
)
"""Following them helps; forbidding one of them harms."""

BAD_RULES: Final = tuple(rule for rule in Rule if rule not in GOOD_RULES)
"""Following them wastes steps or ends the search too early."""


@dataclass(frozen=True, slots=True)
class Stance:
    """What a text says about one rule."""

    rule: Rule  # which one
    wanted: bool  # it asks for the doing; ``False`` where it forbids it
    source: str  # the line that says so, verbatim
    number: int = 0  # how many places are few, for `Rule.FEW_PLACES`

    @property
    def is_harmful(self) -> bool:
        """It forbids what helps, or asks for what harms."""
        return self.wanted == (self.rule in BAD_RULES)


@dataclass(frozen=True, slots=True)
class Conduct:
    """The rules that hold once a whole text is read.

    Precedence: a later sentence overrides an earlier one about the same rule.
    """

    # rule -> the last thing that the text says about it
    stances: Mapping[Rule, Stance] = field(default_factory=dict)

    def follows(self, rule: Rule) -> bool:
        """The text asks for it."""
        stance = self.stances.get(rule)
        return stance is not None and stance.wanted

    def forbids(self, rule: Rule) -> bool:
        """The text forbids it."""
        stance = self.stances.get(rule)
        return stance is not None and not stance.wanted


EXPERT_CONDUCT: Final = Conduct({rule: Stance(rule, True, "") for rule in GOOD_RULES})
"""Every good rule, and no bad one."""
