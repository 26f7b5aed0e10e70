"""Colours: the first of a fixed list that an option contains stands for the whole of it.

The list is the one that the original's reward reduces options by; another list is another score.
It is looked through in order, and also inside words (``red`` in ``wired``), as there.
"""

from typing import Final

from skillwright.envs.webshop.words import words

COLOURS: Final = words(
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown "
    "burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee "
    "cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia "
    "gold granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender "
    "lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor "
    "mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red "
    "rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower "
    "tan taupe teal tiger turquoise violet walnut wheat white wine yellow"
)


def plain_colour(option: str) -> str:
    """Return the first colour that ``option`` contains, or ``option`` itself."""
    return next((colour for colour in COLOURS if colour in option), option)
